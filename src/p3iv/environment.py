"""Versions, device, threads and optional packages of this installation."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Any

FOR_DEVELOPERS = ("dev", "docs", "browser")  # extras that no command of ours needs

_REQUIREMENT = re.compile(r"(?P<spec>(?P<name>[\w.-]+)[^;]*)(;.*extra == ['\"](?P<extra>[\w-]+)['\"])?")


@dataclass(frozen=True)
class Environment:
    """What may explain why two machines compute different figures."""

    p3iv: str
    python: str
    platform: str
    processors: int  # available to this process
    device: str
    threads: int | None  # of torch; None without it
    packages: dict[str, str | None]  # None: not installed
    extras: dict[str, bool]


def describe_environment() -> Environment:
    """The environment of this process; imports torch, which takes a second, if it is installed."""
    required = requirements()
    packages = {name: _version(name) for names in required.values() for name in names}
    return Environment(
        p3iv=own_version(),
        python=platform.python_version(),
        platform=platform.platform(),
        processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        device=_device(),
        threads=_threads(),
        packages=packages,
        extras={extra: all(packages[name] for name in names) for extra, names in required.items() if extra},
    )


def own_version() -> str:
    """The version of p3iv, from its metadata."""
    return _version("p3iv") or "not installed"


def requirements() -> dict[str, dict[str, str]]:
    """The packages that each extra needs, with their versions, from the metadata of p3iv; "" is the core.

    Example:
        >>> requirements()["video"]
        {'av': 'av>=18', 'pillow': 'pillow>=10.1'}
    """
    try:
        lines = metadata.requires("p3iv") or []
    except metadata.PackageNotFoundError:  # run from its sources without an installation
        lines = []
    packages: dict[str, dict[str, str]] = {"": {}}
    for line in lines:
        match = _REQUIREMENT.match(line)
        extra = (match["extra"] or "") if match else ""
        if match and extra not in FOR_DEVELOPERS:
            packages.setdefault(extra, {})[match["name"]] = match["spec"].strip()
    return packages


def install_command(extras: str) -> str:
    """The command that installs what is missing of some extras, such as `video,encoders`.

    It names the packages and not p3iv[extra], so that it works for a clone, for a wheel and wherever p3iv came from.
    """
    required = requirements()
    packages = {name: spec for extra in extras.split(",") for name, spec in required.get(extra, {}).items()}
    missing = [spec for name, spec in packages.items() if _version(name) is None]
    wanted = missing or list(packages.values()) or [f"p3iv[{extras}]"]
    return " ".join(["pip install", *(f"'{spec}'" for spec in wanted)])


def machine_of(environment: Mapping[str, Any]) -> str:
    """One line on the machine of a run, from the content of its `environment.json`; missing entries are skipped."""
    parts = {
        "{}": environment.get("platform"),
        "processors: {}": environment.get("processors"),
        "Python {}": environment.get("python"),
        "torch {}": environment.get("packages", {}).get("torch"),
        "on {}": environment.get("device"),
    }
    return ", ".join(words.format(what) for words, what in parts.items() if what)


def _device() -> str:
    """The device that `--device auto` chooses."""
    if not find_spec("torch"):
        return "cpu"
    import torch  # `p3iv --help` must not wait for it

    if torch.cuda.is_available():
        return f"cuda ({torch.cuda.get_device_name()})"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _threads() -> int | None:
    if not find_spec("torch"):
        return None
    import torch

    return torch.get_num_threads()


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
