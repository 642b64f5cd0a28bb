"""A few windows to look at: how they are chosen, and how each is shown with its pictures, plans and graph."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from p3iv.data.folder import find_videos
from p3iv.drawing.graph import Plan, PlanGraph, merge_plans
from p3iv.drawing.graph_drawing import HORIZONTAL, VERTICAL, draw_graph
from p3iv.drawing.html import drawing, join, percent, scrolling, shorten, tag
from p3iv.environment import install_command
from p3iv.errors import FeatureError
from p3iv.evaluation.predictions import NamedLine, read_lines
from p3iv.report.reliability import Reliability
from p3iv.report.tables import DASH
from p3iv.types import counted

MAX_PLANS = 5  # listed per window, beside the recommended plan and the reference
PLAYED = (".mp4", ".m4v", ".webm", ".mov")  # by browsers, mostly
MAX_UP = 4  # folders above the page on the way to a video
MAX_NARROW = 4  # steps side by side on a phone
_PICTURE_WIDTH = 280  # pixels: twice what the page shows, for sharp screens
_QUALITY = 72
_BAR = 46.0


@dataclass(frozen=True)
class Candidate:
    """A window that could be shown, by the byte of predictions.jsonl at which its line begins."""

    offset: int
    probability: float
    is_right: bool
    task: str
    video: str


@dataclass
class Scan:
    """The result of one pass over predictions.jsonl."""

    reliability: Reliability = field(default_factory=Reliability)
    candidates: list[Candidate] = field(default_factory=list)


def scan_predictions(path: Path) -> Scan:
    """Read the file once and keep a few numbers per window."""
    scan = Scan()
    for place, window in read_lines(path, NamedLine):
        scan.reliability.add(window)
        probability = -1.0 if window.plan_probability is None else window.plan_probability
        scan.candidates.append(Candidate(place.offset, probability, window.is_right, window.task, window.video or ""))
    return scan


def choose_cases(candidates: Sequence[Candidate], number: int) -> list[Candidate]:
    """Right plans, then wrong ones, half of each where possible, both from the most to the least confident.

    They are at even distances in the order of confidence, so that they are not picked by hand; near such a place,
    procedures and videos that were not chosen yet come first.
    """
    right, wrong = (
        sorted((c for c in candidates if c.is_right is is_right), key=lambda c: (-c.probability, c.offset))
        for is_right in (True, False)
    )
    num_wrong = min(len(wrong), max(number // 2, number - len(right)))
    num_right = min(len(right), number - num_wrong)
    return _spaced(right, num_right) + _spaced(wrong, num_wrong)


def _spaced(ordered: Sequence[Candidate], number: int) -> list[Candidate]:
    chosen: list[Candidate] = []
    reach = len(ordered) / (2 * number) if number else 0.0
    for place in range(number):
        target = place * (len(ordered) - 1) / max(number - 1, 1)
        near = range(max(0, math.ceil(target - reach)), min(len(ordered), math.floor(target + reach) + 1))
        free = [index for index in near if ordered[index] not in chosen]
        tasks, videos = {c.task for c in chosen}, {c.video for c in chosen}
        best = min(
            free or [index for index in range(len(ordered)) if ordered[index] not in chosen],
            key=lambda index: (
                ordered[index].task in tasks,
                ordered[index].video in videos,
                abs(index - target),
                index,
            ),
        )
        chosen.append(ordered[best])
    return sorted(chosen, key=lambda c: (-c.probability, c.offset))


def show_case(window: NamedLine, frames: FrameSource) -> Markup:
    """One window: its pictures where there are some, its most frequent plans, the graph of all its plans."""
    plans = (window.plan, window.ranked_samples, window.reference)
    wide, narrow = merge_plans(*plans), merge_plans(*plans, max_nodes=MAX_NARROW)
    pictures = [
        _picture(window, frames, moment, second)
        for moment, second in (("start", window.start_s), ("goal", window.goal_s))
    ]
    shown = [picture for picture in pictures if picture]
    graph = f"Graph of the plans of {shorten(window.window, 60)}"
    return tag(
        "article",
        _heading(window),
        tag(
            "div",
            *([tag("div", *shown, class_="pictures")] if shown else []),
            _plan_table(window),
            class_="case-top",
        ),
        _player(window, frames),
        tag("div", scrolling(draw_graph(wide, HORIZONTAL), graph, hint=False), _note(window, wide), class_="wide-only"),
        tag("div", draw_graph(narrow, VERTICAL), _note(window, narrow), class_="narrow-only"),
        class_="case",
    )


def graph_legend() -> Markup:
    """The legend of the graphs."""
    samples = {
        "ribbon": "samples: the wider, the more frequent",
        "recommended": "recommended plan: solid line, bold boxes",
        "reference": "reference: dashed line and outline",
    }
    entries = [
        tag(
            "span",
            drawing(
                34.0,
                12.0,
                tag("path", d="M1 6H33", stroke_width=8 if name == "ribbon" else None, class_=name),
                label="",
                class_="graph swatch",
            ),
            meaning,
        )
        for name, meaning in samples.items()
    ]
    return tag("p", *entries, class_="legend")


def _heading(window: NamedLine) -> Markup:
    verdict = "✓ right" if window.is_right else f"✗ {window.num_matches} of {len(window.reference)} steps right"
    if len(window.plan) != len(window.reference):
        verdict = f"✗ {counted(len(window.plan), 'step')} instead of {len(window.reference)}"
    where = shorten(window.window, 60)
    if window.start_s is not None and window.goal_s is not None:
        where += f", {window.start_s:.1f}{DASH}{window.goal_s:.1f} s"
    return tag(
        "h3",
        shorten(window.task, 60) or "a window",
        " ",
        tag("span", where, class_="where"),
        " ",
        tag("span", verdict, class_="verdict"),
    )


def _picture(window: NamedLine, frames: FrameSource, moment: str, second: float | None) -> Markup | None:
    address = frames.data_uri(window.video or "", second)
    if address is None or second is None:
        return None
    alt = f"{moment} of the window: {shorten(window.video or '', 60)} at {second:.1f} s"
    return tag("figure", tag("img", src=address, alt=alt), tag("figcaption", f"{moment}, {second:.1f} s"))


def _player(window: NamedLine, frames: FrameSource) -> Markup:
    """The window as a video, from the file in the dataset; where the file is not there, only the picture remains."""
    address = frames.address(window.video or "")
    if address is None or window.start_s is None or window.goal_s is None or not math.isfinite(window.goal_s):
        return join()
    span = f"{window.start_s:.1f}{DASH}{window.goal_s:.1f} s"
    video = tag(
        "video",
        src=f"{address}#t={max(0.0, window.start_s):.2f},{window.goal_s:.2f}",
        poster=frames.poster(window.video or "", window.start_s),
        controls="",
        preload="none",
        playsinline="",
        aria_label=f"{shorten(window.video or '', 60)}, {span}",
    )
    note = tag("p", "Plays the file of the dataset, if it is still where it was.")
    return tag("details", tag("summary", f"Play {span} of the video"), video, note, class_="play")


def _plan_table(window: NamedLine) -> Markup:
    """The most frequent plans, the recommended plan and the reference."""
    ranked = window.ranked_samples
    count_of = dict(ranked)
    plans = [plan for plan, _ in ranked[:MAX_PLANS]]
    plans += [plan for plan in dict.fromkeys((window.plan, window.reference)) if plan not in plans]
    head = tag("thead", tag("tr", tag("th", "share", scope="col"), tag("th", "plan", scope="col")))
    rows = [_plan_row(plan, count_of.get(plan, 0), window) for plan in plans]
    return tag("table", head, tag("tbody", *rows), class_="plans")


def _plan_row(plan: Plan, count: int, window: NamedLine) -> Markup:
    share = count / max(window.num_samples, 1)
    steps: list[str] = []
    for step, is_right in zip(plan, _right_steps(plan, window.reference), strict=True):
        name = shorten(step, 80)
        steps += [*([" → "] if steps else []), tag("span", name) if is_right else tag("u", name)]
    roles = [
        tag("span", name, class_=f"role {name}")
        for name, role in (("recommended", window.plan), ("reference", window.reference))
        if plan == role
    ]
    bar = drawing(_BAR, 4.0, tag("rect", width=_BAR * share, height=4, class_="bar"), label="", class_="strip")
    words = tag("td", *steps, *(part for role in roles for part in (" ", role)))
    return tag("tr", tag("td", f"{percent(share)} %", bar), words, class_="bold" if plan == window.plan else None)


def _right_steps(plan: Plan, reference: Plan) -> list[bool]:
    """Which steps of a plan the reference has too: at the same position, or in the same order if lengths differ."""
    if len(plan) == len(reference):
        return [step == wanted for step, wanted in zip(plan, reference, strict=True)]
    blocks = SequenceMatcher(None, reference, plan, autojunk=False).get_matching_blocks()
    right = {place for block in blocks for place in range(block.b, block.b + block.size)}
    return [place in right for place in range(len(plan))]


def _note(window: NamedLine, graph: PlanGraph) -> Markup:
    parts = []
    if window.plan_probability is not None:
        parts.append(f"Probability of the recommended plan: {percent(window.plan_probability)} %.")
    samples = window.ranked_samples
    ranks = [rank for rank, (plan, _) in enumerate(samples, start=1) if plan == window.reference]
    if samples and not window.is_right:
        where = f"is number {ranks[0]} of {len(samples)} distinct samples" if ranks else "was never sampled"
        parts.append(f"The reference {where}.")
    if graph.pruned:
        share = percent(graph.pruned / graph.total)
        plans = counted(graph.num_pruned_plans, "plan")
        parts.append(f"Not in the graph: {share} % of {window.num_samples} samples, {plans} with rare steps.")
    elif samples:
        parts.append(f"All {window.num_samples} samples are in the graph.")
    return tag("p", " ".join(parts), class_="note")


@dataclass
class FrameSource:
    """Reads frames of a dataset's videos; frames that cannot be read are counted and left out."""

    folder: Path | None  # the dataset, or None where it is not known
    fault: str | None = None  # why it is not known
    page_folder: Path | None = None  # where the page will be, for the relative paths of videos
    num_read: int = field(default=0, init=False)
    _shown: dict[tuple[str, float], str] = field(default_factory=dict, init=False)  # pictures that were read
    num_broken: int = field(default=0, init=False)

    @cached_property
    def files(self) -> dict[str, Path]:
        """Video id -> file. An id is only compared with the names in videos/, so it cannot lead out of that folder."""
        return {} if self.folder is None else find_videos(self.folder / "videos")

    @property
    def why_empty(self) -> str | None:
        """Why there can be no pictures, or None where there can be."""
        if self.folder is None or not self.folder.is_dir():
            return self.fault or "the dataset folder has moved since the training; pass --data DIR"
        if not self.files:
            return "the dataset folder has no videos"
        if find_spec("av") is None or find_spec("PIL") is None:
            return f"PyAV or Pillow is not installed; type: {install_command('video')}"
        return None

    def data_uri(self, video: str, second: float | None) -> str | None:
        """The picture of a moment as a data: address, or None where it cannot be read."""
        if second is None or self.why_empty is not None or video not in self.files:
            return None
        picture = read_frame(self.files[video], second)
        if picture is None:
            self.num_broken += 1
            return None
        self.num_read += 1
        uri = f"data:image/jpeg;base64,{base64.b64encode(picture).decode('ascii')}"
        self._shown[video, second] = uri
        return uri

    def poster(self, video: str, second: float) -> str | None:
        """The picture of a moment, if it was read before."""
        return self._shown.get((video, second))

    def address(self, video: str) -> str | None:
        """The file of a video as an address relative to the page.

        None if a browser cannot play it, or if the way to it goes through the top of the file system: then the page
        would show the folders of this machine.
        """
        path = self.files.get(video)
        if path is None or self.page_folder is None or path.suffix.lower() not in PLAYED:
            return None
        try:
            relative = Path(os.path.relpath(path.absolute(), self.page_folder.absolute()))
        except ValueError:  # on another drive
            return None
        num_up = relative.parts.count("..")
        if num_up > MAX_UP or num_up >= len(self.page_folder.absolute().parts) - 1:
            return None
        return "/".join(quote(part) for part in relative.parts)


def read_frame(path: Path, second: float) -> bytes | None:
    """The frame that a player shows at a moment, as JPEG; None where the file cannot be read that far."""
    from p3iv.features.thumbnails import as_jpeg, draw_thumbnail, fit  # needs Pillow
    from p3iv.features.video import VideoReader  # needs PyAV

    try:
        with VideoReader(path) as reader:
            (picture,) = reader.frames_at([max(0.0, second)])
    except FeatureError:
        return None
    return as_jpeg(draw_thumbnail(picture, fit(picture, _PICTURE_WIDTH, _PICTURE_WIDTH)), _QUALITY)
