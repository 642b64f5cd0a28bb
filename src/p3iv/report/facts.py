"""What was trained on what, as pairs of a word and what stands for it in this run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from p3iv.config import config_from
from p3iv.errors import ConfigError
from p3iv.planners.registry import planner_class
from p3iv.report.inputs import Evaluation, RunRecord
from p3iv.types import counted

_PATH = re.compile(r"(?<!\S)(?:~|[A-Za-z]:)?[/\\]\S*[/\\](?=\S)")  # all of an absolute path but its last part


def facts(run: RunRecord) -> Iterator[tuple[str, str]]:
    """The run in words; what its files leave out is left out."""
    evaluation = run.evaluation
    yield "Planner", _joined(run.setting("planner"), _named(run, "preset"), _named(run, "seed"), _epochs(run))
    yield "Data", evaluation.data
    yield (
        "Windows",
        _joined(
            counted(evaluation.horizon, "action"),
            None if evaluation.num_actions is None else f"out of {evaluation.num_actions}",
            _named(run, "data.window", "{} windows"),
            _named(run, "data.protocol"),
            _named(run, "data.split", "split by “{}”", shorten=True),
            _named(run, "data.split_seed", "split seed {}"),
        ),
    )
    yield "Evaluated on", _evaluated(evaluation)
    if samples := _samples(evaluation):
        yield "Sampled", samples
    yield (
        "Network",
        _joined(
            _named(run, "model.width", "width {}"),
            _named(run, "model.layers", "{} layers"),
            _named(run, "model.heads", "{} heads"),
            _named(run, "model.memory_slots", "{} memory slots"),
            _named(run, "model.noise_width", "noise of {}"),
        ),
    )
    yield "Method", _method(run)
    yield (
        "Optimiser",
        _joined(
            _named(run, "optim.batch_size", "batches of {}"),
            _named(run, "optim.learning_rate", "rate {}"),
            _cpu_time(run),
        ),
    )
    yield "Software", _software(run)


def hide_paths(text: str) -> str:
    """A note without the folders of the machine that it was written on."""
    return _PATH.sub("", text)


def _joined(*parts: str | None) -> str:
    return ", ".join(str(part) for part in parts if part)


def _named(run: RunRecord, name: str, form: str | None = None, *, shorten: bool = False) -> str | None:
    value = run.setting(name)
    if value is None or isinstance(value, dict | list):
        return None
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    if shorten:
        shown = re.split(r"[/\\]", shown)[-1]  # a split file by its name
    return (form or f"{name.rpartition('.')[2]} {{}}").format(shown)


def _method(run: RunRecord) -> str:
    """The planner's own words for what its settings make of it; none where they are not settings of this version."""
    try:
        config = config_from(run.config)
        return planner_class(config.planner).describe(config)
    except ConfigError:
        return ""


def _epochs(run: RunRecord) -> str | None:
    epochs = run.metrics.get("epoch", ())
    if not epochs:
        return None
    kept = f" of {len(epochs)}" if run.best_epoch else ""
    return f"epoch {run.best_epoch}{kept}, the best on validation" if run.best_epoch else f"{len(epochs)} epochs"


def _evaluated(evaluation: Evaluation) -> str:
    windows = f"{counted(evaluation.num_windows, f'{evaluation.split} window')}"
    return windows if evaluation.num_videos is None else f"{windows} of {counted(evaluation.num_videos, 'video')}"


def _samples(evaluation: Evaluation) -> str:
    modes = {
        "argmax": "the likeliest steps under each latent",
        "categorical": "steps drawn under each latent",
        "chain": "drawn from the chain of emissions and transitions",
    }
    if not evaluation.num_samples:
        return ""
    return _joined(
        f"{evaluation.num_samples} plans per window",
        None if evaluation.has_one_mode else modes.get(evaluation.sample_mode or "", evaluation.sample_mode),
        None if evaluation.sample_seed is None else f"seed {evaluation.sample_seed}",
    )


def _cpu_time(run: RunRecord) -> str | None:
    cpu_s = run.metrics.get("cpu_s", ())
    if not cpu_s or not cpu_s[-1] >= 0:
        return None
    return f"{cpu_s[-1]:.0f} CPU seconds" if cpu_s[-1] < 600 else f"{cpu_s[-1] / 60:.0f} CPU minutes"


def _software(run: RunRecord) -> str:
    environment = run.environment
    packages = environment.get("packages")
    torch = packages.get("torch") if isinstance(packages, dict) else None
    return _joined(
        *(f"{name} {environment[name]}" for name in ("p3iv", "python") if environment.get(name)),
        f"torch {torch}" if torch else None,
        f"on {environment['device']}" if environment.get("device") else None,
    )
