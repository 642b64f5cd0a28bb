from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p3iv.data.windows import check_no_leak, complete_split, split_by_video
from p3iv.errors import SplitError
from p3iv.types import Split

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
