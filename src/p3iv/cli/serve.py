"""`p3iv serve` answers questions for plans over HTTP, and has a page to ask them on."""

from __future__ import annotations

import re
import secrets
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from p3iv.cli.console import err, out, print_next, print_note
from p3iv.cli.options import (
    Address,
    AllowDownload,
    Device,
    Engine,
    Ensemble,
    MovedDataset,
    PlannerBackend,
    PlannerEncoder,
    PlannerWeights,
    Threads,
    choice,
    folder_option,
    number_option,
)
from p3iv.errors import ConfigError, require_modules
from p3iv.shipped import SHIPPED
from p3iv.types import counted

if TYPE_CHECKING:
    from p3iv.serving.schema import InfoAnswer

EXAMPLE = "Example: p3iv serve runs/kitchen --data my_kitchen"
LEVELS = ("debug", "info", "warning", "error")


def serve_command(
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="[PLANNER]",
            help="A run folder, a checkpoint, a .onnx file of `p3iv export`, or OWNER/NAME on the hub; without it, the "
            "planner that comes with p3iv, or none with --annotate.",
        ),
    ] = None,
    data: MovedDataset = None,
    annotate: Annotated[
        Path | None,
        folder_option("--annotate", "Annotate the videos in videos/ of this folder on the page, into its steps.csv."),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="The address to listen at. Any but 127.0.0.1 can be reached from elsewhere and needs a token.",
        ),
    ] = "127.0.0.1",
    port: Annotated[int, number_option("--port", "The port; 0 takes any that is free.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="P3IV_TOKEN",
            help="The token that requests must have. Without it, one is made if others can reach the service.",
        ),
    ] = None,
    allow_name: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-name",
            metavar="NAME",
            help="A host name by which others reach it, such as that of a proxy; repeatable.",
        ),
    ] = None,
    uploads: Annotated[
        Path | None, folder_option("--uploads", "The folder for uploads; without it, one that is deleted at the end.")
    ] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=NUMBER",
            help="Change a limit, such as upload_mib=100 or keep_s=600; repeatable. A wrong name lists all.",
        ),
    ] = None,
    metrics: Annotated[bool, typer.Option("--metrics", help="Answer /metrics, for Prometheus.")] = False,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    log_level: Annotated[
        str | None,
        choice("--log-level", LEVELS, help="What is logged; without it, warning on a terminal and info elsewhere."),
    ] = None,
    engine: Engine = "local",
    replicas: Annotated[int, number_option("--replicas", "Copies of the service, with --engine ray.")] = 1,
    address: Address = None,
    ensemble: Ensemble = None,
    encoder: PlannerEncoder = None,
    weights: PlannerWeights = None,
    allow_download: AllowDownload = False,
    backend: PlannerBackend = None,
    device: Device = "auto",
    threads: Threads = 1,
) -> None:
    """Serve plans over HTTP, with a page to try the planner on any video.

    Open the address that it prints. The page takes videos of the dataset and your own; nothing leaves this machine.
    With --annotate DIR, it is a page to mark the steps of your videos and to train a planner on them.
    Ctrl-C ends it, after the requests that are running. The routes are described under docs/reference/service.md and
    in /openapi.json.
    """
    require_modules(["fastapi", "uvicorn"], "serve", "p3iv serve")
    require_modules(["av", "PIL"], "video", "p3iv serve")
    from p3iv.parallel import check_engine

    check_engine(engine, address)
    if replicas != 1 and engine != "ray":
        raise ConfigError(f"--replicas {replicas} needs --engine ray: pass it, too.")
    if metrics:
        require_modules(["prometheus_client"], "serve", "--metrics")
    from p3iv.moments import EncoderChoice
    from p3iv.serving.log import start_logging
    from p3iv.serving.settings import Limits, ServiceSettings, change_limits

    if annotate is not None and engine == "ray":
        raise ConfigError("--annotate does not work with --engine ray: leave one of them out.")
    if data is not None and not data.is_dir():
        raise ConfigError(f"--data {data}, but there is no such folder.")
    if token and not re.fullmatch(r"[\w.~-]+", token, re.ASCII):
        raise ConfigError("--token: use letters, digits and . _ ~ - only, which an address and a cookie can hold.")
    settings = ServiceSettings(
        planner=run or (None if annotate else SHIPPED[0]),
        data=data,
        annotate=annotate,
        device=device,
        backend=backend,
        ensemble=tuple(map(str, ensemble or ())),
        encoder=EncoderChoice(encoder, weights, allow_download),
        host=host,
        port=port,
        allowed_names=tuple(name.lower() for name in allow_name or ()),
        token=token,
        uploads=uploads,
        metrics=metrics,
        threads=threads,
        limits=change_limits(limit or (), Limits(jobs=1) if engine == "ray" else Limits()),
    )
    if settings.is_public and token is None:
        settings = replace(settings, token=secrets.token_urlsafe(24))
    start_logging(log_level or ("warning" if sys.stderr.isatty() else "info"))
    err.print(f"loading {settings.planner or annotate} ...")
    show = partial(_show_service, annotate=annotate, open_page=open_page)
    if engine == "ray":
        from p3iv.serving.ray_engine import run_on_ray

        run_on_ray(settings, replicas=replicas, address=address, on_ready=show)
        return
    from p3iv.serving.app import make_app
    from p3iv.serving.run import run_service
    from p3iv.serving.service import Service

    service = Service(settings)
    run_service(service, make_app(service), show)
    if annotate and (annotate / "steps.csv").is_file():
        print_next("data", "check", annotate)


def _show_service(address: str, info: InfoAnswer, *, annotate: Path | None, open_page: bool) -> None:
    if info.planner:
        first, last, actions = info.horizons[0], info.horizons[-1], counted(len(info.actions), "action")
        steps = counted(last, "step") if first == last else f"{first} to {last} steps"
        out.print(f"{info.planner.name}: {info.planner.method}, plans of {steps}, {actions}")
        if info.encoder_problem:
            print_note(f"no plans from new videos and pictures: {info.encoder_problem}")
    if annotate:
        page = f"{address.partition('#')[0]}annotate" if info.planner else "this page"
        out.print(f"Annotate {annotate} on {page}; every change is saved to {annotate / 'steps.csv'}")
    out.print(f"Open {address}   (Ctrl-C ends the service)")
    sys.stdout.flush()
    if open_page:
        import webbrowser

        webbrowser.open(address)
