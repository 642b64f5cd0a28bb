"""Ridge regression in closed form, with two ways to choose its penalty: on held-out groups, or on validation rows.

`GroupedRidge` leaves out one group, the rows of one video, at a time. The hat matrix H of a ridge regression gives the
scores of group g by a regression without that group, and needs no second fit:

    held_out_g = Y_g - (I - H_gg)^-1 (Y_g - H_g Y)

All is computed in the min(rows, width) axes of the rows' own spectrum, so that one decomposition serves all penalties.
No square matrix has more than min(rows, width)^2 entries, or (rows of one video)^2: 32 MiB for 1,024 features at each
end, independent of the number of windows. Only a few arrays of (rows, width or classes) grow with the rows.

`fit_on_validation` fits plain classifiers with a free intercept and chooses scale and penalty on validation rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

PENALTIES = (1.5, 3.0, 6.0, 12.0, 24.0)  # for rows of length 1

MIN_EIGENVALUE = 1e-10  # relative to the largest one; smaller ones are rounding errors


@dataclass(frozen=True)
class RidgeFit:
    """A linear classifier, and how it scores each row without that row's group."""

    weights: Tensor  # (D, C) float64
    held_out: Tensor  # (num_scored, C) float64
    penalty: float


class Ridge:
    """Rows, decomposed once for all penalties and targets."""

    def __init__(self, rows: Tensor) -> None:
        """Decompose rows (n, D)."""
        rows = rows.double()
        is_tall = len(rows) > rows.shape[1]
        square = rows.T @ rows if is_tall else rows @ rows.T
        values, vectors = torch.linalg.eigh(square)
        kept = values > MIN_EIGENVALUE * values[-1].clamp_min(1e-300)
        self.values, vectors = values[kept], vectors[:, kept]  # (r,)
        self.axes = vectors if is_tall else rows.T @ (vectors / self.values.sqrt())  # (D, r)
        self.places = rows @ self.axes  # (n, r): the rows in these axes

    def weights(self, targets: Tensor, penalty: float) -> Tensor:
        """Least squares onto targets (n, C) with a squared penalty on all weights: (D, C)."""
        weights: Tensor = self.axes @ self._solve(targets, penalty)
        return weights

    def _solve(self, targets: Tensor, penalty: float) -> Tensor:
        """The weights in the axes of the rows: (r, C)."""
        solved: Tensor = (1 / (self.values + penalty))[:, None] * (self.places.T @ targets)
        return solved


class GroupedRidge(Ridge):
    """Rows of several groups, which can be scored without their own group."""

    def __init__(self, rows: Tensor, groups: Tensor) -> None:
        """Decompose rows (n, D), each of a group (n,) numbered from 0."""
        super().__init__(rows)
        self.members = [(groups == group).nonzero()[:, 0] for group in groups.unique()]

    def choose(
        self, ids: Tensor, num_classes: int, *, num_scored: int, penalties: Sequence[float] = PENALTIES
    ) -> RidgeFit:
        """The fit onto one-hot classes (n,) whose penalty is right most often on the first rows, held out.

        A row whose class is -1 has none: its targets are zeros, and it does not count.
        """
        targets = functional.one_hot(ids.clamp_min(0), num_classes).double() * (ids >= 0)[:, None]
        best, most = None, -1
        for penalty in penalties:
            fit = self.fit(targets, penalty, num_scored=num_scored)
            right = int((fit.held_out.argmax(dim=1) == ids[:num_scored]).sum())
            if best is None or right > most:
                best, most = fit, right
        if best is None:
            raise AssertionError("there is at least one penalty")
        return best

    def fit(self, targets: Tensor, penalty: float, *, num_scored: int | None = None) -> RidgeFit:
        """The weights for targets (n, C), and the scores of the first `num_scored` rows without their own groups."""
        num_scored = len(targets) if num_scored is None else num_scored
        shrunk, inner = 1 / (self.values + penalty), self._solve(targets, penalty)  # (r,) and (r, C)
        residuals = targets - self.places @ inner
        held_out = targets.new_empty(num_scored, targets.shape[1])
        for members in self.members:
            places = self.places[members]
            hat = (places * shrunk) @ places.T
            own = torch.eye(len(members), dtype=torch.float64) - hat
            scores = targets[members] - torch.linalg.solve(own, residuals[members])
            is_scored = members < num_scored
            held_out[members[is_scored]] = scores[is_scored]
        return RidgeFit(self.axes @ inner, held_out, penalty)


VALIDATED_PENALTIES = (1.0, 10.0, 100.0, 1_000.0, 10_000.0)  # for standardised features


def fit_on_validation(
    rows: Tensor, val_rows: Tensor, targets: Sequence[tuple[Tensor, Tensor]], num_classes: int, spread: Tensor
) -> Tensor:
    """Linear classifiers for several targets, each with the scale and the penalty that are most often right on val.

    Least squares onto one-hot classes, with a squared penalty on all weights except the intercept, which centring the
    rows and the targets makes free. Dimensions count equally, or as much as they varied before they were standardised:
    where they are scores of classes, a graph fitted the second way has 5 points more on held-out videos.

    Args:
        rows: Standardised rows of train, (N, D).
        val_rows: Those of validation.
        targets: For each classifier, class ids (N,) of train and of validation.
        num_classes: C.
        spread: (D,) of the rows before they were standardised.

    Returns:
        Weights (number of targets, D + 1, C), the intercept last.
    """
    rows, center = rows.double() - rows.double().mean(dim=0), rows.double().mean(dim=0)
    observed = spread.double() / (rows * spread).square().mean().sqrt().clamp_min(1e-30)  # rows of a similar size
    asked = with_intercept(val_rows.double())
    best: list[tuple[int, Tensor]] = [(-1, rows)] * len(targets)
    for scale in (torch.ones_like(observed), observed):
        ridge = Ridge(rows * scale)
        for number, (ids, val_ids) in enumerate(targets):
            classes = functional.one_hot(ids, num_classes).double()
            share = classes.mean(dim=0)
            for penalty in VALIDATED_PENALTIES:
                weights = scale[:, None] * ridge.weights(classes - share, penalty)
                weights = torch.cat((weights, (share - center @ weights)[None]))
                hits = int(((asked @ weights).argmax(dim=1) == val_ids).sum())
                best[number] = max(best[number], (hits, weights), key=lambda fit: fit[0])
    return torch.stack([weights for _, weights in best]).float()


def with_intercept(inputs: Tensor) -> Tensor:
    """A column of ones at the end: (N, D + 1)."""
    return torch.cat((inputs, inputs.new_ones(len(inputs), 1)), dim=1)
