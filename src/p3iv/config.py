"""Settings that validate themselves and name the field and the value that is wrong; presets; `--set key=value`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, get_type_hints

import yaml

from p3iv.errors import ConfigError

WINDOW_KINDS = ("inclusive", "after-start")
SPLIT_KINDS = ("video", "release", "window")
FEWEST_EPOCHS, FEWEST_STEPS = 12, 240  # of a run that is told neither


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the network; the defaults are the paper's (supplement C), ours where it is silent."""

    width: int = 128  # D, of the hidden states
    layers: int = 2  # decoder blocks
    heads: int = 8  # of every attention
    memory_slots: int = 128  # 0 removes the cross-attention
    noise_width: int = 32  # 0: the deterministic planner
    feed_forward: int = 512  # hidden width of the feed-forward part
    dropout: float = 0.1  # on the outputs of the sub-layers
    encoder_hidden: int = 256  # hidden width of the MLPs for observations and step descriptions
    head_hidden: int = 128  # hidden width of the heads h_a and h_v

    def __post_init__(self) -> None:
        for name in ("width", "layers", "heads", "feed_forward", "encoder_hidden", "head_hidden"):
            _require(getattr(self, name) >= 1, self, name, "at least 1")
        for name in ("memory_slots", "noise_width"):
            _require(getattr(self, name) >= 0, self, name, "0 or more")
        _require(0 <= self.dropout <= 0.9, self, "dropout", "from 0 to 0.9")
        _require(self.width % self.heads == 0, self, "heads", f"a divisor of width={self.width}")
        _require(self.width % 2 == 0, self, "width", "even: positions are pairs of sine and cosine")


@dataclass(frozen=True)
class LossConfig:
    """Weights of the loss terms (0 switches one off) and the choices inside them."""

    action: float = 1.0  # weight of L_a
    language: float = 0.5  # weight of L_l
    adversarial: float = 0.1  # weight of L_adv
    diversity: float = 0.1  # weight of L_reg
    latents: int = 20  # S of the diversity loss
    diversity_form: str = "inverse"  # or `paper`: the literal, unbounded minus ratio
    language_temperature: float = 1.0  # divides the logits of L_l
    supervision: str = "language"  # or `visual`: features of the steps in between (strong supervision)

    def __post_init__(self) -> None:
        for name in ("action", "language", "adversarial", "diversity"):
            _require(0 <= getattr(self, name) < math.inf, self, name, "a finite number from 0")
        _require(self.action > 0 or self.language > 0, self, "action", "above 0, or language above 0")
        _require(self.latents >= 2, self, "latents", "at least 2: the loss compares pairs")
        _require(self.diversity_form in ("inverse", "paper"), self, "diversity_form", "inverse or paper")
        _require(0 < self.language_temperature < math.inf, self, "language_temperature", "above 0")
        _require(self.supervision in ("language", "visual"), self, "supervision", "language or visual")


