"""Contradictions within the printed figures: the arithmetic behind docs/results/reproduction.md."""

from __future__ import annotations

import pytest

from p3iv.experiments.declarations import Table, declarations, published_number


def printed(name: str, dataset: str) -> dict[tuple[str, str], list[float]]:
    """The figures of a table by group and label of their row."""
    table = declarations()[name]
    assert isinstance(table, Table)
    return {
        (row.group, row.label): [published_number(cell) for cell in row.published[dataset]]
        for row in table.rows
        if dataset in row.published
    }


@pytest.mark.parametrize(
    ("name", "dataset"), [("distributions", "crosstask"), ("distributions-coin", "coin"), ("distributions-niv", "niv")]
)
def test_nll_minus_kl_is_not_one_entropy(name: str, dataset: str) -> None:
    """It would be that of the references: at least 0, and the same for every planner on the same windows."""
    rows = printed(name, dataset)
    entropies = {
        kind: [n - k for n, k in zip(rows["NLL", f"Ours - {kind}"], rows["KL-Div", f"Ours - {kind}"], strict=True)]
        for kind in ("deterministic", "probabilistic")
    }
    assert any(abs(a - b) > 0.25 for a, b in zip(*entropies.values(), strict=True))
    assert min(entropy for each in entropies.values() for entropy in each) < -0.2


def test_one_plan_recalls_more_modes_than_it_is_right() -> None:
    """Of one plan per window, recall is at most precision: 0 where the plan is wrong, at most 1 where it is right."""
    rows = printed("modes", "crosstask")
    precisions, recalls = rows["ModePrec", "Ours - deterministic"], rows["ModeRec", "Ours - deterministic"]
    assert all(recall > 1.7 * precision for precision, recall in zip(precisions, recalls, strict=True))


def test_random_plans_are_not_at_chance() -> None:
    niv, coin = (printed("niv-coin", name)["T=3", "Random"] for name in ("niv", "coin"))
    crosstask = printed("crosstask", "crosstask")["", "Random"]
    assert crosstask[2] == pytest.approx(100 / 106, abs=0.01)  # here they are
    assert niv[1] > 1000 * 100 / 48**3
    assert coin[2] < 100 / 778


def test_figures_of_one_dataset_are_printed_for_another() -> None:
    crosstask = printed("crosstask", "crosstask")["", "Retrieval-Based"]
    coin = [printed("niv-coin", "coin")[group, "Retrieval"] for group in ("T=3", "T=4")]
    assert [row[3] for row in coin] == [crosstask[3], crosstask[6]]
    assert [row[1] for row in coin] != [crosstask[1], crosstask[4]]


def test_accuracy_without_any_overlap() -> None:
    """A plan with a right position shares an action with the reference: its set IoU is at least 1 / (2 T - 1)."""
    _, accuracy, iou = printed("viterbi", "crosstask")["", "B Uniform"]
    assert iou < accuracy / 5
