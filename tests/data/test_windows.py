from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.config import CurationSettings
from p3iv.data.windows import check_no_leak, complete_split, curate_windows, cut_windows, split_by_video
from p3iv.errors import ConfigError, SplitError
from p3iv.types import Action, Split, Step, Video, Vocabulary

NAMES = ("boil", "pour", "stir", "serve")
VOCABULARY = Vocabulary(tuple(Action(name, name) for name in NAMES))


def video(name: str, actions: list[str]) -> Video:
    return Video(name, "task", tuple(Step(action, 10.0 * i, 10.0 * i + 7) for i, action in enumerate(actions)))


videos_strategy = st.lists(st.lists(st.sampled_from(NAMES), min_size=1, max_size=9), min_size=3, max_size=12).map(
    lambda lists: [video(f"v{i}", actions) for i, actions in enumerate(lists)]
)


@given(videos_strategy, st.integers(1, 6))
def test_inclusive_windows_equal_a_brute_force_enumeration(videos: list[Video], horizon: int) -> None:
    expected = set()
    for one in videos:
        for first in range(len(one.steps)):
            for last in range(first, len(one.steps)):
                if last - first + 1 == horizon:
                    actions = tuple(NAMES.index(one.steps[i].action) for i in range(first, last + 1))
                    expected.add((one.id, first, actions, one.steps[first].start_s, one.steps[last].end_s))
    windows = cut_windows(videos, VOCABULARY, CurationSettings(horizon=horizon))
    assert len(windows) == len(expected)
    assert {(w.video, w.first_step, w.action_ids, w.start_s, w.goal_s) for w in windows} == expected


@given(videos_strategy, st.integers(1, 5))
def test_after_start_windows_show_one_more_action_than_they_predict(videos: list[Video], horizon: int) -> None:
    longer = cut_windows(videos, VOCABULARY, CurationSettings(horizon=horizon + 1))
    after = cut_windows(videos, VOCABULARY, CurationSettings(horizon=horizon, window="after-start"))
    assert [(w.video, w.first_step - 1, w.action_ids, w.start_s, w.goal_s) for w in after] == [
        (w.video, w.first_step, w.action_ids[1:], w.start_s, w.goal_s) for w in longer
    ]


@given(videos_strategy, st.integers(2, 6), st.integers(0, 9))
def test_protocol_2_takes_one_window_of_one_action_less_per_video(videos: list[Video], horizon: int, seed: int) -> None:
    windows = cut_windows(videos, VOCABULARY, CurationSettings(horizon=horizon, protocol=2, split_seed=seed))
    every = cut_windows(videos, VOCABULARY, CurationSettings(horizon=horizon - 1))
    assert set(windows) <= set(every)
    assert [w.video for w in windows] == [v.id for v in videos if len(v.steps) >= horizon - 1]


def test_protocol_2_draws_every_window_for_some_seed() -> None:
    one = [video("v", ["boil", "pour", "stir", "serve"])]
    firsts = {
        cut_windows(one, VOCABULARY, CurationSettings(horizon=3, protocol=2, split_seed=seed))[0].first_step
        for seed in range(40)
    }
    assert firsts == {0, 1, 2}


@given(videos_strategy, st.integers(0, 2**40), st.sampled_from([1, 2]))
def test_no_video_is_on_two_sides(videos: list[Video], seed: int, protocol: int) -> None:
    sets = curate_windows(videos, VOCABULARY, CurationSettings(horizon=2, protocol=protocol, split_seed=seed))
    sides = [{w.video for w in side} for side in (sets.train, sets.val, sets.test)]
    assert not (sides[0] & sides[1]) | (sides[0] & sides[2]) | (sides[1] & sides[2])


@given(videos_strategy, st.integers(0, 99))
def test_a_window_split_uses_every_window_once_and_notes_that_it_leaks(videos: list[Video], seed: int) -> None:
    settings = CurationSettings(horizon=1, split="window", split_seed=seed)
    sets = curate_windows(videos, VOCABULARY, settings)
    assert sorted((*sets.train, *sets.val, *sets.test), key=str) == sorted(
        cut_windows(videos, VOCABULARY, settings), key=str
    )
    assert "test videos are also in train" in sets.notes[0]


FOUR = [video(name, ["boil", "pour", "stir"]) for name in "abcd"]


