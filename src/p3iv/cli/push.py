"""`p3iv push` shares a planner on the Hugging Face hub."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from p3iv.cli.console import out, print_json, print_next, print_note
from p3iv.cli.options import AsJson

EXAMPLE = "Example: p3iv push runs/mine your-name/kitchen-planner --licence apache-2.0 --dry-run"

LICENCE_HELP = (
    "The licence of the planner, such as apache-2.0, for its card. Without it, the card says that it is unknown."
)


def push_command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run, a checkpoint file or a folder of `save_pretrained`.")
    ],
    name: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Where it goes on the hub; made if it is new.")],
    private: Annotated[bool, typer.Option("--private", help="Let only you, or members of OWNER, see it.")] = False,
    revision: Annotated[
        str | None, typer.Option("--revision", metavar="BRANCH", help="Push to this branch, made if it is new.")
    ] = None,
    licence: Annotated[str | None, typer.Option("--licence", metavar="NAME", help=LICENCE_HELP)] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show files, place and card without a connection, and push nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Share a planner on the Hugging Face hub, with a model card.

    Pushes what planning needs (weights, settings), the scores and a card that is made of them, in one commit.
    Optimisers, metrics, predictions and paths of this machine stay here. Needs a token: `hf auth login` or HF_TOKEN.
    """
    from p3iv.evaluation.pretrained import save_pretrained
    from p3iv.evaluation.result import EVALUATION_FILE
    from p3iv.hub import find_planner, hub_url, push_to_hub, require_hub_name

    asked = require_hub_name(name, revision)
    with tempfile.TemporaryDirectory() as temporary:
        source = find_planner(run, on_note=print_note)
        folder = save_pretrained(source, Path(temporary) / "planner", name=str(asked), licence=licence)
        sizes = {path.name: path.stat().st_size for path in sorted(folder.iterdir())}
        card = (folder / "README.md").read_text(encoding="utf-8")
    if licence is None:
        print_note("the card says that the licence is not known; state it with --licence, for example apache-2.0")
    if EVALUATION_FILE not in sizes:
        advice = f"; p3iv evaluate {run} makes them" if (source / "checkpoints").is_dir() and run.is_dir() else ""
        print_note(f"the card has no scores on test windows{advice}")
    url = hub_url(asked)
    if not dry_run:
        url = push_to_hub(source, asked.repo, private=private, revision=asked.revision, licence=licence)
    if as_json:
        files = [{"name": name, "bytes": size} for name, size in sizes.items()]
        print_json({"url": url, "pushed": not dry_run, "private": private, "files": files, "card": card})
        return
    for file, size in sizes.items():
        out.print(f"{size:>12,} bytes  {file}")
    if dry_run:
        out.print(f"\n{card}")
        out.print(f"would go to {url}; nothing was pushed")
        print_next(*(word for word in sys.argv[1:] if word != "--dry-run"))
    else:
        out.print(f"-> {url}")
        print_next("info", str(asked))
