"""Names, labels, units and directions of everything that tables, reports and commands show.

One entry per metric, decoder, sampling mode, preset and loss term. A new one is its arithmetic where it belongs and an
entry here; every table, page and command then shows it. The order of the entries is the order of rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

Direction = Literal["higher", "lower", "neither"]  # which values are better
Group = Literal["plans", "lengths", "following", "samples", "chain", "calibration", "released", "cost", "data"]
# plans: one plan per window, by decoder; lengths: for plans of unknown length only; following: of moments of a video
# that is followed; samples: sampled plans, by mode; chain: exact probabilities, without samples; calibration: of the
# probability of the recommended plan; released: as released code computes it; cost: of a run; data: of the windows

ARROWS: Mapping[Direction, str] = {"higher": "↑", "lower": "↓", "neither": ""}
UNDEFINED = "-"  # the text of a value that is nan

# What --start and --goal of `p3iv plan`, and the arguments of `p3iv.Planner`, can be.
MOMENT_FORMS: Final = (
    "FILE@TIME of a video (clip.mp4@12.5 or clip.mp4@1:30), a picture, a .npy of features, or VIDEO@TIME of the dataset"
)

# What options and settings can be set to.
WINDOW_KINDS: Final = ("inclusive", "after-start")
SPLIT_KINDS: Final = ("video", "stratified", "release", "window")
ALL_VIDEOS: Final = "all"  # the split of --fit-all: every video is a training video
DEVICES: Final = ("auto", "cpu", "cuda", "mps")
ENGINES: Final = ("local", "ray")
DTYPES: Final = ("float16", "float32")  # of stored features
VIDEO_SUFFIXES: Final = (  # of files in the videos/ of a dataset folder
    ".mp4",
    ".mkv",
    ".webm",
    ".mov",
    ".avi",
    ".m4v",
    ".mpg",
    ".mpeg",
    ".ts",
    ".flv",
    ".wmv",
    ".h264",
    ".hevc",
)
BACKENDS: Final = ("torch", "onnx")  # what computes the plans
ENCODER_FORMS: Final = ("float32", "int8", "none")  # of an exported encoder
TRACKER_NAMES: Final = ("tensorboard", "mlflow", "wandb")

_DETERMINISTIC: Final = {"model.noise_width": 0, "loss.adversarial": 0.0, "loss.diversity": 0.0}

_SUCCESSOR: Final = {  # what the published code of ViterbiPlanNet and SCHEMA has in common
    "model.feed_forward": 256,
    "model.dropout": 0.2,
    "optim.epochs": 500,
    "optim.batch_size": 256,
}

# What each preset changes.
PRESETS: Mapping[str, Mapping[str, object]] = {
    "p3iv": {},
    "p3iv-deterministic": _DETERMINISTIC,
    "p3iv-plus": _DETERMINISTIC | {"optim.epochs": None, "optim.batch_size": 64},
    "p3iv-plus-lengths": _DETERMINISTIC | {"optim.epochs": None, "optim.min_epochs": 3, "optim.batch_size": 64},
    "schema": _SUCCESSOR | {"model.heads": 32, "optim.learning_rate": 4e-3},
    "viterbi-plan-net": _SUCCESSOR
    | {"model.layers": 1, "model.heads": 1, "model.head_hidden": 256, "optim.learning_rate": 9e-4},
    "tiny": {
        "model.width": 64,
        "model.feed_forward": 128,
        "model.encoder_hidden": 128,
        "model.head_hidden": 64,
        "model.memory_slots": 32,
        "model.heads": 4,
        "loss.latents": 3,
        "optim.epochs": 130,
        "optim.learning_rate": 2e-3,
        "optim.decay_every": 45,
    },
}


@dataclass(frozen=True)
class Metric:
    """One metric as tables, pages and commands show it."""

    name: str  # in Python, JSON and CSV
    label: str  # in narrow tables
    title: str  # where there is space
    unit: str  # %, nats, plans, s, ms, or empty; values in % are kept as shares from 0 to 1
    digits: int  # after the decimal point
    direction: Direction
    group: Group
    about: str
    released: str = ""  # the metric that released code computes under the name of this one
    any_length: bool = False  # also defined where plans and references have several lengths

    @property
    def scale(self) -> float:
        """What a value is multiplied by before it is printed."""
        return 100.0 if self.unit == "%" else 1.0

    @property
    def is_share(self) -> bool:
        """Whether its values are shares from 0 to 1."""
        return self.unit == "%"

    @property
    def heading(self) -> str:
        """The title and, where it has one, the unit."""
        return f"{self.title}, {self.unit}" if self.unit else self.title

    @property
    def arrow(self) -> str:
        """↑ where higher is better, ↓ where lower is, else empty."""
        return ARROWS[self.direction]

    def text(self, value: float, *, sign: bool = False) -> str:
        """A value without its unit; `sign` for differences.

        >>> METRICS["success_rate"].text(0.345), METRICS["kl"].text(3.456), METRICS["kl"].text(float("nan"))
        ('34.5', '3.46', '-')
        """
        if math.isnan(value):
            return UNDEFINED
        if math.isinf(value):
            return "∞" if value > 0 else "-∞"
        return f"{self.scale * value:{'+' if sign else ''},.{self.digits}f}"

    def interval_text(self, value: float, low: float, high: float, *, sign: bool = False) -> str:
        """A value with its interval; the value alone where the interval is not defined.

        >>> METRICS["success_rate"].interval_text(0.345, 0.3, 0.4)
        '34.5 [30.0, 40.0]'
        """
        ends = "" if math.isnan(low + high) else f" [{self.text(low, sign=sign)}, {self.text(high, sign=sign)}]"
        return f"{self.text(value, sign=sign)}{ends}"

    def best(self, values: Iterable[float]) -> float | None:
        """The best of several values; None where all are equal, or where neither direction is better."""
        found = {value for value in values if not math.isnan(value)}
        if self.direction == "neither" or len(found) < 2:
            return None
        return max(found) if self.direction == "higher" else min(found)


def _by_name(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


METRICS = _by_name(
    Metric(
        "success_rate", "SR", "success rate", "%", 1, "higher", "plans",
        "windows whose plan is the reference, step for step",
        any_length=True,
    ),
    Metric(
        "mean_accuracy", "mAcc", "mean accuracy", "%", 1, "higher", "plans",
        "positions that hold the right step",
        released="macro_precision",
    ),
    Metric(
        "mean_iou", "mIoU", "mean IoU", "%", 1, "higher", "plans",
        "overlap of the sets of steps of plan and reference, in any order",
        released="bitwise_iou", any_length=True,
    ),
    Metric(
        "edit_score", "edit", "edit score", "%", 1, "higher", "lengths",
        "1 - (insertions, deletions and substitutions from plan to reference) / (length of the longer of the two)",
        any_length=True,
    ),
    Metric(
        "length_accuracy", "length", "length accuracy", "%", 1, "higher", "lengths",
        "windows whose plan has as many steps as the reference",
        any_length=True,
    ),
    Metric(
        "open_nll", "open NLL", "negative log-likelihood over all lengths", "nats", 2, "lower", "lengths",
        "of the reference under the chain's own probabilities of plans of all lengths, smoothed by 1 %",
        any_length=True,
    ),
    Metric(
        "now_accuracy", "now", "step under way", "%", 1, "higher", "following",
        "moments whose most probable step under way, which may be none, is the right one",
    ),
    Metric(
        "done_iou", "done", "steps done", "%", 1, "higher", "following",
        "overlap of the steps that were more probably done than not with those that were",
    ),
    Metric(
        "next_accuracy", "next", "first step left", "%", 1, "higher", "following",
        "moments at which the plan of what is left begins with the step under way or, if there is none, the next one",
    ),
    Metric(
        "kl", "KL", "KL divergence", "nats", 2, "lower", "samples",
        "from the distribution of the reference plans to that of the samples, which is smoothed by 1 %",
        any_length=True,
    ),
    Metric(
        "nll", "NLL", "negative log-likelihood", "nats", 2, "lower", "samples",
        "of the reference plans under the distribution of the samples, which is smoothed by 1 %",
        any_length=True,
    ),
    Metric(
        "mode_precision", "precision", "mode precision", "%", 1, "higher", "samples",
        "samples that are one of the reference plans",
        any_length=True,
    ),
    Metric(
        "mode_recall", "recall", "mode recall", "%", 1, "higher", "samples",
        "reference plans that were sampled",
        any_length=True,
    ),
    Metric(
        "cosine_distance", "cos", "cosine distance", "", 3, "neither", "samples",
        "mean distance of two samples; neither direction is better, since random plans are the most diverse",
    ),
    Metric(
        "distinct_plans", "distinct", "distinct plans", "", 1, "neither", "samples",
        "different plans among the samples of a window",
        any_length=True,
    ),
    Metric(
        "exact_kl", "exact KL", "exact KL divergence", "nats", 2, "lower", "chain",
        "KL divergence with the chain's own probabilities in place of samples",
        any_length=True,
    ),
    Metric(
        "exact_nll", "exact NLL", "exact negative log-likelihood", "nats", 2, "lower", "chain",
        "negative log-likelihood with the chain's own probabilities in place of samples",
        any_length=True,
    ),
    Metric(
        "calibration_error", "ECE", "calibration error", "%", 1, "lower", "calibration",
        "mean of |probability of the recommended plan - share that is right| in ten bins of equal width",
    ),
    Metric(
        "macro_precision", "macro precision", "macro precision (P3IV's mAcc)", "%", 1, "higher", "released",
        "precision of every action over all positions, averaged over actions",
    ),
    Metric(
        "bitwise_iou", "bitwise IoU", "bitwise IoU (P3IV's mIoU)", "%", 1, "higher", "released",
        "bitwise and / or of action ids; changes when the same actions are numbered in another order",
    ),
    Metric(
        "batch_iou", "batch IoU", "batch IoU (PDPP's MIoU1)", "%", 1, "higher", "released",
        "overlap of the sets of all steps in a mini-batch; changes with the batch size",
    ),
    Metric(
        "marginal_kl", "marginal KL", "marginal KL (PDPP's)", "nats", 2, "lower", "released",
        "KL divergence of single positions, after PDPP's softmax",
    ),
    Metric(
        "marginal_nll", "marginal NLL", "marginal NLL (PDPP's)", "nats", 2, "lower", "released",
        "negative log-likelihood of single positions, after PDPP's softmax",
    ),
    Metric("parameters", "parameters", "parameters", "", 0, "lower", "cost", "trained numbers of the planner"),
    Metric("training_cpu_s", "CPU s", "training", "CPU s", 0, "lower", "cost", "processor time of the training"),
    Metric(
        "milliseconds_per_plan", "ms", "time per plan", "ms", 2, "lower", "cost",
        "processor time of one plan without samples, pair by pair",
    ),
    Metric(
        "plans_per_pair", "plans per pair", "plans per start and goal", "plans", 2, "neither", "data",
        "different plans per pair of first and last step",
    ),
    Metric(
        "plans_per_window", "plans per window", "plans per window", "plans", 2, "neither", "data",
        "different plans that share a window's first and last step",
    ),
)  # fmt: skip


def metrics_of(group: Group) -> tuple[Metric, ...]:
    """The metrics of one group, in the order of the catalogue."""
    return tuple(metric for metric in METRICS.values() if metric.group == group)


def length_metrics() -> tuple[Metric, ...]:
    """The metrics of plans of unknown length, in the order of the catalogue.

    >>> [metric.name for metric in length_metrics()]
    ['success_rate', 'mean_iou', 'edit_score', 'length_accuracy', 'open_nll']
    """
    return tuple(metric for metric in (*metrics_of("plans"), *metrics_of("lengths")) if metric.any_length)


def explain_labels(names: Iterable[str]) -> str:
    """What the short labels of metrics mean.

    >>> explain_labels(["mean_accuracy"])
    'mAcc: mean accuracy (positions that hold the right step)'
    """
    metrics = [METRICS[name] for name in names]
    return "; ".join(f"{metric.label}: {metric.title} ({metric.about})" for metric in metrics)


@dataclass(frozen=True)
class Decoder:
    """One way to get one plan per window."""

    name: str  # in evaluation.json
    label: str
    about: str
    ablation_of: str = ""  # the decoder that this one takes something away from


OWN_DECODER: Final = "own"
DEFAULT_DECODER: Final = "viterbi"
DECODERS = {
    decoder.name: decoder
    for decoder in (
        Decoder(OWN_DECODER, "planner's own plan", "chosen by the planner itself: by its chain, search or retrieval"),
        Decoder(DEFAULT_DECODER, "Viterbi", "averaged soft marginals, row-stochastic transitions"),
        Decoder("viterbi_paper", "Viterbi of the paper", "sample frequencies, the paper's transitions"),
        Decoder(
            "viterbi_paper_uniform_emissions", "uniform emissions", "the paper's transitions alone", "viterbi_paper"
        ),
        Decoder(
            "viterbi_paper_uniform_transitions", "uniform transitions", "sample frequencies alone", "viterbi_paper"
        ),
        Decoder("mode", "most frequent sample", "the plan that was sampled most often"),
        Decoder("argmax", "argmax per position", "the most likely step of each position, without transitions"),
    )
}


# Planners that are evaluated beside every other one: name -> label. The last one only where the length is unknown.
RANDOM: Final = "random"
RETRIEVAL: Final = "retrieval"
FREQUENT_LENGTH: Final = "frequent_length"
BASELINES = {
    RANDOM: "random steps",
    RETRIEVAL: "nearest train window",
    FREQUENT_LENGTH: "always the most frequent length",
}

# What planners for several lengths are told in an evaluation: pieces of evidence -> label. The paper's question first.
PICTURES: Final = ("start", "goal")
MIXES: Mapping[tuple[str, ...], str] = {
    PICTURES: "start and goal",
    ("start", "goal", "history"): "start, goal, the video before",
    ("start", "goal", "procedure"): "start, goal, the procedure",
    ("start", "goal", "history", "procedure"): "start, goal, the video before, the procedure",
    ("start", "history", "procedure"): "start, the video before, the procedure",
    ("start", "words"): "start, the last step in words",
    ("start",): "start alone: what comes next",
}


@dataclass(frozen=True)
class SamplingMode:
    """One way to sample plans."""

    name: str  # of `--mode`, and in evaluation.json
    label: str
    about: str


DEFAULT_NUM_SAMPLES: Final = 1500  # the paper's K
# Per window where the number of steps is unknown: there are several times as many windows, exact scores need no
# samples, and with 1500 a file of predictions has 200 kB per window.
UNKNOWN_LENGTH_SAMPLES: Final = 100

MAX_PLANS: Final = 10_000  # listed for one pair: with 778 actions, finding them takes 300 MB
DEFAULT_MODE: Final = "argmax"
SAMPLING_MODES = {
    mode.name: mode
    for mode in (
        SamplingMode(DEFAULT_MODE, "argmax per latent", "the most likely steps under each latent, as in the paper"),
        SamplingMode("categorical", "drawn per latent", "steps drawn from each latent's softmax"),
        SamplingMode("chain", "drawn from the chain", "exact samples of the chain of emissions and transitions"),
    )
}


@dataclass(frozen=True)
class LossTerm:
    """One column of metrics.csv that a planner's training writes."""

    name: str
    label: str  # in the progress line, and at the end of its curve
    about: str  # in the legend of the progress line; empty where the line leaves it out
    panel: str  # the title of the diagram that it is drawn in
    unit: str = ""  # % for shares from 0 to 1

    def text(self, value: float) -> str:
        """A value as the progress line shows it."""
        return f"{100 * value:.0f}%" if self.unit == "%" else f"{value:.2f}"


