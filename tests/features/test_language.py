"""Language tables: writing and reading them, hostile bytes, and matching rows to steps."""

from __future__ import annotations

import io
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from p3iv.errors import SourceError
from p3iv.features.language import LanguageTable, match_language, read_language, read_rename, write_language
from p3iv.types import Action, Vocabulary

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
FUZZ = settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def packed(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def table(*names: str, ids: tuple[str, ...] | None = None) -> LanguageTable:
    """Row i holds the number i."""
    return LanguageTable(names, ids, np.repeat(np.arange(len(names), dtype=np.float32)[:, None], 2, axis=1))


def vocabulary(*actions: Action | str) -> Vocabulary:
    return Vocabulary(tuple(action if isinstance(action, Action) else Action(action, action) for action in actions))


@FUZZ
@given(names=st.lists(NAMES, min_size=1, max_size=6, unique=True), width=st.integers(1, 4))
def test_what_is_written_reads_back(tmp_path: Path, names: list[str], width: int) -> None:
    embedding = np.random.default_rng(0).normal(size=(len(names), width)).astype(np.float32)
    write_language(tmp_path / "language.npz", names, embedding)
    loaded = read_language(tmp_path / "language.npz")
    assert loaded.names == tuple(names)
    assert loaded.ids is None
    assert np.array_equal(loaded.embedding, embedding)
    with np.load(tmp_path / "language.npz", allow_pickle=False) as trusted:
        assert trusted["step"].tolist() == names


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_language(tmp_path / name, ["x", "y"], np.eye(2))
        time.sleep(0.01)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_ids_tell_steps_of_one_name_apart(tmp_path: Path) -> None:
    path = tmp_path / "language.npz"
    path.write_bytes(packed(step=np.array(["a", "a"]), step_id=np.array([7, 8]), embedding=np.eye(2)))
    loaded = read_language(path)
    assert (loaded.names, loaded.ids) == (("a", "a"), ("7", "8"))


STEP, EMBEDDING = np.array(["a", "b"]), np.eye(2, 3)
WRONG = {
    "not an npz": (b"names and numbers", "not a .npz"),
    "empty": (b"", "not a .npz"),
    "no embedding": (packed(step=STEP), "holds step; `step` .* and `embedding` are needed"),
    "names twice": (packed(step=np.array(["a", "a"]), embedding=EMBEDDING), "`step` holds a more than once"),
    "ids twice": (packed(step=STEP, step_id=np.array([1, 1]), embedding=EMBEDDING), "`step_id` holds 1 more than once"),
    "too few ids": (packed(step=STEP, step_id=np.array([1]), embedding=EMBEDDING), "2 names in `step`, 1 in `step_id`"),
    "too few rows": (packed(step=STEP, embedding=EMBEDDING[:1]), r"shape \(1, 3\); \(2, width\) is expected"),
    "no width": (packed(step=STEP, embedding=EMBEDDING[:, :0]), r"shape \(2, 0\)"),
    "1-d": (packed(step=STEP, embedding=EMBEDDING[0]), r"shape \(3,\)"),
    "no names": (packed(step=STEP[:0], embedding=EMBEDDING[:0]), "a list of names"),
    "numbers as names": (packed(step=np.arange(2), embedding=EMBEDDING), "a list of names"),
    "nan": (packed(step=STEP, embedding=EMBEDDING * [[1], [np.nan]]), "not finite in 1 rows, the first is row 1"),
    "too large": (packed(step=STEP, embedding=EMBEDDING * 1e39), "not finite in 2 rows"),
    "pickled": (packed(step=STEP.astype(object), embedding=EMBEDDING), "step holds pickled objects"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_is_refused_by_name(tmp_path: Path, case: str) -> None:
    content, reason = WRONG[case]
    path = tmp_path / "language.npz"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=reason) as caught:
        read_language(path)
    assert str(caught.value).startswith(f"{path}: ")


@FUZZ
@given(
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=4),
    end=st.integers(0, 900),
)
def test_any_bytes_give_a_table_or_a_source_error(tmp_path: Path, changes: list[tuple[int, int]], end: int) -> None:
    content = bytearray(packed(step=STEP, step_id=np.arange(2), embedding=EMBEDDING)[: end if end % 4 == 0 else None])
    for place, value in changes:
        if content:
            content[place % len(content)] = value
    (tmp_path / "language.npz").write_bytes(bytes(content))
    try:
        read_language(tmp_path / "language.npz")
    except SourceError:
        return


@FUZZ
@given(
    steps=st.permutations(["a", "b", "c"]).flatmap(lambda steps: st.integers(1, 3).map(lambda size: steps[:size])),
    rows=st.permutations(["a", "b", "c", "d", "e"]),
)
def test_the_table_alone_decides_how_actions_are_numbered(steps: list[str], rows: list[str]) -> None:
    matched = match_language(vocabulary(*steps), table(*rows), {})
    assert matched.vocabulary.names == tuple(rows)
    assert matched.embedding[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_ids_go_before_names_and_names_before_texts() -> None:
    actions = vocabulary(Action("a", "b", "3"), Action("b", "a", "9"), Action("task: c", "c"))
    matched = match_language(actions, table("a", "b", "x", "c", ids=("1", "2", "3", "4")), {})
    first, second, third = actions.actions
    own_name_is_taken = Action("a [1]", "a", "1")
    assert matched.vocabulary.actions == (own_name_is_taken, second, first, third)
    assert matched.embedding[:, 0].tolist() == [0, 1, 2, 3]


def test_actions_that_share_a_text_share_a_row() -> None:
    actions = vocabulary(Action("tea: pour water", "pour water"), Action("rice: pour water", "pour water"))
    matched = match_language(actions, table("stir", "pour water"), {})
    assert matched.embedding[:, 0].tolist() == [0, 1, 1]
    assert matched.vocabulary.names == ("stir", "tea: pour water", "rice: pour water")


def test_further_rows_of_one_name_stay_apart() -> None:
    matched = match_language(vocabulary(Action("cut", "cut", "2")), table("cut", "cut", "cut", ids=("1", "2", "3")), {})
    assert matched.vocabulary.names == ("cut [1]", "cut", "cut [3]")
    assert [action.text for action in matched.vocabulary.actions] == ["cut"] * 3


def test_rows_of_one_name_that_differ_are_not_chosen_from() -> None:
    with pytest.raises(SourceError, match="2 rows of the language table are called 'cut' and differ"):
        match_language(vocabulary("cut"), table("cut", "cut", ids=("1", "2")), {})


MISSPELT = ("pour mixutre into cup", "put merigue into oven", "put banana into blender", "stir")
SPELT = ("pour mixture into cup", "put meringue into oven", "put bananas into blender", "stir")


def test_missing_steps_are_all_listed_with_a_rename_file_that_helps(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        match_language(vocabulary(*SPELT, "fly to the moon"), table(*MISSPELT), {})
    message = str(caught.value)
    assert message.startswith("4 steps have no embedding")
    assert "  put meringue into oven  (nearest: put merigue into oven" in message
    assert "  fly to the moon\n" in message
    (tmp_path / "rename.json").write_text(message[message.index("{") :])
    rename = read_rename(tmp_path / "rename.json")
    assert rename == dict(zip(MISSPELT[:3], SPELT[:3], strict=True))
    matched = match_language(vocabulary(*SPELT), table(*MISSPELT), rename)
    assert matched.vocabulary.names == SPELT
    assert matched.embedding[:, 0].tolist() == [0, 1, 2, 3]


def test_a_rename_of_what_is_not_there_is_an_error() -> None:
    with pytest.raises(SourceError, match="renames nothing, which the language table does not have"):
        match_language(vocabulary("a"), table("a"), {"nothing": "a"})
    with pytest.raises(SourceError, match="renames to nowhere, which the annotations do not have"):
        match_language(vocabulary("a"), table("a"), {"a": "nowhere"})


@pytest.mark.parametrize(
    "text",
    [
        '{"a, b": "c", "d": "e"}',
        '"a, b",c\nd,e\n',
        '\ufeff"a, b", c\r\n\r\nd,e',
        json.dumps({"a, b": "c", "d": "e"}, indent=1),
    ],
)
def test_rename_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "rename").write_text(text, encoding="utf-8")
    assert read_rename(tmp_path / "rename") == {"a, b": "c", "d": "e"}


@pytest.mark.parametrize(
    "content", [b'{"a": 1}', b'{"a": {"b": "c"}}', b'{"a": "b", "a": "c"}', b"a,b,c", b"a", b"\xff\xfe", b"{"]
)
def test_wrong_rename_files_are_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "rename").write_bytes(content)
    with pytest.raises(SourceError, match="rename"):
        read_rename(tmp_path / "rename")
    with pytest.raises(SourceError, match="missing"):
        read_rename(tmp_path / "missing")
