import math

import pytest
import torch

from p3iv.catalogue import (
    DECODERS,
    DEFAULT_DECODER,
    DEFAULT_MODE,
    LOSS_TERMS,
    METRICS,
    OWN_DECODER,
    SAMPLING_MODES,
    length_metrics,
    loss_term,
    metrics_of,
)
from p3iv.metrics.counts import count_plans
from p3iv.metrics.distributions import distribution_values
from p3iv.metrics.intervals import Clusters
from p3iv.metrics.plans import length_values, plan_values
from p3iv.metrics.references import references_of
from p3iv.metrics.released import marginal_values, score_released
from p3iv.plans.decoding import VITERBI


@pytest.mark.parametrize("catalogue", [METRICS, DECODERS, SAMPLING_MODES, LOSS_TERMS])
def test_every_entry_is_found_under_its_own_name(catalogue: dict[str, object]) -> None:
    assert [getattr(entry, "name", None) for entry in catalogue.values()] == list(catalogue)


def test_metrics_of_sampled_plans_are_those_that_are_computed() -> None:
    plans = torch.tensor([[1, 2], [1, 3]])
    values = distribution_values(count_plans(plans[:, None]), references_of(plans), num_actions=4)
    assert set(vars(values)) == {metric.name for metric in metrics_of("samples")}


def test_metrics_of_plans_are_those_that_are_computed() -> None:
    plans = torch.tensor([[1, 2], [1, 3]])
    samples, references = count_plans(plans[:, None]), references_of(plans)
    assert list(plan_values(plans, plans)) == [metric.name for metric in metrics_of("plans")]
    released = {**score_released(plans, plans, Clusters.of("ab")), **marginal_values(samples, references, 4)}
    assert list(released) == [metric.name for metric in metrics_of("released")]


def test_metrics_of_unknown_length_are_those_that_are_computed() -> None:
    plans = torch.tensor([[1, 2], [1, -1]])
    assert [*length_values(plans, plans), "open_nll"] == [metric.name for metric in length_metrics()]


def test_decoders_and_modes_are_those_that_plans_have() -> None:
    assert {OWN_DECODER, *VITERBI, "mode", "argmax"} == set(DECODERS)
    assert DEFAULT_DECODER in VITERBI
    assert DEFAULT_MODE in SAMPLING_MODES


def test_what_released_code_computes_under_a_name_is_a_metric() -> None:
    assert {metric.released for metric in METRICS.values()} - {""} <= {m.name for m in metrics_of("released")}


def test_texts_carry_the_digits_of_a_metric() -> None:
    assert METRICS["success_rate"].text(0.3456) == "34.6"
    assert METRICS["success_rate"].text(0.021, sign=True) == "+2.1"
    assert METRICS["kl"].text(math.inf) == "∞"
    assert METRICS["parameters"].text(1234567) == "1,234,567"
    assert METRICS["kl"].heading == "KL divergence, nats"


def test_the_best_value_follows_the_direction() -> None:
    values = (0.2, math.nan, 0.5)
    assert METRICS["success_rate"].best(values) == 0.5
    assert METRICS["kl"].best(values) == 0.2
    assert METRICS["cosine_distance"].best(values) is None
    assert METRICS["kl"].best((0.2, 0.2)) is None


def test_a_loss_term_without_an_entry_gets_one_made_of_its_name() -> None:
    assert loss_term("novelty").panel == "Loss: novelty"