def test_a_split_file_is_used_and_what_it_leaves_out_is_said(tmp_path: Path) -> None:
    path = tmp_path / "split.json"
    path.write_text(json.dumps({"train": ["a"], "val": ["b"], "test": ["c", "zebra"]}))
    sets = curate_windows(FOUR, VOCABULARY, CurationSettings(split=str(path)))
    assert [[w.video for w in side] for side in (sets.train, sets.val, sets.test)] == [["a"], ["b"], ["c"]]
    assert any("zebra" in note for note in sets.notes)
    assert any("no side" in note and "d" in note for note in sets.notes)


def test_the_releases_own_split_is_used_with_a_validation_fifth() -> None:
    release = Split(train=("a", "b", "c"), val=(), test=("d",))
    sets = curate_windows(FOUR, VOCABULARY, CurationSettings(split="release"), release_split=release)
    assert {w.video for w in sets.test} == {"d"}
    assert len({w.video for w in sets.val}) == 1


def test_a_leaking_split_is_refused() -> None:
    release = Split(train=("a", "b"), val=("c",), test=("a",))
    with pytest.raises(SplitError, match="both in train and in test"):
        curate_windows(FOUR, VOCABULARY, CurationSettings(split="release"), release_split=release)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"horizon": 0}, "horizon=0"),
        ({"horizon": 1, "protocol": 2}, "at least 2"),
        ({"protocol": 3}, "from 1 to 2"),
        ({"window": "sliding"}, "inclusive or after-start"),
        ({"window": "after-start", "protocol": 2}, "--window inclusive"),
    ],
)
def test_settings_say_what_is_allowed(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CurationSettings(**settings)  # type: ignore[arg-type]


def test_a_missing_split_says_what_to_use() -> None:
    with pytest.raises(SplitError, match="--split video"):
        curate_windows(FOUR, VOCABULARY, CurationSettings(split="release"))
    with pytest.raises(SplitError, match="not a file that exists"):
        curate_windows(FOUR, VOCABULARY, CurationSettings(split="nowhere.json"))


video_ids = st.lists(st.text(min_size=1, max_size=8), min_size=3, max_size=60, unique=True)
seeds = st.integers(0, 2**63)


@given(video_ids, seeds, st.sampled_from([1, 2]))
def test_a_split_by_video_covers_every_video_once(videos: list[str], seed: int, protocol: int) -> None:
    split = split_by_video(videos, seed=seed, protocol=protocol)
    check_no_leak(split)
    assert sorted((*split.train, *split.val, *split.test)) == sorted(videos)
    assert split.train
    assert split.val
    assert split.test


@given(video_ids, seeds, st.randoms())
def test_a_split_does_not_depend_on_the_order_of_the_videos(videos: list[str], seed: int, random: object) -> None:
    shuffled = list(videos)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert split_by_video(videos, seed=seed) == split_by_video(shuffled, seed=seed)


@given(video_ids, seeds)
def test_a_validation_fifth_is_taken_from_the_training_videos(videos: list[str], seed: int) -> None:
    given_split = Split(train=tuple(videos[1:]), val=(), test=tuple(videos[:1]))
    split = complete_split(given_split, seed=seed)
    check_no_leak(split)
    assert split.test == given_split.test
    assert sorted((*split.train, *split.val)) == sorted(given_split.train)


def test_shares_are_those_of_the_protocols() -> None:
    videos = [f"v{i}" for i in range(1000)]
    first, second = (split_by_video(videos, seed=0, protocol=protocol) for protocol in (1, 2))
    assert (len(first.train), len(first.val), len(first.test)) == (560, 140, 300)
    assert (len(second.train), len(second.val), len(second.test)) == (680, 170, 150)


def test_other_seeds_give_other_splits() -> None:
    videos = [f"v{i}" for i in range(50)]
    assert len({split_by_video(videos, seed=seed).test for seed in range(20)}) == 20


def test_a_leak_is_refused_by_name() -> None:
    with pytest.raises(SplitError, match=r"1 video both in train and in test \(b\)"):
        check_no_leak(Split(train=("a", "b"), val=("c",), test=("b",)))


def test_too_few_videos_are_refused() -> None:
    with pytest.raises(SplitError, match="2 videos"):
        split_by_video(["a", "b"], seed=0)
