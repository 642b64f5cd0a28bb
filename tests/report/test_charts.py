from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from p3iv.catalogue import LOSS_TERMS
from p3iv.report.charts import MAX_POINTS, draw_curves, nice_ticks, spread
from p3iv.report.run_files import read_run


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 8))
def test_ticks_cover_the_range_evenly(low: float, extent: float, max_ticks: int) -> None:
    ticks = nice_ticks(low, low + extent, max_ticks=max_ticks)
    assert ticks[0] <= low + extent * 1e-6
    assert ticks[-1] >= low + extent * (1 - 1e-6)
    assert len(ticks) <= max_ticks + 2


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 100), max_size=5))
def test_labels_at_the_ends_of_lines_do_not_overlap(places: dict[str, float]) -> None:
    moved = sorted(spread(places, min_distance=11, lowest=100).values())
    assert all(after - before >= 11 - 1e-9 for before, after in pairwise(moved))
    assert all(place <= 100 for place in moved)


def test_a_long_run_is_thinned_and_a_gap_is_skipped() -> None:
    epochs = tuple(map(float, range(1, 5001)))
    action = tuple(math.nan if epoch == 500 else math.exp(-epoch / 100) for epoch in epochs)
    (panel,) = draw_curves({"epoch": epochs, "action": action}, kept_epoch=5000)
    (points,) = re.findall(r'points="([^"]*)"', panel)
    assert "nan" not in points
    assert len(points.split()) <= MAX_POINTS + 1


def test_every_column_of_one_epoch_is_drawn() -> None:
    metrics = {"epoch": (1.0,), "action": (2.5,), "critic_real": (0.0,), "seconds": (3.0,)}
    assert len(draw_curves(metrics, kept_epoch=1)) == 2


def test_loss_terms_without_an_entry_in_the_catalogue_get_a_panel() -> None:
    (panel,) = draw_curves({"epoch": (1.0, 2.0), "novelty": (2.5, 1.0)}, kept_epoch=1)
    assert "Loss: novelty" in panel


def test_the_losses_of_p3iv_plus_are_drawn(plus_run: Path) -> None:
    run = read_run(plus_run)
    drawn = " ".join(draw_curves(run.metrics, run.evaluation.epoch))
    losses = set(run.metrics) & set(LOSS_TERMS)
    assert {"chain", "ends", "spread"} <= losses
    assert all(f">{LOSS_TERMS[name].label}</text>" in drawn for name in losses)
