"""How many steps the suggestions of the annotator find and name, on videos whose steps are known.

Tabletop videos of two seeds are made, and their features by the default encoder. They are shuffled and cut into tens;
steps are suggested for ten, while some of the others are marked. A step is found if a suggestion covers at least half
of what both cover together. A name is right if it is the one of a step that was found.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import p3iv
from benchmarks.timing import make_parser
from p3iv.data.folder import open_dataset, require_features
from p3iv.features.change_points import find_parts
from p3iv.plans.step_finder import MarkedStep, MarkedVideo, Name, Part, PartFinder, PartNamer, videos_like
from p3iv.types import Array

Suggest = Callable[[MarkedVideo], tuple[Sequence[Part], Sequence[Name]]]
Way = Callable[[Sequence[MarkedVideo]], Suggest]


def make_videos(folder: Path, seed: int, number: int) -> Iterator[MarkedVideo]:
    """Videos with features of every second."""
    p3iv.make_tabletop(folder, videos=number, seed=seed)
    p3iv.extract(folder, overwrite=True)
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


def measure(videos: Sequence[MarkedVideo], make: Way, num_marked: int, num_rounds: int) -> Array:
    """The counts over all rounds."""
    random, total = np.random.default_rng(0), np.zeros(5)
    for _ in range(num_rounds):
        order = random.permutation(len(videos)).tolist()
        for first in range(0, len(order), 10):
            tested = order[first : first + min(10, len(order) - 1)]
            suggest = make([videos[each] for each in order if each not in tested][:num_marked])
            total += sum(count(videos[each], *suggest(videos[each])) for each in tested)
    return total


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--videos", type=int, default=15, help="of each seed; at least three")
    parser.add_argument("--seeds", type=int, nargs="+", default=[31, 32])
    parser.add_argument("--rounds", type=int, default=3, help="how often videos are shuffled")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        videos = [each for seed in args.seeds for each in make_videos(Path(folder, str(seed)), seed, args.videos)]
    tried: list[tuple[str, Way, int]] = [("changes", by_changes, 0), ("12 equal parts", by_equal_parts, 0)]
    tried += [(f"{number} videos marked", by_marked, number) for number in (1, 3, 5, 10, 20)]
    print("| suggestions | steps found | suggestions that are steps | with a name | names that are right |")
    print("| --- | ---: | ---: | ---: | ---: |")
    found_shares = {}
    for label, make, number in tried:
        steps, parts, found, named, right = measure(videos, make, number, args.rounds)
        found_shares[label] = round(found / steps, 4)
        shares = (found / steps, found / parts, named / parts, right / max(named, 1))
        print(f"| {label} | {' | '.join(f'{100 * share:.0f} %' for share in shares)} |")
    print(json.dumps({"steps_found": found_shares}))


if __name__ == "__main__":
    main()