@dataclass(frozen=True)
class OptimConfig:
    """How long and how fast; the defaults are the paper's, batch and critic rate those of its released code."""

    epochs: int | None = 200  # null: 12, or as many as make 240 steps where windows are few
    batch_size: int = 32  # windows per step
    learning_rate: float = 7e-4  # of the planner
    critic_learning_rate: float = 1e-5  # at equal rates the critic wins within 3 epochs
    epsilon: float = 1e-8  # Adam's; at 1e-5 it no longer blows rounding errors up, see the README on processes
    decay: float = 0.65  # factor of the learning rate after every `decay_every` epochs
    decay_every: int = 40  # epochs
    precision: str = "float32"  # or `float64`, to compare runs; or `mixed`, on cuda only
    max_cpu_s: float | None = None  # process time; an epoch that would pass it is not begun, but for the first
    patience: int | None = None  # stop after so many epochs without a better one on validation windows

    def __post_init__(self) -> None:
        _require(self.epochs is None or self.epochs >= 1, self, "epochs", "at least 1, or null")
        for name in ("batch_size", "decay_every"):
            _require(getattr(self, name) >= 1, self, name, "at least 1")
        for name in ("learning_rate", "critic_learning_rate", "epsilon"):
            _require(0 < getattr(self, name) < math.inf, self, name, "above 0")
        _require(0 < self.decay <= 1, self, "decay", "above 0, at most 1")
        _require(self.precision in ("float32", "float64", "mixed"), self, "precision", "float32, float64 or mixed")
        _require(self.max_cpu_s is None or self.max_cpu_s > 0, self, "max_cpu_s", "above 0, or null")
        _require(self.patience is None or self.patience >= 1, self, "patience", "at least 1, or null")

    def epochs_over(self, num_windows: int) -> int:
        """How many epochs so many training windows get: at most."""
        steps = -(-num_windows // self.batch_size)
        return self.epochs or max(FEWEST_EPOCHS, -(-FEWEST_STEPS // steps))


class PlannerSettings:
    """Base class of the sections that only some planners read."""


@dataclass(frozen=True)
class BaselineConfig(PlannerSettings):
    """Choices of the planners to compare with; each says in its file which of them it reads."""

    neighbours: int = 1  # k of retrieval; more than 1 give a distribution of plans
    beam: int = 10  # width of a beam search
    goal_weight: float | None = None  # of a plan's distance to the goal, against its log probability; null: chosen
    temperature: float = 1.0  # of plans that are drawn action by action
    inner_steps: int = 4  # of gradient descent on a plan
    inner_rate: float = 10.0  # where that descent starts to learn its rates

    def __post_init__(self) -> None:
        for name in ("neighbours", "beam", "inner_steps"):
            _require(getattr(self, name) >= 1, self, name, "at least 1")
        weight = self.goal_weight
        _require(weight is None or 0 <= weight < math.inf, self, "goal_weight", "a finite number from 0, or null")
        for name in ("temperature", "inner_rate"):
            _require(0 < getattr(self, name) < math.inf, self, name, "a finite number above 0")


@dataclass(frozen=True)
class PlusConfig(PlannerSettings):
    """The pieces of P3IV+, each a switch: what feeds its chain, how the chain is trained, and what is chosen after."""

    linear: bool = True  # the ridge regression from [start; goal] to the actions
    neighbours: bool = True  # its first and last positions also learn from pairs of neighbouring horizons
    nearby: int = 2  # it also learns from windows as seen up to so many seconds early and late; 0: from no others
    held_out: bool = True  # in training, its scores are those without a window's own video
    decoder: bool = True  # the paper's decoder
    end_heads: bool = True  # what start and goal alone say of the first and the last action
    scale: float = 18.0  # of the linear scores, where learning starts
    gain: float = 0.5  # of the learned scores, where learning starts
    chain: bool = True  # train through the chain that decodes; off: every position by itself
    backoff: float = 5.0  # pseudo-counts of co-occurrence in the transitions; 0: those of the other planners
    folds: int = 8  # a window is trained with transitions counted without its video's fold; 1: with all videos
    learned_beta: bool = True  # the exponent of the transitions
    spread: float = 0.6  # weight of the term that keeps emissions flat
    ends: float = 2.0  # weight of the cross-entropy of the first and the last action
    label_smoothing: float = 0.3  # of that cross-entropy
    warm_up: int = 50  # steps until the full learning rate, which then falls with a cosine
    longest_step: float = 5.0  # the norm that gradients are cut to
    average: float = 0.98  # of the moving average of the weights; 0: the weights themselves
    effects: bool = True  # the likeliest plans are weighed by whether their actions add up to what changed
    calibrated: bool = True  # the temperature of the emissions is chosen on validation windows

    def __post_init__(self) -> None:
        for name in ("scale", "gain", "backoff", "spread", "ends"):
            _require(0 <= getattr(self, name) < math.inf, self, name, "a finite number from 0")
        _require(self.folds >= 1, self, "folds", "at least 1")
        _require(0 <= self.nearby <= 10, self, "nearby", "from 0 to 10 seconds")
        _require(self.warm_up >= 0, self, "warm_up", "0 or more")
        _require(self.longest_step > 0, self, "longest_step", "above 0")
        for name in ("label_smoothing", "average"):
            _require(0 <= getattr(self, name) < 1, self, name, "from 0 to below 1")
        _require(self.linear or self.decoder, self, "linear", "true, or decoder true: something must score the actions")


@dataclass(frozen=True)
class CurationSettings:
    """How windows are cut and who trains on them; `split` is one of SPLIT_KINDS or the path of a split file."""

    horizon: int = 3  # T, the number of actions in a plan; under protocol 2 one more
    window: str = "inclusive"  # or `after-start`: one more action is shown and not predicted (supplement)
    protocol: int = 1  # 1: every window, 70/30; 2: one window per video, 85/15
    split: str = "video"  # how videos are divided: video, release, window, or the path of a split file
    split_seed: int = 0  # of the random split

    def __post_init__(self) -> None:
        shortest = 1 if self.protocol == 1 else 2
        if self.protocol not in (1, 2):
            raise ConfigError(f"protocol={self.protocol}, but there are protocols 1 and 2.")
        if self.horizon < shortest:
            raise ConfigError(f"horizon={self.horizon}, but protocol {self.protocol} needs at least {shortest}.")
        if self.window not in WINDOW_KINDS:
            raise ConfigError(f"window={self.window!r}, but it is one of {', '.join(WINDOW_KINDS)}.")
        if self.protocol == 2 and self.window != "inclusive":
            raise ConfigError(f"window={self.window!r}, but protocol 2 defines its own: use --window inclusive.")

    @property
    def num_actions(self) -> int:
        """Positions that are predicted: under protocol 2 a horizon of T means T - 1 of them."""
        return self.horizon if self.protocol == 1 else self.horizon - 1


@dataclass(frozen=True)
class DataConfig(CurationSettings):
    """Which windows, and how a moment becomes an observation."""

    observation: str = "mean"  # of the three seconds around a moment, or `concat`

    def __post_init__(self) -> None:
        super().__post_init__()
        _require(self.observation in ("mean", "concat"), self, "observation", "mean or concat")


@dataclass(frozen=True)
class Config:
    """Everything that decides a run."""

    planner: str = "p3iv"  # one of planners.registry.PLANNERS
    preset: str = "p3iv"
    seed: int = 0
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    baseline: BaselineConfig = field(default_factory=BaselineConfig)
    plus: PlusConfig = field(default_factory=PlusConfig)

    def __post_init__(self) -> None:
        _require(0 <= self.seed < 2**63, self, "seed", "from 0 to 2**63 - 1")
        _require(self.preset in PRESETS, self, "preset", f"one of {', '.join(PRESETS)}")
        if self.model.noise_width == 0 and (self.loss.adversarial or self.loss.diversity):
            raise ConfigError(
                f"model.noise_width=0 with loss.adversarial={self.loss.adversarial} and "
                f"loss.diversity={self.loss.diversity}: without noise there is nothing to diversify. "
                f"Use --preset p3iv-deterministic, or set both weights to 0."
            )

    def to_yaml(self) -> str:
        return yaml.safe_dump(asdict(self), sort_keys=False)


PLANNER_SECTIONS = tuple(
    name
    for name, section in get_type_hints(Config).items()
    if isinstance(section, type) and issubclass(section, PlannerSettings)
)

_DETERMINISTIC = {"model.noise_width": 0, "loss.adversarial": 0.0, "loss.diversity": 0.0}

PRESETS: dict[str, dict[str, Any]] = {
    "p3iv": {},
    "p3iv-deterministic": _DETERMINISTIC,
    "p3iv-plus": _DETERMINISTIC | {"optim.epochs": None, "optim.batch_size": 64},
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


def preset_config(name: str) -> Config:
    """The configuration of a preset."""
    if name not in PRESETS:
        raise ConfigError(f"preset={name!r}, but the presets are {', '.join(PRESETS)}.")
    return override(Config(preset=name), PRESETS[name])


def override(config: Config, changes: Mapping[str, Any]) -> Config:
    """Replace settings by their dotted names, such as model.width, checking name and type."""
    content = asdict(config)
    for key, value in changes.items():
        section = content
        *sections, name = key.split(".")
        for part in sections:
            section = section.get(part) if isinstance(section, dict) else None  # type: ignore[assignment]
        if not isinstance(section, dict) or name not in section or isinstance(section[name], dict):
            raise ConfigError(f"There is no setting {key!r}. The settings are {', '.join(setting_names())}.")
        section[name] = value
    changed: Config = config_from(content)
    return changed


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """`key=value` texts of the command line; a value is read as YAML, so 0.5, true and null mean what they say."""
    changes = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign:
            raise ConfigError(f"--set {text}, but it is key=value, such as --set optim.epochs=20.")
        changes[key.strip()] = _read_value(key, value)
    return changes


def config_from(content: Mapping[str, Any], kind: type[Any] = Config, path: str = "") -> Any:
    """Build a configuration from nested mappings, refusing unknown names and wrong types by name."""
    if not isinstance(content, Mapping):
        raise ConfigError(f"{path or 'the configuration'} is {content!r}, but must be a mapping.")
    hints = get_type_hints(kind)
    unknown = [name for name in content if name not in hints]
    if unknown:
        raise ConfigError(f"There is no setting {path}{unknown[0]}. It is one of {', '.join(hints)}.")
    return kind(**{name: _checked(value, hints[name], f"{path}{name}") for name, value in content.items()})


def setting_names() -> list[str]:
    """All settings by their dotted names."""
    flat = []
    for name, value in asdict(Config()).items():
        flat += [f"{name}.{inner}" for inner in value] if isinstance(value, dict) else [name]
    return flat


def _checked(value: Any, hint: Any, path: str) -> Any:
    if is_dataclass(hint):
        return config_from(value, hint, f"{path}.")  # type: ignore[arg-type]
    if hint == float | None and value is None:
        return None
    expected = float if hint == float | None else hint
    if expected is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise ConfigError(f"{path}={value!r}, but it must be {_kind_name(hint)}.")
    return value


def _kind_name(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return names.get(hint, "a whole number or null" if hint == int | None else "a number or null")


def _read_value(key: str, text: str) -> Any:
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"--set {key}={text}: the value cannot be read.") from error
    if isinstance(value, str):
        try:
            return float(value)  # YAML reads 1e-4 as a text
        except ValueError:
            return value
    return value


def _require(holds: bool, config: Any, name: str, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{_section_of(config)}{name}={getattr(config, name)!r}, but it must be {allowed}.")


def _section_of(config: Any) -> str:
    sections = {f.type: f.name for f in fields(Config)}
    name = sections.get(type(config).__name__)
    return f"{name}." if name else ""
