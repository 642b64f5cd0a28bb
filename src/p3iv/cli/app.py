"""The `p3iv` program: the table of commands, `p3iv info`, and how errors are printed."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from p3iv.cli import (
    compare,
    data,
    demo,
    evaluate,
    export,
    extract,
    follow,
    plan,
    push,
    report,
    reproduce,
    score,
    serve,
    train,
)
from p3iv.cli.console import err, out, print_error, print_json, print_next, print_next_training, print_note
from p3iv.cli.help import App, Group
from p3iv.cli.options import AsJson
from p3iv.errors import P3ivError
from p3iv.shipped import SHIPPED, ShippedClip, shipped_clips, shipped_planner
from p3iv.types import counted_range

if TYPE_CHECKING:
    from p3iv.data.folder import DatasetCard
    from p3iv.planners.header import Header

NOT_WITHOUT_TORCH = ("torch", "safetensors", "markupsafe")  # what a short install for .onnx files does without
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


class _Root(Group):
    """Lists `data` where it is used first, and says so when the user interrupts."""

    def list_commands(self, ctx: Any) -> list[str]:
        names = super().list_commands(ctx)
        names.insert(1, names.pop(names.index("data")))  # typer puts groups last
        return names

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            err.print("interrupted")
            raise typer.Exit(130) from error


app = App(
    name="p3iv",
    cls=_Root,
    help="Plan procedures from video: given two moments, find the likely step-by-step plans between them.",
    epilog="For CrossTask, COIN, NIV or your own videos, see `p3iv data import --help`. Example: p3iv demo demo",
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", epilog=demo.EXAMPLE)(demo.demo_command)
app.add_typer(data.app, name="data")
app.command("extract", epilog=extract.EXTRACT_EXAMPLE)(extract.extract_command)
app.command("align", epilog=extract.ALIGN_EXAMPLE)(extract.align_command)
app.command("train", epilog=train.EXAMPLE)(train.train_command)
app.command("evaluate", epilog=evaluate.EXAMPLE)(evaluate.evaluate_command)
app.command("report", epilog=report.EXAMPLE)(report.report_command)
app.command("plan", epilog=plan.EXAMPLE)(plan.plan_command)
app.command("follow", epilog=follow.EXAMPLE)(follow.follow_command)
app.command("serve", epilog=serve.EXAMPLE)(serve.serve_command)
app.command("export", epilog=export.EXAMPLE)(export.export_command)
app.command("push", epilog=push.EXAMPLE)(push.push_command)
app.command("score", epilog=score.EXAMPLE)(score.score_command)
app.command("compare", epilog=compare.EXAMPLE)(compare.compare_command)
app.command("reproduce", epilog=reproduce.EXAMPLE)(reproduce.reproduce_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from p3iv.environment import own_version

        out.print(f"p3iv {own_version()}")
        raise typer.Exit


@app.callback()
def p3iv(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example: p3iv info runs/first")
def info(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="RUN|DIR",
            help=f"A run, a checkpoint file, {' or '.join(SHIPPED)}, OWNER/NAME on the hub, or a dataset folder.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show versions, device and installed extras; of a run or a dataset, its encoder.

    The fingerprint of an encoder covers its weights and preprocessing. A planner plans from videos with the same one.
    """
    from p3iv.environment import describe_environment, install_command

    if path is not None:
        _show_encoder(path, as_json=as_json)
        return
    environment = describe_environment()
    if as_json:
        print_json(environment)
        return
    rows = [
        ("p3iv", environment.p3iv),
        ("python", environment.python),
        ("platform", environment.platform),
        ("processors", str(environment.processors)),
        ("device", environment.device),
        ("torch threads", str(environment.threads or "torch is not installed")),
        *((name, version or "not installed") for name, version in environment.packages.items()),
    ]
    width = _print_rows(rows)
    for extra, there in environment.extras.items():
        state = "installed" if there else f"missing: {install_command(extra)}"
        out.print(f"{'extra ' + extra:<{width}}{state}")
    print_next("demo", "demo")


def _print_rows(rows: Sequence[tuple[str, str]]) -> int:
    """Print names and values in two columns; returns the width of the first."""
    width = max(len(name) for name, _ in rows) + 2
    for name, value in rows:
        out.print(f"{name:<{width}}{value}")
    return width


def _show_encoder(path: Path, *, as_json: bool) -> None:
    """Print which features a planner was trained on, or a dataset has."""
    from dataclasses import asdict

    known: Header | DatasetCard
    is_dataset = (path / "steps.csv").is_file()
    if is_dataset:
        from p3iv.data.folder import read_card

        known = read_card(path)
        label = known.label
    else:
        from p3iv.hub import find_planner
        from p3iv.planners.header import planner_file, read_header

        known = read_header(planner_file(find_planner(path, on_note=print_note)))
        steps = counted_range(known.config.data.horizons, "step")
        label = f"{known.config.planner}, {steps} to plan, trained on {known.data_label}"
    identities = {"encoder": known.encoder, "text_encoder": known.text_encoder}
    clips = shipped_clips(str(path)) if shipped_planner(path) else ()
    if as_json:
        content = {name: asdict(identity) if identity else None for name, identity in identities.items()}
        print_json({"path": str(path), "label": label, **content, **({"clips": clips} if clips else {})})
        return
    rows = [(name.replace("_", " "), each.long if each else "not known") for name, each in identities.items()]
    _print_rows([(str(path), label), *rows])
    _print_clips(clips)
    if is_dataset and known.encoder:
        print_next_training(path)
    elif is_dataset:
        print_next("data", "check", path)
    elif clips:
        print_next(*clips[0].command.split()[1:])
    elif path.is_dir():
        print_next("evaluate", path)
    else:
        print_next("plan", path, "--start", "clip.mp4@12.5", "--goal", "clip.mp4@1:10")


def _print_clips(clips: Sequence[ShippedClip]) -> None:
    for clip in clips:
        out.print(f"\n{clip.planner}/{clip.file}: {clip.task}, {clip.length_s} s, not in its training videos")
        out.print(f"  from {clip.start_s} s to {clip.goal_s} s: {' -> '.join(clip.steps)}")
        out.print(f"  try: {clip.command}", soft_wrap=True)


def main() -> None:
    """Run the command line; a user's mistake ends with one message and exit code 1, without a traceback."""
    try:
        app(prog_name="p3iv")
    except P3ivError as error:
        print_error(error)
        sys.exit(1)
    except KeyboardInterrupt:
        err.print("interrupted")
        sys.exit(130)
    except BrokenPipeError:  # `p3iv ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except ModuleNotFoundError as error:
        if error.name not in NOT_WITHOUT_TORCH:
            raise
        err.print(
            f"error: This needs {error.name}, which is not installed. Type: pip install {error.name}. Without it, "
            f"`p3iv plan` reads planners that `p3iv export` wrote: FILE.onnx."
        )
        sys.exit(1)
    except OSError as error:
        advice = ". Make room, and run the command again." if error.errno in DISK_FULL else ""
        print_error(f"{error}{advice}")
        sys.exit(1)
