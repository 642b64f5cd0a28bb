"""Write the generated parts of the documentation: commands, settings, metrics and the Python reference.

usage: python tools/docs.py [--check]

A generated part is enclosed by `<!-- generated: NAME -->` and `<!-- end: NAME -->` in a page under docs/; the text
around it is written by hand. `--check` writes nothing and fails when a part is out of date.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from typer.main import get_command
from typer.testing import CliRunner

ROOT = Path(__file__).parents[1]
sys.path[:0] = [] if str(ROOT) in sys.path else [str(ROOT)]  # of `python tools/docs.py`, it is tools/

from p3iv import catalogue, config  # noqa: E402
from p3iv.cli.app import app  # noqa: E402
from p3iv.serving.annotate_routes import annotate_router  # noqa: E402
from p3iv.serving.routes import router  # noqa: E402
from p3iv.serving.settings import describe_limits  # noqa: E402
from tools.python_reference import python_reference  # noqa: E402
from tools.query_results import query_results  # noqa: E402


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


def commands() -> str:
    """The help text of every command, as the command line prints it."""
    return "\n\n".join(f"## p3iv {name}\n\n```text\n{_help_of(name)}\n```" for name in _names(get_command(app)))


def _names(group: Any, above: str = "") -> Iterator[str]:
    """The names of all commands of a group, such as `data check`."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _names(command, f"{above}{name} ")
        else:
            yield above + name


def _help_of(command: str) -> str:
    result = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="p3iv", env={"COLUMNS": "100"})
    return "\n".join(line.rstrip() for line in result.output.splitlines())


def settings() -> str:
    """Every setting with its default, its allowed values and its meaning, section by section."""
    rows: dict[str, list[tuple[str, ...]]] = {}
    for info in config.describe_settings():
        row = (f"`{info.name}`", f"`{_yaml(info.default)}`", info.allowed, info.about)
        rows.setdefault(info.name.partition(".")[0] if "." in info.name else "", []).append(row)
    header = ("setting", "default", "allowed", "meaning")
    return "\n\n".join(
        f"## {section}\n\n{inspect.getdoc(config.SECTIONS[section])}\n\n{table(header, rows[section])}"
        if section
        else f"## Run\n\n{table(header, rows[section])}"
        for section in rows
    )


def presets() -> str:
    """What each preset changes."""
    rows = [
        (f"`{name}`", ", ".join(f"`{key}={_yaml(value)}`" for key, value in changes.items()) or "the defaults below")
        for name, changes in catalogue.PRESETS.items()
    ]
    return table(("preset", "changes"), rows)


def _yaml(value: object) -> str:
    return (
        {None: "null", True: "true", False: "false"}[value] if value is None or isinstance(value, bool) else str(value)
    )


def metrics() -> str:
    """The catalogue of metrics, group by group."""
    titles = {
        "plans": "Plans: the recommended plan of every window",
        "lengths": "Unknown length: the plan may be longer or shorter than the reference",
        "following": "Following: moments of a video that is followed",
        "samples": "Samples: the distribution of the sampled plans",
        "chain": "Exact: the probabilities of the chain, without samples",
        "calibration": "Calibration: the probability of the recommended plan",
        "released": "As released: what published code computes",
        "cost": "Cost",
        "data": "Data: counted in the windows, without a planner",
    }
    sections = []
    for group, title in titles.items():
        rows = [
            (f"`{metric.name}`", metric.label, metric.unit, metric.direction, metric.about)
            for metric in catalogue.METRICS.values()
            if metric.group == group
        ]
        sections.append(f"### {title}\n\n{table(('name', 'label', 'unit', 'better', 'meaning'), rows)}")
    return "\n\n".join(sections)


def limits() -> str:
    """The limits of the service."""
    rows = [(f"`{name}`", f"{default:,}", about) for name, default, about in describe_limits()]
    return table(("limit", "default", "meaning"), rows)


def routes() -> str:
    """The routes of the service with the first sentence about each."""
    return _routes_of(router)


def annotate_routes() -> str:
    """The routes that a service has with `--annotate`."""
    return _routes_of(annotate_router)


def _routes_of(described: APIRouter) -> str:
    rows = [
        (f"`{method} {route.path}`", (inspect.getdoc(route.endpoint) or "").replace("\n", " "))
        for route in described.routes
        if isinstance(route, APIRoute) and route.include_in_schema
        for method in sorted(route.methods or ())
    ]
    return table(("route", "answer"), rows)


def decoders() -> str:
    """The catalogue of decoders."""
    rows = [(f"`{decoder.name}`", decoder.label, decoder.about) for decoder in catalogue.DECODERS.values()]
    return table(("name", "label", "meaning"), rows)


def sampling_modes() -> str:
    """The catalogue of sampling modes."""
    rows = [(f"`{mode.name}`", mode.about) for mode in catalogue.SAMPLING_MODES.values()]
    return table(("mode", "meaning"), rows)


def loss_terms() -> str:
    """The catalogue of loss terms."""
    rows = [(f"`{term.name}`", term.label, term.about, term.panel) for term in catalogue.LOSS_TERMS.values()]
    return table(("column of metrics.csv", "in the progress line", "meaning", "diagram of the report"), rows)


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "commands": ("docs/reference/cli.md", commands),
    "presets": ("docs/reference/settings.md", presets),
    "settings": ("docs/reference/settings.md", settings),
    "metrics": ("docs/reference/metrics.md", metrics),
    "decoders": ("docs/reference/metrics.md", decoders),
    "sampling modes": ("docs/reference/metrics.md", sampling_modes),
    "python": ("docs/reference/python.md", python_reference),
    "routes": ("docs/reference/service.md", routes),
    "annotate routes": ("docs/reference/service.md", annotate_routes),
    "limits": ("docs/reference/service.md", limits),
    "query results": ("docs/results/queries.md", lambda: query_results(table)),
    "loss terms": ("docs/reference/run_folder.md", loss_terms),
}


def fill(page: str, name: str, text: str) -> str:
    """The page with the generated part of this name replaced."""
    begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    before, rest = page.split(begin)
    _, after = rest.split(end)
    return f"{before}{begin}\n\n{text}\n\n{end}{after}"


def stale_pages(*, write: bool) -> list[str]:
    """The pages whose generated parts differ from the code; with `write`, they are brought up to date."""
    stale = []
    for path in dict.fromkeys(path for path, _ in PARTS.values()):
        before = after = (ROOT / path).read_text(encoding="utf-8")
        for name, (where, generate) in PARTS.items():
            if where == path:
                after = fill(after, name, generate())
        if after != before:
            stale.append(path)
            if write:
                (ROOT / path).write_text(after, encoding="utf-8")
    return stale


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the generated parts, or check them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a part is out of date")
    check = parser.parse_args(arguments).check
    stale = stale_pages(write=not check)
    for path in stale:
        print(f"{path}: {'out of date; run python tools/docs.py' if check else 'written'}")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
