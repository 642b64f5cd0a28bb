"""The settings of a run: what each means, its default and its allowed values; presets; `--set KEY=VALUE`.

Each section is a frozen dataclass that validates itself. An invalid value raises a `ConfigError` with the name of the
setting, the value and the allowed values. `describe_settings` lists all settings for the documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from dataclasses import dataclass as plain_dataclass
from dataclasses import field as plain_field
from types import NoneType
from typing import Any, Literal, get_args, get_type_hints

import yaml
from pydantic import ConfigDict, Field, ValidationError, model_validator
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo

from p3iv.catalogue import PRESETS, WINDOW_KINDS
from p3iv.errors import ConfigError, near_misses, one_of
from p3iv.validation import cut, parse_yaml, shown

MIN_STEPS = 240  # of a run with optim.epochs=null

_CHECKS = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


def setting(default: Any, about: str, **limits: Any) -> Any:
    """One setting: its default, one line that explains it, and limits such as `ge=1`."""
    return Field(default, description=about, **limits)


class Section:
    """Base class of the sections: turns the first invalid value into a sentence."""

    @model_validator(mode="wrap")
    @classmethod
    def _explain(cls, values: Any, handler: Any) -> Any:
        try:
            return handler(values)
        except ValidationError as error:
            first = error.errors()[0]
            name, value = str(first["loc"][0]), first["input"]
            known, path = _fields_of(cls), _path_of(cls, name)
            if name not in known:
                raise ConfigError(f"There is no setting {path}. It must be {one_of(name, known)}") from None
            raise ConfigError(f"{path}={shown(value)}, but it must be {_allowed(known[name])}.") from None


class PlannerSection(Section):
    """Base class of the sections that only some planners read."""


@dataclass(frozen=True, config=_CHECKS)
class ModelConfig(Section):
    """Sizes of the network; the defaults are the paper's (supplement C), or ours if it does not state them."""

    width: int = setting(128, "width D of the hidden states", ge=2, le=2**16, multiple_of=2)
    layers: int = setting(2, "number of decoder blocks", ge=1, le=100)
    heads: int = setting(8, "heads of every attention; a divisor of the width", ge=1)
    memory_slots: int = setting(128, "slots of the learned memory; 0 removes the cross-attention", ge=0, le=2**16)
    noise_width: int = setting(32, "width of the latent z; 0 makes the planner deterministic", ge=0, le=2**16)
    feed_forward: int = setting(512, "hidden width of the feed-forward layers", ge=1, le=2**16)
    dropout: float = setting(0.1, "dropout on the outputs of the sub-layers", ge=0, le=0.9)
    encoder_hidden: int = setting(
        256, "hidden width of the MLPs for observations and step descriptions", ge=1, le=2**16
    )
    head_hidden: int = setting(128, "hidden width of the heads h_a and h_v", ge=1, le=2**16)

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ConfigError(f"model.heads={self.heads}, but it must be a divisor of model.width={self.width}.")


@dataclass(frozen=True, config=_CHECKS)
class LossConfig(Section):
    """Weights of the loss terms (0 switches a term off) and the choices inside them."""

    action: float = setting(1.0, "weight of L_a, the cross-entropy of the actions", ge=0)
    language: float = setting(0.5, "weight of L_l, the states against the step descriptions", ge=0)
    adversarial: float = setting(0.1, "weight of L_adv, the loss against the critic", ge=0)
    diversity: float = setting(0.1, "weight of L_reg, the diversity loss", ge=0)
    latents: int = setting(20, "number of latents S of the diversity loss, which compares pairs of them", ge=2)
    diversity_form: Literal["inverse", "paper"] = setting(
        "inverse", "form of the diversity loss: 1 / ratio, or the paper's unbounded minus ratio"
    )
    language_temperature: float = setting(1.0, "divides the logits of L_l", gt=0)
    supervision: Literal["language", "visual"] = setting(
        "language", "targets of L_l: step descriptions, or features of the steps (strong supervision)"
    )

    def __post_init__(self) -> None:
        if not self.action and not self.language:
            raise ConfigError("loss.action=0.0 and loss.language=0.0, but one of them must be above 0.")


