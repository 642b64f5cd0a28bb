"""Evidence as a network gets it; what each piece adds is the mean over all orders in which it could be told."""

from __future__ import annotations

from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from p3iv.plans.evidence import EVIDENCE, Evidence, shapley_addends, shapley_values, subsets_of
from p3iv.types import Array

HAS = st.lists(st.booleans(), min_size=len(EVIDENCE), max_size=len(EVIDENCE))


def values_for(subsets: Array, seed: int) -> Array:
    """A random value of every subset, (n, 2, 3); the same for the same subset."""
    tables = np.random.default_rng(seed).standard_normal((2 ** len(EVIDENCE), 2, 3))
    rows: Array = tables[(subsets @ 2 ** np.arange(len(EVIDENCE))).astype(int)]
    return rows


@given(has=HAS, seed=st.integers(0, 99))
def test_they_are_the_mean_over_all_orders_of_what_a_piece_adds(has: list[bool], seed: int) -> None:
    there = [number for number, is_there in enumerate(has) if is_there]
    found = shapley_addends(np.array(has), lambda subsets: values_for(subsets, seed))
    assert list(found) == ["prior", *(EVIDENCE[number] for number in there)]
    orders = list(permutations(there))
    for number in there:
        added = []
        for order in orders:
            before = np.isin(range(len(EVIDENCE)), order[: order.index(number)]).astype(float)
            after = before + (np.arange(len(EVIDENCE)) == number)
            added.append(np.subtract(*values_for(np.stack((after, before)), seed)))
        np.testing.assert_allclose(found[EVIDENCE[number]], np.mean(added, axis=0), atol=1e-12)


@given(has=HAS, seed=st.integers(0, 99))
def test_all_together_are_the_value_with_all_evidence(has: list[bool], seed: int) -> None:
    subsets = subsets_of(np.array(has))
    assert len(np.unique(subsets, axis=0)) == len(subsets) == 2 ** sum(has)
    values = values_for(subsets, seed)
    found = shapley_values(values, subsets)
    np.testing.assert_array_equal(found["prior"], values[0])
    np.testing.assert_array_equal(subsets[-1], has)
    np.testing.assert_allclose(sum(found.values()), values[-1], atol=1e-12)


def test_absent_evidence_is_zero_for_a_network() -> None:
    evidence = Evidence(start=np.ones((2, 4)), last_step=np.ones((2, 3)))
    widths = {"start": 4, "goal": 4, "history": 4, "last_step": 3, "procedure": 2}
    filled = evidence.filled(widths)
    assert {name: part.shape for name, part in filled.items()} == {
        **{name: (2, width) for name, width in widths.items()},
        "has": (2, len(EVIDENCE)),
    }
    assert filled["has"].tolist() == [[1, 0, 0, 1, 0]] * 2
    assert not any(filled[name].any() for name in ("goal", "history", "procedure"))
    assert (evidence.is_seen, Evidence(start=np.ones((1, 4)), goal=np.ones((1, 4))).is_seen) == (False, True)
