"""Calibration: of the plans that were given probability p, is a share p the reference?"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from markupsafe import Markup

from p3iv.drawing.html import drawing, join, percent, tag, text
from p3iv.evaluation.predictions import NamedLine
from p3iv.metrics.intervals import Interval, jackknife_interval
from p3iv.metrics.plans import NUM_BINS
from p3iv.report.charts import Frame, line, polyline, whisker, whole_percent

_SIZE, _BARS = 224.0, 44.0  # of the diagram, and of the counts below it


@dataclass
class ReliabilityCounts:
    """Probabilities in bins of equal width; a probability of 1 is in the last."""

    sum_probability: list[float] = field(default_factory=lambda: [0.0] * NUM_BINS)
    by_video: list[dict[str, list[int]]] = field(default_factory=lambda: [{} for _ in range(NUM_BINS)])  # plans, right

    def add(self, probability: float, *, is_right: bool, video: str) -> None:
        """Count one plan that was given this probability for a window of this video."""
        place = min(int(probability * NUM_BINS), NUM_BINS - 1)
        self.sum_probability[place] += probability
        counts = self.by_video[place].setdefault(video, [0, 0])
        counts[0] += 1
        counts[1] += is_right

    @property
    def num_plans(self) -> list[int]:
        """By bin."""
        return [sum(number for number, _ in videos.values()) for videos in self.by_video]

    @property
    def total(self) -> int:
        return sum(self.num_plans)

    @property
    def bins(self) -> list[Bin]:
        """The bins that are not empty."""
        columns = zip(self.by_video, self.num_plans, self.sum_probability, strict=True)
        return [
            Bin(place, number, _observed(list(videos.values())), total / number)
            for place, (videos, number, total) in enumerate(columns)
            if number
        ]

    @property
    def calibration_error(self) -> float:
        """As in `p3iv.metrics.plans.calibration_error`: the mean over plans of |predicted - observed| in their bins."""
        gaps = (bin_.num_plans * abs(bin_.predicted - bin_.observed.value) for bin_ in self.bins)
        return sum(gaps) / max(self.total, 1)


@dataclass(frozen=True)
class Bin:
    """One bin: the mean predicted probability, and the share of its plans that are the reference."""

    place: int
    num_plans: int
    observed: Interval
    predicted: float


def _observed(counts: list[list[int]]) -> Interval:
    """The share of right plans, with its interval, from the number of plans and of right ones in every video."""
    plans, right = torch.tensor(counts, dtype=torch.float64).T  # (V,) each
    without = (right.sum() - right) / (plans.sum() - plans)
    return jackknife_interval((right.sum() / plans.sum()).item(), without, plans)


@dataclass
class Reliability:
    """Counts of the recommended plans, and of every sampled plan."""

    recommended: ReliabilityCounts = field(default_factory=ReliabilityCounts)
    sampled: ReliabilityCounts = field(default_factory=ReliabilityCounts)

    def add(self, window: NamedLine) -> None:
        """Count the plans of one window."""
        video = window.video or window.window
        if window.plan_probability is not None:
            self.recommended.add(window.plan_probability, is_right=window.is_right, video=video)
        for plan, count in window.ranked_samples:
            self.sampled.add(count / window.num_samples, is_right=plan == window.reference, video=video)


def draw_reliability(counts: ReliabilityCounts, *, title: str, x_label: str) -> Markup:
    """One diagram: observed share over predicted probability, and how many plans each bin holds."""
    frame = Frame(44, 30, _SIZE, _SIZE, (0, 1), (0, 1))
    below = Frame(frame.left, frame.bottom + 44, _SIZE, _BARS, (0, 1), (0, max(counts.num_plans, default=1)))
    ticks = [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    diagonal = line(frame.x(0), frame.y(0), frame.x(1), frame.y(1), class_="diagonal")
    means = [(frame.x(bin_.predicted), frame.y(bin_.observed.value)) for bin_ in counts.bins]
    label = f"{title}: calibration error {percent(counts.calibration_error)} %, {counts.total} plans"
    return drawing(
        frame.right + 12,
        below.bottom + 18,
        text(0, 12, title, class_="panel"),
        frame.axes(ticks, ticks, x_label=x_label, show_x=whole_percent, show_y=whole_percent),
        diagonal,
        *(whisker(frame.x(bin_.predicted), frame, bin_.observed.low, bin_.observed.high) for bin_ in counts.bins),
        polyline(means, class_="series"),
        *(
            tag("circle", _bin_title(bin_), cx=x, cy=y, r=3.6, class_="dot")
            for bin_, (x, y) in zip(counts.bins, means, strict=True)
        ),
        _histogram(below, counts),
        label=label,
    )


def _histogram(frame: Frame, counts: ReliabilityCounts) -> Markup:
    parts = []
    for bin_ in counts.bins:
        left, top = frame.x(bin_.place / NUM_BINS) + 1.5, frame.y(bin_.num_plans)
        width = frame.width / NUM_BINS - 3
        parts.append(tag("rect", x=left, y=top, width=width, height=frame.bottom - top, class_="bar"))
        parts.append(text(left + width / 2, top - 3, _short(bin_.num_plans), anchor="middle", class_="tiny"))
    base = line(frame.left, frame.bottom, frame.right, frame.bottom, class_="axis")
    return join(
        *parts,
        base,
        text(frame.left + frame.width / 2, frame.bottom + 13, "plans per bin", anchor="middle", class_="tick"),
    )


def _bin_title(bin_: Bin) -> Markup:
    observed = bin_.observed
    ends = f" ({percent(observed.low)} to {percent(observed.high)})" if observed.has_ends else ""
    return tag(
        "title",
        f"predicted {percent(bin_.predicted)} %, observed {percent(observed.value)} %{ends}, {bin_.num_plans} plans",
    )


def _short(number: int) -> str:
    """At most four characters: 999, 12k, 1.2M."""
    if number < 1000:
        return str(number)
    if number < 1_000_000:
        return f"{number / 1000:.1f}k" if number < 9950 else f"{number / 1000:.0f}k"
    return f"{number / 1e6:.1f}M"