@dataclass(frozen=True, config=_CHECKS)
class OptimConfig(Section):
    """Length and speed of training; defaults of the paper, with batch size and critic rate of its released code."""

    epochs: int | None = setting(
        200, "maximum number of epochs; null: `min_epochs`, or more so that there are 240 steps", ge=1
    )
    min_epochs: int = setting(12, "number of epochs if `epochs` is null and there are many windows", ge=1)
    batch_size: int = setting(32, "windows per step", ge=1)
    learning_rate: float = setting(7e-4, "learning rate of the planner", gt=0)
    critic_learning_rate: float = setting(
        1e-5, "learning rate of the critic; at equal rates the critic wins within 3 epochs", gt=0
    )
    epsilon: float = setting(1e-8, "Adam's epsilon; 1e-5 keeps rounding errors small when comparing processes", gt=0)
    decay: float = setting(0.65, "factor of the learning rate after every `decay_every` epochs", gt=0, le=1)
    decay_every: int = setting(40, "epochs between two decays of the learning rate", ge=1)
    precision: Literal["float32", "float64", "mixed"] = setting(
        "float32", "number format; float64 to compare runs, mixed on cuda only"
    )
    max_cpu_s: float | None = setting(
        None, "budget of process time in seconds; no epoch starts that would exceed it", gt=0, allow_inf_nan=True
    )
    patience: int | None = setting(None, "stop after this many epochs without a better validation score", ge=1)

    def epochs_over(self, num_windows: int) -> int:
        """Maximum number of epochs for this many training windows."""
        steps = -(-num_windows // self.batch_size)
        return self.epochs or max(self.min_epochs, -(-MIN_STEPS // steps))


@dataclass(frozen=True, config=_CHECKS)
class BaselineConfig(PlannerSection):
    """Choices of the baselines; the file of each baseline names those that it reads."""

    neighbours: int = setting(1, "retrieval: number of neighbours; more than 1 give a distribution of plans", ge=1)
    beam: int = setting(10, "DDN and PlaTe: width of the beam search", ge=1, le=1000)
    goal_weight: float | None = setting(
        None, "DDN and PlaTe: weight of the distance to the goal; null: chosen on validation windows", ge=0
    )
    temperature: float = setting(1.0, "temperature of plans that are sampled action by action", gt=0)
    inner_steps: int = setting(4, "UPN: steps of gradient descent on a plan", ge=1, le=1000)
    inner_rate: float = setting(10.0, "UPN: initial rate of these steps", gt=0)


@dataclass(frozen=True, config=_CHECKS)
class SuccessorConfig(PlannerSection):
    """Choices of the planners that were published after P3IV; the file of each names those that it reads."""

    input_dropout: float = setting(
        0.4, "ViterbiPlanNet and SCHEMA: dropout on observations and step embeddings", ge=0, le=0.9
    )
    transition_floor: float = setting(
        1e-10, "ViterbiPlanNet and SCHEMA: probability of a transition that no training plan has", gt=0, le=1
    )


@dataclass(frozen=True, config=_CHECKS)
class PlusConfig(PlannerSection):
    """The parts of P3IV+, each with a switch: what feeds its chain, how it is trained, what is calibrated after it."""

    linear: bool = setting(True, "score actions by a ridge regression from [start; goal] (linear path)")
    neighbours: bool = setting(True, "linear path: first and last position also learn from neighbouring horizons")
    nearby: int = setting(
        2, "linear path: also learn from windows seen up to this many seconds earlier and later", ge=0, le=10
    )
    held_out: bool = setting(True, "linear path: train with scores from a fit without the window's own video")
    decoder: bool = setting(True, "score actions by the paper's decoder")
    end_heads: bool = setting(True, "score the first and last action by start and goal alone")
    scale: float = setting(18.0, "initial factor of the linear scores", ge=0)
    gain: float = setting(0.5, "initial factor of the learned scores", ge=0)
    chain: bool = setting(True, "train through the chain that decodes; false: every position by itself")
    backoff: float = setting(
        5.0, "transitions: pseudo-counts of co-occurrence in a video; 0: transitions as for other planners", ge=0
    )
    folds: int = setting(8, "train a window with transitions counted without its video's fold; 1: with all", ge=1)
    learned_beta: bool = setting(True, "learn the exponent of the transitions")
    spread: float = setting(0.6, "weight of the term that keeps emissions flat", ge=0)
    ends: float = setting(2.0, "weight of the cross-entropy of the first and last action", ge=0)
    label_smoothing: float = setting(0.3, "label smoothing of that cross-entropy", ge=0, lt=1)
    warm_up: int = setting(50, "steps until the full learning rate, which then falls with a cosine", ge=0)
    max_grad_norm: float = setting(5.0, "gradients are clipped to this norm", gt=0, allow_inf_nan=True)
    ema_decay: float = setting(0.98, "decay of the moving average of the weights; 0: no average", ge=0, lt=1)
    second: bool = setting(True, "join a second network that is trained by itself")
    effects: bool = setting(True, "rescore the likeliest plans by whether their effects add up to what changed")
    calibrated: bool = setting(True, "choose the temperature of the emissions on validation windows")

    def __post_init__(self) -> None:
        if not self.linear and not self.decoder:
            raise ConfigError("plus.linear=False and plus.decoder=False, but one of them must score the actions.")


@dataclass(frozen=True, config=_CHECKS)
class CurationSettings(Section):
    """How windows are cut and divided into train, val and test."""

    horizon: int = setting(3, "number of actions T in a plan; under protocol 2, T - 1 are predicted", ge=1, le=1000)
    min_horizon: int | None = setting(
        None,
        "also plan fewer actions, down to this number; null: all plans have one length",
        ge=1,
        le=1000,
    )
    window: str = setting(
        "inclusive",
        "the start observation shows the first action of the plan, or (after-start) the action before it",
        pattern=f"^({'|'.join(WINDOW_KINDS)})$",
    )
    protocol: int = setting(1, "1: every window, 70/30 by video; 2: one window per video, 85/15", ge=1, le=2)
    split: str = setting("video", "video, stratified, release, window, or a split file; all or fold-2-of-5 in folds")
    split_seed: int = setting(0, "seed of the random split")

    def __post_init__(self) -> None:
        if self.protocol == 2 and self.horizon < 2:
            raise ConfigError(f"horizon={self.horizon}, but protocol 2 needs at least 2.")
        if self.protocol == 2 and self.window != "inclusive":
            raise ConfigError(f"window={shown(self.window)}, but protocol 2 defines its own: use --window inclusive.")
        if self.min_horizon is not None and self.min_horizon > self.horizon:
            raise ConfigError(f"min_horizon={self.min_horizon}, but it must be at most horizon={self.horizon}.")
        if self.has_lengths and (self.protocol == 2 or self.split == "window"):
            raise ConfigError(
                f"horizon={self.min_horizon}-{self.horizon}, but protocol 2 and --split window need one length: pass "
                f"one number, or --protocol 1 with a split by video."
            )

    @property
    def num_actions(self) -> int:
        """Positions that are predicted: T, but T - 1 under protocol 2; the most, if plans have several lengths."""
        return self.horizon if self.protocol == 1 else self.horizon - 1

    @property
    def has_lengths(self) -> bool:
        """Whether plans have several lengths."""
        return self.min_horizon not in (None, self.horizon)

    @property
    def horizons(self) -> tuple[int, ...]:
        """All lengths of plans, shortest first."""
        longest = self.num_actions
        return tuple(range(self.min_horizon if self.has_lengths and self.min_horizon else longest, longest + 1))


@dataclass(frozen=True, config=_CHECKS)
class DataConfig(CurationSettings):
    """Which windows, and how a moment becomes an observation."""

    observation: Literal["mean", "concat"] = setting(
        "mean", "how the features of the three seconds around a moment are joined"
    )


@dataclass(frozen=True, config=_CHECKS)
class Config(Section):
    """Everything that decides a run."""

    planner: str = setting("p3iv", "name of the planner")
    preset: str = setting("p3iv", "name of the preset that the settings started from")
    seed: int = setting(0, "seed of parameters, noise, order and dropout", ge=0, le=2**63 - 1)
    data: DataConfig = plain_field(default_factory=DataConfig)
    model: ModelConfig = plain_field(default_factory=ModelConfig)
    loss: LossConfig = plain_field(default_factory=LossConfig)
    optim: OptimConfig = plain_field(default_factory=OptimConfig)
    baseline: BaselineConfig = plain_field(default_factory=BaselineConfig)
    successor: SuccessorConfig = plain_field(default_factory=SuccessorConfig)
    plus: PlusConfig = plain_field(default_factory=PlusConfig)

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise ConfigError(f"preset={shown(self.preset)}, but it must be {one_of(self.preset, PRESETS)}")
        if self.model.noise_width == 0 and (self.loss.adversarial or self.loss.diversity):
            raise ConfigError(
                f"model.noise_width=0 with loss.adversarial={self.loss.adversarial} and "
                f"loss.diversity={self.loss.diversity}: without noise there is nothing to diversify. "
                f"Use --preset p3iv-deterministic, or set both weights to 0."
            )

    def to_yaml(self) -> str:
        return yaml.safe_dump(asdict(self), sort_keys=False)


def parse_horizon(given: int | str) -> tuple[int | None, int]:
    """The shortest and the longest plan of a number, or of a range such as 1-6; the shortest is None for a number.

    >>> parse_horizon("1-6"), parse_horizon(3)
    ((1, 6), (None, 3))
    """
    text = str(given)
    first, dash, last = text.partition("-")
    if isinstance(given, bool) or not first.isdecimal() or (dash and not last.isdecimal()) or len(text) > 9:
        raise ConfigError(f"horizon={shown(given)}, but it must be a whole number, or a range such as 1-6.")
    return (int(first), int(last)) if dash else (None, int(first))


SECTIONS: dict[str, type[Section]] = {
    name: kind for name, kind in get_type_hints(Config).items() if isinstance(kind, type) and issubclass(kind, Section)
}

PLANNER_SECTIONS = tuple(name for name, kind in SECTIONS.items() if issubclass(kind, PlannerSection))


def preset_config(name: str) -> Config:
    """The configuration of a preset."""
    if name not in PRESETS:
        raise ConfigError(f"preset={shown(name)}, but it must be {one_of(name, PRESETS)}")
    return override(Config(preset=name), PRESETS[name])


def override(config: Config, changes: Mapping[str, Any]) -> Config:
    """Replace settings by their dotted names, such as model.width, and check names and values."""
    content = asdict(config)
    for key, value in changes.items():
        section, _, name = key.rpartition(".")
        place = content.get(section) if section else content
        if not isinstance(place, dict) or name not in place or isinstance(place[name], dict):
            raise ConfigError(_explain_unknown(key))
        place[name] = value
    return config_from(content)


def _explain_unknown(key: str) -> str:
    """What to type in place of a setting that does not exist: the nearest, those of its section, or the sections."""
    problem, section = f"There is no setting {shown(key)}.", key.rpartition(".")[0]
    if nearest := near_misses(key, setting_names()):
        return f"{problem} Did you mean {' or '.join(nearest)}?"
    if section in SECTIONS:
        return f"{problem} Those of {section} are {', '.join(_fields_of(SECTIONS[section]))}."
    return (
        f"{problem} A setting is named by its section, one of {', '.join(SECTIONS)}, and itself, such as optim.epochs; "
        "`p3iv train --list-settings` lists all."
    )


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """The `key=value` texts of the command line; a value is read as YAML, such as 0.5, true and null."""
    changes = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            raise ConfigError(f"--set {text}, but it must be key=value, such as --set optim.epochs=20.")
        changes[key.strip()] = _read_value(key, value)
    return changes


def config_from(content: Any) -> Config:
    """Build a configuration from nested mappings, such as config.yaml, and check names and values."""
    if not isinstance(content, Mapping):
        raise ConfigError(f"The configuration is {shown(content)}, but it must be a mapping.")
    arguments = dict(content)
    for name, kind in SECTIONS.items():
        if name in arguments:
            if not isinstance(arguments[name], Mapping):
                raise ConfigError(f"{name} is {shown(arguments[name])}, but it must be a mapping.")
            arguments[name] = kind(**arguments[name])
    return Config(**arguments)


@plain_dataclass(frozen=True)
class SettingInfo:
    """One setting, for documentation."""

    name: str  # dotted, such as model.width
    default: Any
    allowed: str
    about: str


def describe_settings() -> Iterator[SettingInfo]:
    """All settings in the order of their sections."""
    for name, info in _fields_of(Config).items():
        if name not in SECTIONS:
            yield SettingInfo(name, info.default, _allowed(info), info.description or "")
    for section, kind in SECTIONS.items():
        for name, info in _fields_of(kind).items():
            yield SettingInfo(f"{section}.{name}", info.default, _allowed(info), info.description or "")


def setting_names() -> list[str]:
    """The dotted names of all settings."""
    return [info.name for info in describe_settings()]


def _fields_of(kind: type[Section]) -> dict[str, FieldInfo]:
    found: dict[str, FieldInfo] = getattr(kind, "__pydantic_fields__", {})
    return found


def _path_of(kind: type[Section], name: str) -> str:
    """The dotted name of a setting of a section."""
    return next((f"{section}.{name}" for section, other in SECTIONS.items() if other is kind), name)


def _allowed(info: FieldInfo) -> str:
    """The allowed values of a setting, in words."""
    options = [kind for kind in get_args(info.annotation) if kind is not NoneType] or [info.annotation]
    if not isinstance(options[0], type):
        words = f"{', '.join(map(str, options[:-1]))} or {options[-1]}"
    elif options[0] is bool:
        words = "true or false"
    elif options[0] is str:
        pattern = _limits_of(info).get("pattern")
        words = " or ".join(pattern.strip("^()$").split("|")) if pattern else "a text"
    else:
        words = _range_of(info, "whole number" if options[0] is int else "number")
    return f"{words}, or null" if NoneType in get_args(info.annotation) else words


def _range_of(info: FieldInfo, noun: str) -> str:
    """A number between limits, in words: `a finite number above 0`."""
    limits = _limits_of(info)
    if "multiple_of" in limits:
        noun = f"even {noun}"
    elif noun == "number" and not limits.keys() & {"le", "lt", "allow_inf_nan"}:
        noun = f"finite {noun}"
    words = f"an {noun}" if noun.startswith("e") else f"a {noun}"
    words += f" from {limits['ge']}" if "ge" in limits else f" above {limits['gt']}" if "gt" in limits else ""
    if "le" in limits:
        words += f" {'to' if 'ge' in limits else 'and at most'} {limits['le']}"
    return f"{words} to below {limits['lt']}" if "lt" in limits else words


def _limits_of(info: FieldInfo) -> dict[str, Any]:
    names = ("ge", "gt", "le", "lt", "multiple_of", "allow_inf_nan", "pattern")
    return {name: getattr(one, name) for one in info.metadata for name in names if getattr(one, name, None) is not None}


def _read_value(key: str, text: str) -> Any:
    try:
        value = parse_yaml(text)
    except ValueError as error:
        raise ConfigError(f"--set {key}={cut(text)}: the value cannot be read.") from error
    if isinstance(value, str):
        try:
            return float(value)  # YAML reads 1e-4 as a text
        except ValueError:
            return value
    return value
