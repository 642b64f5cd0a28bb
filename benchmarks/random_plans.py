"""How random plans score under each definition of the IoU in use: the scales differ, and two depend on the numbering.

Without DIR, the references are random too. With a dataset folder, they are its windows: with the actions numbered as
in its language.npz and alphabetically, in the order of steps.csv and shuffled. Ids count from 1, as in P3IV's files.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.timing import NUM_ACTIONS, make_parser
from p3iv.config import DataConfig
from p3iv.data.folder import open_dataset
from p3iv.data.windows import cut_windows
from p3iv.metrics.plans import ious
from p3iv.metrics.released import batch_ious, bitwise_ious
from p3iv.types import Vocabulary


def scores(references: Tensor, num_actions: int, generator: torch.Generator) -> dict[str, float]:
    """The mean of each IoU in percent, of random plans against references (N, T) with ids from 1."""
    plans = torch.randint(1, num_actions + 1, references.shape, generator=generator)
    order = torch.randperm(len(references), generator=generator)
    found = {
        "set": ious(plans, references),
        "bitwise": bitwise_ious(plans, references),
        "batch": batch_ious(plans, references),
        "batch, shuffled": batch_ious(plans[order], references[order]),
    }
    return {name: round(100 * float(values.mean()), 1) for name, values in found.items()}


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("dir", nargs="?", type=Path, metavar="DIR", help="a dataset folder")
    parser.add_argument("--horizon", type=int, default=3)
    parser.add_argument("--windows", type=int, default=200_000, help="of random references")
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    result: dict[str, dict[str, float]] = {}
    if options.dir is None:
        references = torch.randint(1, NUM_ACTIONS + 1, (options.windows, options.horizon), generator=generator)
        result[f"{len(references)} random windows"] = scores(references, NUM_ACTIONS, generator)
    else:
        dataset = open_dataset(options.dir)
        by_name = Vocabulary(tuple(sorted(dataset.vocabulary.actions, key=lambda action: action.name)))
        for order, vocabulary in (("order of the dataset", dataset.vocabulary), ("alphabetical", by_name)):
            windows = cut_windows(dataset.videos, vocabulary, DataConfig(horizon=options.horizon))
            references = 1 + torch.tensor([window.action_ids for window in windows])
            result[f"{len(windows)} windows, {order}"] = scores(references, len(vocabulary), generator)
    for name, found in result.items():
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in found.items()))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
