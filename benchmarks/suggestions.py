"""How many steps the suggestions of the annotator find and name, on videos whose steps are known.

    p3iv data make tabletop a --videos 15 --seed 21 && p3iv extract a --overwrite
    p3iv data make tabletop b --videos 15 --seed 22 && p3iv extract b --overwrite
    python -m benchmarks.suggestions a b

The videos of all folders are shuffled and cut into tens; steps are suggested for ten, while some of the others are
marked. A step is found if a suggestion covers at least half of what both cover together. A name is right if it is the
one of a step that was found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from p3iv.data.folder import open_dataset, require_features
from p3iv.features.change_points import find_parts
from p3iv.plans.step_finder import MarkedStep, MarkedVideo, Name, Part, PartFinder, PartNamer, videos_like
from p3iv.types import Array

ROUNDS = 3
Suggest = Callable[[MarkedVideo], tuple[Sequence[Part], Sequence[Name]]]
Way = Callable[[Sequence[MarkedVideo]], Suggest]


def read_videos(folder: Path) -> Iterator[MarkedVideo]:
    """The videos of a dataset with features of every second."""
    dataset = open_dataset(folder)
    for video in dataset.videos:
        steps = tuple(MarkedStep(step.action, step.start_s or 0.0, step.end_s or 0.0) for step in video.steps)
        yield MarkedVideo(video.task, steps, np.asarray(require_features(dataset).rows(video.id), np.float32))


def by_changes(_: Sequence[MarkedVideo]) -> Suggest:
    """Parts between visual changes."""
    return lambda video: _unnamed(find_parts(video.rows))


def by_equal_parts(_: Sequence[MarkedVideo]) -> Suggest:
    """Twelve parts of equal length."""

    def suggest(video: MarkedVideo) -> tuple[Sequence[Part], Sequence[Name]]:
        cuts = np.linspace(0, len(video.rows), 13).tolist()
        return _unnamed(list(pairwise(cuts)))

    return suggest


def by_marked(marked: Sequence[MarkedVideo]) -> Suggest:
    """As the annotator suggests them, with the procedure named."""
    find = PartFinder(marked)

    def suggest(video: MarkedVideo) -> tuple[Sequence[Part], Sequence[Name]]:
        parts, like = find(video.rows), videos_like(marked, video.task)
        return (parts, PartNamer(like)(video.rows, parts)) if like else _unnamed(parts)

    return suggest


def _unnamed(parts: Sequence[Part]) -> tuple[Sequence[Part], Sequence[Name]]:
    return parts, [None] * len(parts)


def count(video: MarkedVideo, parts: Sequence[Part], names: Sequence[Name]) -> Array:
    """Steps, suggestions, steps that were found, suggestions with a name, and those whose name is right."""
    found = right = 0
    for step in video.steps:
        shares = [_overlap(step, part) for part in parts]
        best = int(np.argmax(shares)) if shares else 0
        if shares and shares[best] >= 0.5:
            name, found = names[best], found + 1
            right += name is not None and name[0] == step.step
    return np.array([len(video.steps), len(parts), found, sum(name is not None for name in names), right])


def _overlap(step: MarkedStep, part: Part) -> float:
    shared = min(step.end_s, part[1]) - max(step.start_s, part[0])
    return max(0.0, shared) / (max(step.end_s, part[1]) - min(step.start_s, part[0]))


def measure(videos: Sequence[MarkedVideo], make: Way, num_marked: int) -> Array:
    """The counts over all rounds."""
    random, total = np.random.default_rng(0), np.zeros(5)
    for _ in range(ROUNDS):
        order = random.permutation(len(videos)).tolist()
        for first in range(0, len(order), 10):
            tested = order[first : first + 10]
            suggest = make([videos[each] for each in order if each not in tested][:num_marked])
            total += sum(count(videos[each], *suggest(videos[each])) for each in tested)
    return total


def main() -> None:
    """Print a table."""
    videos = [video for folder in sys.argv[1:] for video in read_videos(Path(folder))]
    tried: list[tuple[str, Way, int]] = [("changes", by_changes, 0), ("12 equal parts", by_equal_parts, 0)]
    tried += [(f"{number} videos marked", by_marked, number) for number in (1, 3, 5, 10, 20)]
    print("| suggestions | steps found | suggestions that are steps | with a name | names that are right |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for label, make, number in tried:
        steps, parts, found, named, right = measure(videos, make, number)
        shares = (found / steps, found / parts, named / parts, right / max(named, 1))
        print(f"| {label} | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |")


if __name__ == "__main__":
    main()
