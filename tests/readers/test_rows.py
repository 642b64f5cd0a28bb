from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p3iv.readers.niv import read_niv
from p3iv.readers.rows import csv_rows, keep_one_pass, order_steps, parse_times
from p3iv.types import Step
from p3iv.validation import ProblemLog

QUIET = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted), min_size=1, max_size=12)
SOUND_LINES = [f"row,{number}\n" for number in range(5)]


@given(SPANS)
@QUIET
def test_steps_are_ordered_by_start_then_end_and_stably(tmp_path: Path, spans: list[list[int]]) -> None:
    rows = [f"STEP {number},{start},{end}\n" for number, (start, end) in enumerate(spans)]
    (tmp_path / "task_1.csv").write_text("".join(rows), encoding="utf-8")
    annotations = read_niv(tmp_path)
    got = [(step.start_s, step.end_s, int(step.action.split()[1])) for step in annotations.videos[0].steps]
    assert annotations.problems == ()
    assert got == sorted((start, end, number) for number, (start, end) in enumerate(spans))


def test_blanks_around_a_time_are_those_of_python() -> None:
    assert parse_times(" 1.5\x1d", "\t2\u2003") == (1.5, 2.0)  # float() itself refuses some of them


@given(st.lists(st.sampled_from("abc"), max_size=8))
def test_steps_without_times_stay_as_they_came(names: list[str]) -> None:
    assert [step.action for step in order_steps(Step(name) for name in names)] == names


TIMED_STEPS = st.builds(
    lambda action, span: Step(action, *sorted(span)),
    st.sampled_from("abc"),
    st.tuples(st.integers(0, 9).map(float), st.integers(0, 9).map(float)),
)


def seconds(step: Step) -> tuple[float, float]:
    assert step.start_s is not None and step.end_s is not None
    return step.start_s, step.end_s


def overlaps(step: Step, other: Step) -> bool:
    (start, end), (other_start, other_end) = seconds(step), seconds(other)
    return step.action == other.action and other_start < end and other_end > start


@given(*[st.lists(TIMED_STEPS, min_size=1, max_size=6).map(order_steps)] * 2)
def test_a_pass_is_left_out_if_half_of_its_steps_are_in_the_other(one: tuple[Step, ...], two: tuple[Step, ...]) -> None:
    log = ProblemLog()
    kept = keep_one_pass("x.csv", [*one, *two], log)
    longer, other = (two, one) if len(two) > len(one) else (one, two)
    num_repeated = sum(any(overlaps(step, again) for again in longer) for step in other)
    is_double = seconds(two[0])[0] < seconds(one[-1])[0] and 2 * num_repeated >= len(other)
    assert kept == list(longer if is_double else one + two)
    assert len(log.problems) == is_double


@given(st.integers(0, 3).flatmap(lambda num_broken: st.permutations([*SOUND_LINES, *['"broken\n'] * num_broken])))
def test_broken_records_never_hide_the_sound_rows_around_them(lines: list[str]) -> None:
    log = ProblemLog()
    rows = [row for _, row in csv_rows("x.csv", "".join(lines), log)]
    assert sorted(rows) == [line.strip().split(",") for line in SOUND_LINES]
    broken = [f"x.csv:{number}" for number, line in enumerate(lines, start=1) if line not in SOUND_LINES]
    assert [problem.where for problem in log.problems] == broken
