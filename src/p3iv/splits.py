"""Who trains, who chooses, who tests: splits by video from one explicit seed, and the check that none of them leaks.

The order of the videos is drawn by hashing the seed with each id, so a split depends on the seed and the set of ids
alone: not on their order in a file, the machine, or the version of a random generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from p3iv.errors import SplitError
from p3iv.types import Split, counted, listed

TEST_SHARE = {1: 0.30, 2: 0.15}  # by protocol, supplement E
VAL_SHARE = 0.20  # of the training videos


class TooFewVideosError(SplitError):
    """Not enough videos for train, val and test, however they are dealt out."""


def draw_order(keys: Iterable[str], *, seed: int, purpose: str) -> list[str]:
    """The keys in an order that depends on the seed and the purpose alone."""
    return sorted(keys, key=lambda key: draw_number(key, seed=seed, purpose=purpose))


def draw_number(key: str, *, seed: int, purpose: str) -> int:
    """A number of 64 bits for a key, uniform over seeds."""
    digest = hashlib.sha256(f"{seed}\0{purpose}\0{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def split_by_video(videos: Sequence[str], *, seed: int, protocol: int = 1) -> Split:
    """70/30 by video (85/15 under protocol 2), then a fifth of the training videos for validation."""
    if len(videos) < 3:
        raise TooFewVideosError(
            f"{counted(len(videos), 'video')}, but train, val and test need at least one each: 3 or more."
        )
    order = draw_order(videos, seed=seed, purpose="test")
    num_test = _share(len(order), TEST_SHARE[protocol], leave=2)
    return complete_split(Split(tuple(order[num_test:]), (), tuple(order[:num_test])), seed=seed)


def complete_split(split: Split, *, seed: int) -> Split:
    """Take a fifth of the training videos for validation where the split names none."""
    if split.val:
        return split
    if len(split.train) < 2:
        have = counted(len(split.train), "training video")
        raise TooFewVideosError(f"{have}, but a validation fifth needs at least 2 to take from.")
    order = draw_order(split.train, seed=seed, purpose="val")
    num_val = _share(len(order), VAL_SHARE, leave=1)
    return Split(tuple(sorted(order[num_val:])), tuple(sorted(order[:num_val])), tuple(sorted(split.test)))


def check_no_leak(split: Split) -> None:
    """Refuse a split in which one video stands on two sides."""
    for first, second in (("train", "val"), ("train", "test"), ("val", "test")):
        shared = sorted(set(getattr(split, first)) & set(getattr(split, second)))
        if shared:
            raise SplitError(
                f"{len(shared)} videos stand both in {first} and in {second} ({listed(shared)}). "
                f"Every video belongs to one side; take them out of one, or split by video with --split video."
            )


def _share(total: int, share: float, *, leave: int) -> int:
    """At least one and at most what leaves some over."""
    return min(max(1, round(total * share)), total - leave)
