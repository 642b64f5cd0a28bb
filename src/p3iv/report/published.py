"""What the paper published, as data: P3IV's own rows, each with the table that it stands in and its protocol.

Its success rate means what ours means. Its mAcc is the macro precision of actions and its mIoU a bitwise one of action
ids (metrics/published.py), so those two stand beside the metrics of these names and not beside accuracy and IoU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PAPER = "P3IV (CVPR 2022)"
PROTOCOLS = {
    1: "protocol 1: every window, 70/30 by video",
    2: "protocol 2: one window per video, 85/15, T - 1 actions",
}
FEATURES = "MIL-NCE features"


@dataclass(frozen=True)
class PublishedRow:
    """A row of the paper; shares from 0 to 1, KL and NLL in nats."""

    dataset: str  # as `p3iv data import` names it
    horizon: int
    protocol: int
    source: str  # the tables that its figures stand in
    scores: Mapping[str, float]  # success_rate, macro_precision, bitwise_iou


@dataclass(frozen=True)
class PublishedDistribution:
    """The paper's figures about distributions of plans; its smoothing is not stated."""

    dataset: str
    horizon: int
    source: str
    scores: Mapping[str, float]  # kl, nll, mode_precision, mode_recall, cosine_distance
    is_deterministic: bool = False


def _row(dataset: str, horizon: int, source: str, *percents: float, protocol: int = 1) -> PublishedRow:
    names = ("success_rate", "macro_precision", "bitwise_iou")
    scores = {name: value / 100 for name, value in zip(names, percents, strict=False)}
    return PublishedRow(dataset, horizon, protocol, source, scores)


ROWS = (
    _row("crosstask", 3, "Table 3", 23.34, 49.96, 73.89),
    _row("crosstask", 4, "Table 3", 13.40, 44.16, 70.01),
    _row("crosstask", 5, "Table 4", 7.21),
    _row("crosstask", 6, "Table 4", 4.40),
    _row("crosstask", 3, "Table 4", 24.4, protocol=2),
    _row("crosstask", 4, "Table 4", 15.8, protocol=2),
    _row("crosstask", 5, "Table 4", 11.8, protocol=2),
    _row("crosstask", 6, "Table 4", 8.3, protocol=2),
    _row("niv", 3, "Table 5", 24.68, 49.01, 74.29),
    _row("niv", 4, "Table 5", 20.14, 38.36, 67.29),
    _row("coin", 3, "Table 5", 15.4, 21.67, 76.31),
    _row("coin", 4, "Table 5", 11.32, 18.85, 70.53),
)

# Horizons 3 to 6 of a row of the paper.
_KL_NLL = {
    ("crosstask", False): ("Tables 6 and 7", (2.11, 3.50, 4.26, 6.89), (4.89, 5.48, 6.24, 7.67)),
    ("crosstask", True): ("Tables 6 and 7", (2.31, 4.47, 6.30, 8.81), (5.13, 6.25, 6.68, 8.49)),
    ("coin", False): ("supplement", (5.75, 6.68, 6.84, 7.15), (6.37, 6.37, 7.79, 8.84)),
    ("coin", True): ("supplement", (5.34, 6.88, 6.75, 7.06), (6.37, 6.38, 7.71, 8.95)),
    ("niv", False): ("supplement", (4.92, 5.76, 6.28, 9.51), (7.07, 7.81, 8.36, 9.25)),
    ("niv", True): ("supplement", (5.35, 5.60, 5.96, 8.23), (7.18, 7.79, 8.49, 9.17)),
}
_MODES = {
    ("crosstask", False): {
        "mode_precision": (0.3661, 0.1855, 0.1248, 0.0658),
        "mode_recall": (0.6613, 0.4656, 0.2646, 0.1267),
        "cosine_distance": (0.384, 0.302, 0.2471, 0.1658),
    },
    ("crosstask", True): {
        "mode_precision": (0.2761, 0.1721, 0.0741, 0.0497),
        "mode_recall": (0.5624, 0.3733, 0.1838, 0.0885),
    },
}
DISTRIBUTIONS = tuple(
    PublishedDistribution(
        dataset,
        horizon,
        source,
        {"kl": kl, "nll": nll}
        | {name: values[horizon - 3] for name, values in _MODES.get((dataset, is_deterministic), {}).items()},
        is_deterministic,
    )
    for (dataset, is_deterministic), (source, kls, nlls) in _KL_NLL.items()
    for horizon, kl, nll in zip((3, 4, 5, 6), kls, nlls, strict=True)
)


def published_row(dataset: str, horizon: int, protocol: int) -> PublishedRow | None:
    """The paper's row for a dataset by its name, or None where it has none."""
    wanted = (dataset.casefold(), horizon, protocol)
    return next((row for row in ROWS if (row.dataset, row.horizon, row.protocol) == wanted), None)


def published_distribution(
    dataset: str, horizon: int, protocol: int, *, is_deterministic: bool
) -> PublishedDistribution | None:
    """The paper's figures about distributions, all of protocol 1."""
    wanted = (dataset.casefold(), horizon, is_deterministic)
    found = (row for row in DISTRIBUTIONS if (row.dataset, row.horizon, row.is_deterministic) == wanted)
    return next(found, None) if protocol == 1 else None
