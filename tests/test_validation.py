"""Reading YAML and collecting problems of sources that are not trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from p3iv.errors import DatasetError, SourceError
from p3iv.types import count_problems
from p3iv.validation import (
    MAX_LISTED,
    MAX_LISTED_PER_FILE,
    MAX_PROBLEMS,
    MAX_YAML_BYTES,
    ProblemLog,
    cut,
    parse_yaml,
    read_mapping,
    shown,
)


def test_yaml_has_the_usual_values() -> None:
    assert parse_yaml("a: 2024-05-01\nb: [x, 0.5, null, true]\nc: {d: 1}\n") == {
        "a": "2024-05-01",
        "b": ["x", 0.5, None, True],
        "c": {"d": 1},
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: &x [1]\nb: *x", "an anchor or alias"),
        ("a: &x 1", "an anchor or alias"),
        ("a: *x", "an anchor or alias"),
        ("<<: {a: 1}\nb: 2", "a merge"),
        ("a: 1\nb: 2\na: 3", "the key 'a' is there twice"),
        ("[" * 60_000, "nested more than 20 levels deep"),
        ("a: !!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("? [a, b]\n: c", "unhashable key"),
        ("a: !!int ''", "not YAML that can be used"),
        ("a: !!bool maybe", "not YAML that can be used"),
        ("a: 1" + "0" * 5000, "not YAML that can be used"),
        ("\0", "not YAML that can be used"),
        ("a: [", "not YAML: .* in line 1"),
        ("a:\n\tb: 1", "^line 2 begins with a tab; use spaces$"),
    ],
)
def test_yaml_that_grows_or_misleads_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as raised:
        parse_yaml(text)
    assert len(str(raised.value)) < 300
    assert "\n" not in str(raised.value)


def test_a_yaml_file_has_a_limited_size(tmp_path: Path) -> None:
    path = tmp_path / "dataset.yaml"
    path.write_text("name: x\n" + "#" * MAX_YAML_BYTES)
    with pytest.raises(DatasetError, match=r"dataset\.yaml has more than the 65536 bytes"):
        read_mapping(path, error=DatasetError, advice="")


def test_all_problems_are_counted_and_the_first_of_each_file_are_kept() -> None:
    log = ProblemLog()
    for row in range(5000):
        log.add(f"a.csv:{row}", "bad", "row left out")
    log.add("b.csv", "empty", "video left out")
    assert log.total == count_problems(log.problems) == 5001
    assert len(log.problems) == MAX_LISTED_PER_FILE + 2
    assert str(log.problems[-2]) == "b.csv: empty; video left out"
    assert str(log.problems[-1]) == "a.csv: 4900 more; not listed"


def test_the_list_of_problems_is_bounded_over_files_and_a_source_with_too_many_is_refused() -> None:
    log = ProblemLog()
    with pytest.raises(SourceError, match=r"more than 100000 rows or files cannot be used.* The first: 0\.csv: bad"):
        for file in range(MAX_PROBLEMS + 1):
            log.add(f"{file}.csv", "bad", "left out")
    assert len(log.problems) == MAX_LISTED + 1


def test_values_are_shortened_for_messages() -> None:
    assert len(shown("x" * 10_000)) < 70
    assert cut("a\nb\x1b[31m\u202ec" + "x" * 10_000).startswith("a b?[31m?cxx")
    assert len(cut("x" * 10_000)) == 203
