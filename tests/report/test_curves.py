from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from p3iv.report.curves import MOST_POINTS, draw_curves, spread
from p3iv.report.inputs import read_run
from p3iv.report.svg import nice_ticks
from report.runs import make_run


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 8))
def test_ticks_cover_the_range_evenly(low: float, extent: float, most: int) -> None:
    ticks = nice_ticks(low, low + extent, most=most)
    assert ticks[0] <= low + extent * 1e-6
    assert ticks[-1] >= low + extent * (1 - 1e-6)
    assert len(ticks) <= most + 2


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 100), max_size=5))
def test_labels_at_the_ends_of_lines_stand_apart(places: dict[str, float]) -> None:
    moved = sorted(spread(places, least=11, lowest=100).values())
    assert all(after - before >= 11 - 1e-9 for before, after in pairwise(moved))
    assert all(place <= 100 for place in moved)


def test_a_long_run_is_thinned_and_a_gap_is_skipped(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rows = [f"{epoch},{'nan' if epoch == 500 else math.exp(-epoch / 100)}" for epoch in range(1, 5001)]
    (run / "metrics.csv").write_text("\n".join(["epoch,action", *rows, "5001"]))
    (panel,) = draw_curves(read_run(run))
    (points,) = re.findall(r'points="([^"]*)"', panel)
    assert "nan" not in points
    assert len(points.split()) <= MOST_POINTS + 1


def test_one_epoch_makes_a_panel(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "metrics.csv").write_text("epoch,action,critic_real\n1,2.5,0.0\n")
    assert len(draw_curves(read_run(run))) == 2
