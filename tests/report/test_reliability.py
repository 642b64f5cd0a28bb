from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from p3iv.evaluation.predictions import NamedLine
from p3iv.metrics.intervals import Clusters, mean_intervals
from p3iv.metrics.plans import NUM_BINS, calibration_error
from p3iv.report.reliability import Reliability, ReliabilityCounts, draw_reliability

verdicts = st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.sampled_from("abcd")), min_size=1, max_size=60)


@given(verdicts)
def test_bins_equal_a_plain_count(plans: list[tuple[float, bool, str]]) -> None:
    counts = ReliabilityCounts()
    for probability, is_right, video in plans:
        counts.add(probability, is_right=is_right, video=video)
    assert counts.total == len(plans)
    for bin_ in counts.bins:
        low, high = bin_.place / NUM_BINS, (bin_.place + 1) / NUM_BINS
        is_last = bin_.place == NUM_BINS - 1
        here = [plan for plan in plans if int(plan[0] * NUM_BINS) == bin_.place or (is_last and plan[0] == 1)]
        assert len(here) == bin_.num_plans
        hits = torch.tensor([right for _, right, _ in here])
        expected = mean_intervals({"success_rate": hits}, Clusters.of([video for _, _, video in here]))["success_rate"]
        assert vars(bin_.observed) == pytest.approx(vars(expected), nan_ok=True)
        assert bin_.predicted == pytest.approx(sum(p for p, _, _ in here) / len(here))
        assert low - 1e-9 <= bin_.predicted <= high + 1e-9


def test_calibration_error_is_zero_where_predicted_and_observed_agree() -> None:
    counts = ReliabilityCounts()
    for number in range(100):
        counts.add(0.25, is_right=number < 25, video=str(number))
        counts.add(0.95, is_right=number < 95, video=str(number))
    assert counts.calibration_error == pytest.approx(0)
    counts.add(1.0, is_right=False, video="1")
    assert counts.num_plans[-1] == 101
    assert counts.calibration_error > 0


def test_every_sampled_plan_is_counted_at_its_share() -> None:
    samples = ((("a",), 70), (("b",), 30))
    counts = Reliability()
    counts.add(NamedLine(window="v:0", plan=("a",), plan_probability=0.95, reference=("b",), samples=samples))
    assert [(bin_.place, bin_.num_plans, bin_.observed.value) for bin_ in counts.sampled.bins] == [
        (3, 1, 1.0),
        (7, 1, 0.0),
    ]
    assert [(bin_.place, bin_.observed.value) for bin_ in counts.recommended.bins] == [(9, 0.0)]
    assert "2 plans" in draw_reliability(counts.sampled, title="samples", x_label="share")


def test_the_calibration_error_is_the_one_that_evaluate_prints() -> None:
    counts, generator = ReliabilityCounts(), torch.Generator().manual_seed(0)
    probabilities = torch.rand(300, generator=generator).double()
    right = torch.rand(300, generator=generator) < 0.4
    for number, (probability, is_right) in enumerate(zip(probabilities.tolist(), right.tolist(), strict=True)):
        counts.add(probability, is_right=is_right, video=str(number % 7))
    assert counts.calibration_error == pytest.approx(calibration_error(probabilities, right), abs=1e-9)
