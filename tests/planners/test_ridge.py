"""The closed form against explicit fits, with as many rows as dimensions and with fewer."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from p3iv.planners.ridge import PENALTIES, VALIDATED_PENALTIES, GroupedRidge, fit_on_validation, with_intercept


def problem(num_rows: int, width: int = 12, num_groups: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(num_rows)
    rows = functional.normalize(torch.randn(num_rows, width, generator=generator, dtype=torch.float64), dim=1)
    groups = torch.randint(num_groups, (num_rows,), generator=generator)
    return rows, groups, torch.randint(5, (num_rows,), generator=generator)


def refit(rows: Tensor, targets: Tensor, penalty: float) -> Tensor:
    gram = rows.T @ rows + penalty * torch.eye(rows.shape[1], dtype=torch.float64)
    weights: Tensor = torch.linalg.solve(gram, rows.T @ targets)
    return weights


@pytest.mark.parametrize("num_rows", [8, 12, 70])
@pytest.mark.parametrize("penalty", [0.5, 6.0])
def test_the_closed_form_equals_a_refit_without_each_group(num_rows: int, penalty: float) -> None:
    rows, groups, ids = problem(num_rows)
    targets = functional.one_hot(ids, 5).double()
    fit = GroupedRidge(rows, groups).fit(targets, penalty)
    torch.testing.assert_close(fit.weights, refit(rows, targets, penalty), atol=1e-10, rtol=0)
    for group in groups.unique():
        own = groups == group
        expected = rows[own] @ refit(rows[~own], targets[~own], penalty)
        torch.testing.assert_close(fit.held_out[own], expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(
        GroupedRidge(rows, groups).fit(targets, penalty, num_scored=7).held_out, fit.held_out[:7]
    )


def test_rows_that_depend_on_one_another_have_a_fit_too() -> None:
    rows, groups, ids = problem(30)
    rows = torch.cat((rows[:, :4], rows[:, :4], torch.zeros(30, 2, dtype=torch.float64)), dim=1)
    targets = functional.one_hot(ids, 5).double()
    torch.testing.assert_close(GroupedRidge(rows, groups).fit(targets, 3.0).weights, refit(rows, targets, 3.0))


def test_the_penalty_is_the_one_most_often_right_on_judged_rows_that_were_left_out() -> None:
    rows, groups, ids = problem(200, width=30)
    ids = (rows[:, :5] + 0.3 * torch.randn(200, 5, generator=torch.Generator().manual_seed(1))).argmax(dim=1)
    ridge = GroupedRidge(rows, groups)
    num_scored = 120
    targets = functional.one_hot(ids, 5).double()
    right = {p: int((ridge.fit(targets, p).held_out.argmax(dim=1) == ids)[:num_scored].sum()) for p in PENALTIES}
    assert len(set(right.values())) > 1
    assert right[ridge.choose(ids, 5, num_scored=num_scored).penalty] == max(right.values())


def test_no_group_scores_itself() -> None:
    """Other labels in a group leave its own held-out scores as they are, and change those of the other groups."""
    rows, groups, ids = problem(60)
    changed = torch.where(groups == 2, (ids + 1) % 5, ids)
    first, second = (GroupedRidge(rows, groups).fit(functional.one_hot(i, 5).double(), 3.0) for i in (ids, changed))
    own = groups == 2
    torch.testing.assert_close(first.held_out[own], second.held_out[own])
    assert not torch.allclose(first.held_out[~own], second.held_out[~own])


def refit_with_intercept(rows: Tensor, ids: Tensor, scale: Tensor, penalty: float) -> Tensor:
    """The weights for unscaled rows of a fit to scaled ones."""
    scaled, targets = with_intercept(rows * scale), functional.one_hot(ids, 5).double()
    spare = torch.tensor([penalty] * rows.shape[1] + [0.0], dtype=torch.float64)
    weights: Tensor = torch.linalg.solve(scaled.T @ scaled + torch.diag(spare), scaled.T @ targets)
    return torch.cat((scale, scale.new_ones(1)))[:, None] * weights


@pytest.mark.parametrize("num_rows", [9, 80])
def test_a_fit_on_validation_has_a_free_intercept_and_the_scale_and_penalty_most_often_right(num_rows: int) -> None:
    """Against normal equations whose penalty spares the last column, the ones."""
    (rows, _, ids), (val_rows, _, val_ids) = problem(num_rows), problem(60)
    rows, val_rows, spread = 5 * rows + 3, 5 * val_rows + 3, torch.linspace(0.1, 4.0, 12, dtype=torch.float64)
    observed = spread / ((rows - rows.mean(dim=0)) * spread).square().mean().sqrt()
    targets = [(ids, val_ids), (4 - ids, (val_ids + 1) % 5)]
    found = fit_on_validation(rows, val_rows, targets, 5, spread)
    for weights, (own_ids, asked_ids) in zip(found, targets, strict=True):
        fits = [
            refit_with_intercept(rows, own_ids, scale, penalty)
            for scale in (torch.ones_like(spread), observed)
            for penalty in VALIDATED_PENALTIES
        ]
        right = [int(((with_intercept(val_rows) @ fit).argmax(dim=1) == asked_ids).sum()) for fit in fits]
        torch.testing.assert_close(weights, fits[right.index(max(right))].float(), atol=1e-6, rtol=1e-4)
