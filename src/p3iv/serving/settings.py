"""What a service is started with: the planner, the address, and its limits."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final

from p3iv.errors import ConfigError, one_of
from p3iv.moments import EncoderChoice
from p3iv.validation import shown

MIB: Final = 2**20
LOCAL_NAMES: Final = ("localhost",)


def _limit(default: int, about: str, *, minimum: int = 1) -> Any:
    return field(default=default, metadata={"about": about, "minimum": minimum})


@dataclass(frozen=True)
class Limits:
    """What one request, one client and all uploads together may use; `p3iv serve --limit NAME=NUMBER` changes one."""

    upload_mib: int = _limit(512, "size of an uploaded video")
    upload_minutes: int = _limit(120, "length of an uploaded video")
    picture_mib: int = _limit(20, "size of an uploaded picture")
    json_kib: int = _limit(64, "size of a request in JSON")
    disk_mib: int = _limit(5 * 1024, "disk space of all uploads; the oldest are deleted first")
    keep_s: int = _limit(3600, "seconds until an upload that nobody uses is deleted")
    jobs: int = _limit(0, "processes that decode and encode; 0: one per processor", minimum=0)
    waiting: int = _limit(32, "jobs that wait for them; a request beyond is refused", minimum=0)
    job_memory_mib: int = _limit(1024, "memory that a job may use in its process")
    follows: int = _limit(8, "videos that are followed at the same time; a request beyond is refused")
    request_s: int = _limit(30, "seconds of computing for a request")
    idle_s: int = _limit(30, "seconds without a byte before a connection is closed")
    plans_per_minute: int = _limit(60, "plans per client, on a public address")
    uploads_per_hour: int = _limit(10, "uploads per client, on a public address")
    samples: int = _limit(10_000, "sampled plans of a request")
    plans: int = _limit(1_000, "plans in an answer")


def change_limits(changes: Sequence[str], limits: Limits | None = None) -> Limits:
    """Limits with changes of the form NAME=NUMBER.

    Raises:
        ConfigError: naming the limit and what is allowed.

    Example:
        >>> change_limits(["keep_s=60"]).keep_s
        60
    """
    known = {each.name: each for each in fields(Limits)}
    values: dict[str, int] = {}
    for change in changes:
        name, _, number = change.partition("=")
        if name not in known:
            raise ConfigError(f"--limit {shown(change)}: its name must be {one_of(name, known)}")
        minimum = known[name].metadata["minimum"]
        if not (number.isascii() and number.isdecimal() and len(number) <= 12 and int(number) >= minimum):
            raise ConfigError(f"--limit {shown(change)}: give a whole number from {minimum}, as in {name}=100.")
        values[name] = int(number)
    return replace(limits or Limits(), **values)


def describe_limits() -> tuple[tuple[str, int, str], ...]:
    """Every limit: its name, its default and its meaning."""
    return tuple((each.name, getattr(Limits, each.name), each.metadata["about"]) for each in fields(Limits))


@dataclass(frozen=True)
class ServiceSettings:
    """How a service is started; it can be pickled, so that other machines can start the same."""

    planner: str | None  # None: only to annotate
    data: Path | None = None  # the dataset folder, if it has moved since training
    device: str = "auto"
    backend: str | None = None
    ensemble: tuple[str, ...] = ()
    encoder: EncoderChoice = field(default_factory=EncoderChoice)
    host: str = "127.0.0.1"
    port: int = 8000
    allowed_names: tuple[str, ...] = ()  # host names beside localhost and numeric addresses
    token: str | None = None
    uploads: Path | None = None  # the folder of uploads; None: a temporary one
    annotate: Path | None = None  # the folder whose videos are annotated
    metrics: bool = False
    threads: int = 1
    limits: Limits = field(default_factory=Limits)

    @property
    def is_public(self) -> bool:
        """Whether others can reach the service: at its address, or through a proxy that has one of its names."""
        return not is_loopback(self.host) or bool(self.allowed_names)


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in LOCAL_NAMES