_STEPS = "Losses of steps and descriptions"
_ALIGNMENT = "Loss of the alignment with texts"
_CRITIC = "Adversarial loss and loss of the critic"
_ACCURACY = "Accuracy of the critic"
LOSS_TERMS = {
    term.name: term
    for term in (
        LossTerm("chain", "chain", "minus the log probability of the right plan", _STEPS),  # P3IV+
        LossTerm("ends", "ends", "the same for the first and the last step, seen alone", _STEPS),  # P3IV+
        LossTerm(
            "marginals", "marginals", "squared error of the probabilities of the steps", "Loss of the marginals"
        ),  # ViterbiPlanNet
        LossTerm("action", "action", "minus the log probability of the right steps", _STEPS),
        LossTerm("language", "language", "the same for the descriptions of the steps", _STEPS),
        LossTerm("state", "state", "distance to the features of the states in between", "Loss of imagined states"),
        LossTerm(
            "described", "described", "distance to the texts of the states in between", "Loss of described states"
        ),  # SCHEMA
        LossTerm(
            "alignment", "alignment", "of start and goal with the texts of the first and the last step", _ALIGNMENT
        ),  # ViterbiPlanNet and SCHEMA
        LossTerm("procedure", "procedure", "error of the guessed procedure", "Loss of the procedure"),  # the same two
        LossTerm(
            "context", "context", "distance of the context to a standard normal", "Loss of the context"
        ),  # Ext-GAIL
        LossTerm(
            "recovery", "recovery", "error when the context is guessed from a plan", "Loss of recovering the context"
        ),  # Ext-GAIL
        LossTerm("adversarial", "adversarial", "how well the critic tells its plans from real ones", _CRITIC),
        LossTerm("critic", "critic", "", _CRITIC),
        LossTerm("critic_real", "real", "of the real plans, those that the critic takes for real", _ACCURACY, "%"),
        LossTerm("critic_generated", "generated", "of its plans, those that the critic finds", _ACCURACY, "%"),
        LossTerm("diversity", "diversity", "high where all latents give the same plan", "Diversity loss"),
        LossTerm(
            "diversity_ratio", "ratio", "change of a plan per change of its latent", "Diversity: change per change of z"
        ),
        LossTerm("spread", "spread", "how far the scores of steps differ", "Spread of the emissions"),  # P3IV+
        LossTerm("second", "second", "the same terms of the second network", "Losses of the second network"),  # P3IV+
        LossTerm("total", "total", "", "Total loss"),
    )
}


def loss_term(name: str) -> LossTerm:
    """The entry of a loss term; one made of its name for a term without an entry."""
    return LOSS_TERMS.get(name) or LossTerm(name, name, name, f"Loss: {name}")
