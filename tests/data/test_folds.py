"""Folds and stratified splits: every video once, and every task on every side as far as possible."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.config import CurationSettings
from p3iv.data.windows import (
    TooFewVideosError,
    choose_split,
    fold_name,
    is_split_kind,
    refit_name,
    split_fold,
    split_stratified,
    take_stratified,
)
from p3iv.errors import SplitError

TASKS = st.dictionaries(st.text("abcdefgh", min_size=1, max_size=4), st.sampled_from("pqrs"), min_size=5, max_size=40)
SEEDS = st.integers(0, 50)


def counts(task_of: dict[str, str], videos: tuple[str, ...] | list[str]) -> Counter[str]:
    return Counter(task_of[video] for video in videos)


@given(TASKS, SEEDS, st.integers(2, 5))
def test_folds_test_every_video_once_and_share_none(task_of: dict[str, str], seed: int, num_folds: int) -> None:
    folds = [split_fold(task_of, number, num_folds, seed=seed) for number in range(1, num_folds + 1)]
    assert sorted(video for fold in folds for video in fold.test) == sorted(task_of)
    for fold in folds:
        assert fold.train
        assert fold.val
        assert sorted((*fold.train, *fold.val, *fold.test)) == sorted(task_of)


@given(TASKS, SEEDS, st.integers(2, 5))
def test_folds_are_as_equal_as_possible_also_within_every_task(
    task_of: dict[str, str], seed: int, num_folds: int
) -> None:
    folds = [split_fold(task_of, number, num_folds, seed=seed).test for number in range(1, num_folds + 1)]
    sizes = [len(test) for test in folds]
    assert max(sizes) - min(sizes) <= 1
    for task in set(task_of.values()):
        numbers = [counts(task_of, test)[task] for test in folds]
        assert max(numbers) - min(numbers) <= 1


@given(TASKS, SEEDS, st.integers(0, 5))
def test_every_task_gives_its_share_rounded_up_or_down(task_of: dict[str, str], seed: int, number: int) -> None:
    taken = take_stratified(task_of, number, seed=seed, purpose="test")
    assert len(taken) == len(set(taken)) == number
    for task, size in Counter(task_of.values()).items():
        share = size * number / len(task_of)
        assert math.floor(share) <= counts(task_of, taken)[task] <= math.ceil(share)


@given(TASKS, SEEDS, st.sampled_from([1, 2]))
def test_a_stratified_split_has_the_sizes_of_a_split_by_video(
    task_of: dict[str, str], seed: int, protocol: int
) -> None:
    settings = [CurationSettings(split=kind, split_seed=seed, protocol=protocol) for kind in ("stratified", "video")]
    ours, plain = (choose_split(task_of, each, release_split=None)[0] for each in settings)
    for side in ("train", "val", "test"):
        assert len(getattr(ours, side)) == len(getattr(plain, side))
    assert ours == split_stratified(dict(sorted(task_of.items())), seed=seed, protocol=protocol)


@given(TASKS, SEEDS)
def test_parts_of_a_fold_have_its_test_videos(task_of: dict[str, str], seed: int) -> None:
    def split(name: str) -> tuple[set[str], set[str], set[str]]:
        found, _ = choose_split(task_of, CurationSettings(split=name, split_seed=seed), release_split=None)
        return set(found.train), set(found.val), set(found.test)

    whole, half = fold_name(2, 3), fold_name(2, 3, num_halvings=1)
    train, val, test = split(whole)
    half_train, half_val, half_test = split(half)
    assert half_test == test
    assert half_train | half_val <= train | val
    assert len(half_train | half_val) == max(2, round(len(train | val) / 2))
    assert split(refit_name(whole)) == (train | val, set(), test)
    assert split("all") == (set(task_of), set(), set())


def test_too_few_videos_for_folds_are_refused() -> None:
    with pytest.raises(TooFewVideosError, match="4 videos for 5 folds"):
        split_fold(dict.fromkeys("abcd", "tea"), 1, 5, seed=0)
    with pytest.raises(SplitError, match="there are 5 folds"):
        choose_split(dict.fromkeys("abcdef", "tea"), CurationSettings(split="fold-6-of-5"), release_split=None)


def test_names_of_folds_are_no_files() -> None:
    assert all(map(is_split_kind, ("video", "stratified", "all", "fold-2-of-5", "fold-2-of-5-keep-25-refit")))
    assert not any(map(is_split_kind, ("fold-0-of-5", "folds/fold-2-of-5", "split.json")))
