"""A small reproduction that tests share, and how to read its tables."""

from __future__ import annotations

import csv
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from p3iv.experiments.compare import CompareRequest
from p3iv.experiments.reproduce import ReproduceRequest

Request = TypeVar("Request", ReproduceRequest, CompareRequest)

SAMPLES = 20
TINY = {"optim.epochs": 1, "model.width": 32, "model.feed_forward": 32, "model.encoder_hidden": 32, "loss.latents": 2}


def tiny_request(data: Path, out: Path) -> ReproduceRequest:
    """Two tables that share three runs, one table of counts, a drawing, and a figure of plans."""
    return ReproduceRequest(
        names=("losses", "viterbi", "unique-plans", "figure-1", "diversity"),
        data=(data,),
        out=out,
        horizons=(3,),
        settings=TINY,
        samples=SAMPLES,
    )


def executed(request: Request, **changes: Any) -> Request:
    """The same request with other callbacks or another engine."""
    return replace(request, execution=replace(request.execution, **changes))


def with_runs(request: ReproduceRequest, out: Path) -> ReproduceRequest:
    """The same request for another folder, which already has the runs but no table."""
    shutil.copytree(request.out / "runs", out / "runs")
    return replace(request, out=out)


def cells(request: ReproduceRequest, name: str) -> list[dict[str, str]]:
    """The lines of a table."""
    return list(csv.DictReader((request.out / "tables" / f"{name}.csv").read_text().splitlines()))
