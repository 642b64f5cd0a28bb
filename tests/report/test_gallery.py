from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from p3iv.report.gallery import Candidate, choose_cases

facts = st.tuples(st.floats(0, 1), st.booleans(), st.integers(0, 3), st.integers(0, 5))


def candidates(found: list[tuple[float, bool, int, int]]) -> list[Candidate]:
    return [
        Candidate(offset, p, right, f"t{task}", f"v{video}") for offset, (p, right, task, video) in enumerate(found)
    ]


@given(st.lists(facts, max_size=60).map(candidates), st.integers(0, 12))
def test_as_many_cases_as_asked_for_and_of_both_kinds_where_both_exist(found: list[Candidate], number: int) -> None:
    chosen = choose_cases(found, number)
    assert len(set(chosen)) == len(chosen) == min(number, len(found))
    if number >= 2:
        assert {case.is_right for case in chosen} == {case.is_right for case in found}
    if all(sum(case.is_right is kind for case in found) >= number for kind in (True, False)):
        assert sum(case.is_right for case in chosen) == (number + 1) // 2


@given(st.lists(facts, min_size=1, max_size=60).map(candidates), st.integers(1, 12))
def test_right_ones_first_each_kind_from_sure_to_unsure(found: list[Candidate], number: int) -> None:
    chosen = choose_cases(found, number)
    assert chosen == sorted(chosen, key=lambda case: (not case.is_right, -case.probability, case.offset))
    assert chosen == choose_cases(list(reversed(found)), number)


def test_the_surest_and_the_least_sure_are_near_the_ends() -> None:
    found = candidates([(number / 1000, False, number % 4, number % 6) for number in range(1000)])
    probabilities = [case.probability for case in choose_cases(found, 4)]
    assert probabilities[0] > 0.85
    assert probabilities[-1] < 0.15
    assert len({case.task for case in choose_cases(found, 4)}) == 4
