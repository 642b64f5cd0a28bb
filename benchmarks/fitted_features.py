"""Make a dataset whose features were fitted to its training and validation videos, so that validation is too easy.

A network of two hidden layers learns to name the step under way in the seconds of the train and val videos of SOURCE.
DIR gets its last hidden layer as the features of all videos, and the split as split.json (`--split release`). The same
happens when an encoder is fine-tuned on all videos but those of the test side: its features separate the steps of the
videos that it has seen, validation videos included, far better than those of others. `benchmarks.shift DIR` measures
that. To choose anything on validation videos of your own, do not fine-tune the encoder on them.

Without SOURCE, a small tabletop is made, and nothing is kept.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from torch import Tensor, nn

import p3iv
from benchmarks.timing import make_parser
from p3iv.config import CurationSettings
from p3iv.data.folder import Dataset, open_dataset, replacing_dataset, require_features
from p3iv.data.following import SecondReader
from p3iv.data.windows import choose_split, tasks_of
from p3iv.encoders.identity import EncoderIdentity
from p3iv.errors import DatasetError
from p3iv.features.language import write_language
from p3iv.features.store import FeatureStore, StoreWriter
from p3iv.readers.folder import write_split
from p3iv.readers.steps import write_steps
from p3iv.types import SIDES, Annotations, Array, Split, counted

BATCH = 256


@dataclass(frozen=True)
class Fit:
    """How the network is trained."""

    width: int = 128
    epochs: int = 30
    learning_rate: float = 1e-3
    seed: int = 0


@dataclass(frozen=True)
class LabelledRows:
    """Rows of features and the step under way in each; the last label is: none."""

    rows: Tensor  # (n, F) float32
    labels: Tensor  # (n,) int64
    num_labels: int


class StepNetwork(nn.Module):
    """Names the step of a second; its last hidden layer is the new feature."""

    mean: Tensor  # (F,)
    deviation: Tensor  # (F,)

    def __init__(self, seen: LabelledRows, width: int) -> None:
        super().__init__()
        self.register_buffer("mean", seen.rows.mean(dim=0))
        self.register_buffer("deviation", seen.rows.std(dim=0).clamp_min(1e-6))
        self.hidden = nn.Sequential(
            nn.Linear(seen.rows.shape[1], 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU()
        )
        self.steps = nn.Linear(width, seen.num_labels)

    def encode(self, rows: Tensor) -> Tensor:
        """The last hidden layer, (n, D), of rows (n, F)."""
        found: Tensor = self.hidden((rows - self.mean) / self.deviation)
        return found

    def forward(self, rows: Tensor) -> Tensor:
        logits: Tensor = self.steps(self.encode(rows))  # (n, A + 1)
        return logits


def read_seconds(dataset: Dataset, videos: Sequence[str]) -> LabelledRows:
    """The rows of some videos that have times of their steps, without those that repeat the row before them.

    Where an encoder was run on some seconds only, the rows of the others are copies.
    """
    store, num_actions = require_features(dataset), len(dataset.vocabulary)
    reader = SecondReader(dataset, dataset.vocabulary, num_actions, "mean")
    rows: list[Array] = []
    labels: list[Array] = []
    for name in videos:
        video = reader.open(name)
        if video is not None:
            found = store.rows_at(name, video.moments)
            is_new = np.append(True, (found[1:] != found[:-1]).any(axis=1))
            labels.append(reader.labels(video)[video.moments][is_new])
            rows.append(found[is_new].astype(np.float32))
    if not rows:
        raise DatasetError(
            f"{dataset.folder}: none of {counted(len(videos), 'video')} has features and times of its steps, which a "
            f"network of steps needs. See what is missing with `p3iv data check {dataset.folder}`."
        )
    return LabelledRows(
        torch.from_numpy(np.concatenate(rows)), torch.from_numpy(np.concatenate(labels)), num_actions + 1
    )


def fit_network(seen: LabelledRows, fit: Fit) -> StepNetwork:
    """Train the network on the seconds that it sees."""
    with torch.random.fork_rng(devices=[]):  # the same weights whatever was drawn before
        torch.manual_seed(fit.seed)
        network = StepNetwork(seen, fit.width)
        optimizer = torch.optim.Adam(network.parameters(), lr=fit.learning_rate)
        for _ in range(fit.epochs):
            for batch in torch.randperm(len(seen.labels)).split(BATCH):
                loss = nn.functional.cross_entropy(network(seen.rows[batch]), seen.labels[batch])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return network


@torch.no_grad()
def accuracy(network: StepNetwork, seen: LabelledRows) -> float:
    """The share of the seconds whose step is named right."""
    named = torch.cat([network(rows).argmax(dim=1) for rows in seen.rows.split(4096)])
    return (named == seen.labels).double().mean().item()


@torch.no_grad()
def write_features(folder: Path, store: FeatureStore, network: StepNetwork, width: int) -> str:
    """Write the hidden layer for every row of every video, and return the fingerprint of the store."""
    with StoreWriter(folder, width=width, dtype="float16") as writer:
        for video in store.videos:
            rows = torch.from_numpy(store.packed_rows(video).astype(np.float32))
            writer.add(video, network.encode(rows).numpy(), store.kept(video))
    return writer.fingerprint


def identify(network: StepNetwork, made_from: EncoderIdentity | None) -> EncoderIdentity:
    weights = hashlib.sha256(b"".join(each.numpy().tobytes() for each in network.state_dict().values()))
    return EncoderIdentity(f"{made_from or 'unknown'} fitted to train and val", fingerprint=weights.hexdigest())


def write_fitted(
    source: Path, folder: Path, *, split: str, split_seed: int, fit: Fit, overwrite: bool
) -> dict[str, float]:
    """Write the new dataset folder, and return the accuracy of the network on every side."""
    dataset = open_dataset(source)
    settings = CurationSettings(split=split, split_seed=split_seed)
    sides, _ = choose_split(tasks_of(dataset.videos), settings, release_split=dataset.split)
    network = fit_network(read_seconds(dataset, (*sides.train, *sides.val)), fit)
    named: dict[str, float] = {side: accuracy(network, read_seconds(dataset, sides.side(side))) for side in SIDES}
    with replacing_dataset(folder, overwrite=overwrite, sources=[source]) as temporary:
        _write_folder(temporary, dataset, sides, network, fit.width)
    return named


def _write_folder(folder: Path, dataset: Dataset, sides: Split, network: StepNetwork, width: int) -> None:
    name = f"{dataset.card.name}-fitted"
    write_steps(folder / "steps.csv", Annotations(name, dataset.videos, dataset.vocabulary))
    write_split(folder / "split.json", sides)
    if dataset.language is not None:
        write_language(folder / "language.npz", dataset.vocabulary.names, dataset.language)
    fingerprint = write_features(folder / "features", require_features(dataset), network, width)
    replace(
        dataset.card,
        name=name,
        source=f"benchmarks.fitted_features from {dataset.card.name}",
        encoder=identify(network, dataset.card.encoder),
        feature_fingerprint=fingerprint,
    ).write(folder)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("source", nargs="?", type=Path, metavar="SOURCE")
    parser.add_argument("folder", nargs="?", type=Path, metavar="DIR")
    parser.add_argument("--split", default="video", help="of SOURCE: video, stratified, release or a file")
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=Fit.width)
    parser.add_argument("--epochs", type=int, default=Fit.epochs)
    parser.add_argument("--seed", type=int, default=Fit.seed)
    parser.add_argument("--overwrite", action="store_true")
    args = parser.parse_args()
    if args.source is not None and args.folder is None:
        parser.error("DIR is missing, the folder to write")
    torch.set_num_threads(1)
    fit = Fit(args.width, args.epochs, seed=args.seed)
    with TemporaryDirectory() as temporary:
        if args.source is None:
            p3iv.make_tabletop(Path(temporary) / "source", videos=12, skip_rendering=True)
        source, folder = args.source or Path(temporary) / "source", args.folder or Path(temporary) / "fitted"
        named = write_fitted(
            source, folder, split=args.split, split_seed=args.split_seed, fit=fit, overwrite=args.overwrite
        )
    for side, share in named.items():
        print(f"{side:5}: the step under way is named right in {100 * share:5.1f} % of the seconds")
    print(json.dumps({"accuracy": {side: round(share, 4) for side, share in named.items()}}))


if __name__ == "__main__":
    main()
