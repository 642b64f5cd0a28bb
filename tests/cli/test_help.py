"""Help, completion and start: complete at every width, the same option means the same everywhere, and quick."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shlex
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.main import get_command

from commands import RunP3iv
from p3iv.catalogue import PRESETS, SPLIT_KINDS
from p3iv.cli.app import app
from p3iv.cli.completion import complete_list, complete_setting
from p3iv.cli.help import wrap_command
from p3iv.errors import near_misses, one_of
from p3iv.planners.registry import PLANNERS

ROOT = get_command(app)
HEAVY = {"torch", "numpy", "pydantic", "yaml", "av", "PIL", "ray", "filelock", "safetensors", "transformers"}
HEAVY_PARTS = {"p3iv.config", "p3iv.files", "p3iv.validation", "p3iv.parallel", "p3iv.planner", "p3iv.moments"}


def all_commands(command: Any = ROOT, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group, with the words to type after p3iv."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from all_commands(inner, (*path, name))


COMMANDS = dict(all_commands())


def help_at(path: tuple[str, ...], width: int) -> str:
    """What `p3iv PATH --help` prints on a terminal of this width."""
    text = io.StringIO()
    with patch.dict(os.environ, COLUMNS=str(width)), redirect_stdout(text), pytest.raises(SystemExit):
        app([*path, "--help"], prog_name="p3iv")
    return text.getvalue()


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_is_whole_at_every_width(path: tuple[str, ...], width: int) -> None:
    shown = help_at(path, width)
    assert max(map(len, shown.splitlines())) <= width
    words = " ".join(shown.split())
    assert not re.search(r"\w\.\.\.(?!\w)|…|[{}](?!\")", words.partition("A line of FILE")[0])  # T,... is a list
    for param in COMMANDS[path].params:
        assert param.help, f"{param.opts[0]} has no help text"
        assert " ".join(param.help.split()) in words, f"{param.opts[0]} is cut"
        assert re.search(r"[.\w]$", param.help), param.help
    for name, inner in getattr(COMMANDS[path], "commands", {}).items():
        sentence = " ".join(inner.help.partition("\n\n")[0].split())
        assert f"{name} {sentence}" in words


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_the_example_of_a_command_is_one_that_it_parses(path: tuple[str, ...]) -> None:
    (example,) = re.findall(r"(?s)Example:\n(.*)", help_at(path, 60))
    name, *words = shlex.split(example.replace("\\\n", ""))  # as a shell joins lines
    assert name == "p3iv"
    assert tuple(words[: len(path)]) == path
    command: Any = ROOT
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    command.make_context(command.name, words)


def test_an_example_is_broken_where_a_shell_joins_it() -> None:
    command = "p3iv compare demo/tabletop --planners all --horizons 3,4 --seeds 0,1,2"
    lines = wrap_command(command, 30)
    assert len(lines) > 2
    assert max(map(len, lines)) <= 30
    assert " ".join("\n".join(lines).replace("\\\n", "").split()) == command


# Options whose metavar or meaning differs between commands, and why.
EXCEPTIONS = {
    "--out": "train writes one run, which other commands take as RUN; compare and reproduce write many runs and tables",
    "--encoder": "export writes the encoder of the planner's features, so that only its precision can be chosen",
    "--format": "of annotations that are imported or exported, or of an exported planner",
    "--dry-run": "push shows the files that it would send; an import shows the first rows",
    "--videos": "a number where videos are made, a folder where they are imported",
}


def first_words(text: str) -> str:
    """The first two words of a help text, after the kind of import that it is for."""
    return " ".join(text.removeprefix("annotations: ").split()[:2]).strip(",;.").casefold()


def test_an_option_means_the_same_in_all_commands() -> None:
    found: dict[str, dict[tuple[str, ...], Any]] = defaultdict(dict)
    for path, command in COMMANDS.items():
        for param in (param for param in command.params if param.opts[0].startswith("--")):
            found[param.opts[0]][path] = param
    for option, params in found.items():
        if option in EXCEPTIONS:
            continue
        assert len({param.metavar for param in params.values()}) == 1, f"{option} has several metavars"
        assert len({first_words(param.help) for param in params.values()}) == 1, (
            f"{option} has several meanings: { {path: param.help for path, param in params.items()} }"
        )
    shared = [option for option, params in found.items() if len(params) > 1]
    assert {"--split", "--seed", "--device", "--engine", "--threads", "--jobs", "--samples", "--json"} <= set(shared)
    same_default = ("--split", "--split-seed", "--device", "--engine", "--threads", "--overwrite", "--json", "--seed")
    for option in same_default:
        assert len({str(param.default) for param in found[option].values()}) == 1, f"{option} has several defaults"


def imported_by(*words: str, **environment: str) -> set[str]:
    """The modules that a process has imported when `p3iv WORDS` ends."""
    code = f"""
import sys
from p3iv.cli.app import main
sys.argv = ["p3iv", *{words!r}]
try:
    main()
except SystemExit:
    print(" ".join(sys.modules), file=sys.stderr)
"""
    environment = {**os.environ, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_imports_nothing_that_it_does_not_need() -> None:
    assert imported_by("--help") & (HEAVY | HEAVY_PARTS) == set()


def complete(line: str, shell: str = "bash") -> list[str]:
    """What `p3iv` prints for the shell when TAB is pressed at the end of a line."""
    text, words = io.StringIO(), line.split(" ")
    environment = {"_P3IV_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    if shell != "bash":
        environment |= {"_TYPER_COMPLETE_ARGS": line, "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    with patch.dict(os.environ, environment), redirect_stdout(text), pytest.raises(SystemExit):
        app([], prog_name="p3iv")
    return text.getvalue().split("\n")[:-1]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("p3iv tr", ["train"]),
        ("p3iv data im", ["import"]),
        ("p3iv train DIR --planner p3iv", ["p3iv", "p3iv-plus"]),
        ("p3iv train DIR --preset ", list(PRESETS)),
        ("p3iv train DIR --split ", list(SPLIT_KINDS)),
        ("p3iv train DIR --set optim.ep", ["optim.epochs=200", "optim.epsilon=1e-08"]),
        ("p3iv train DIR --set plus.linear", ["plus.linear=true", "plus.linear=false"]),
        ("p3iv train DIR --device c", ["cpu", "cuda"]),
        ("p3iv extract DIR --encoder e", ["efficientnet-lite0"]),
        ("p3iv extract DIR --text-encoder m", ["minilm"]),
        ("p3iv extract DIR --dtype ", ["float16", "float32"]),
        ("p3iv data import c", ["crosstask", "coin"]),
        ("p3iv evaluate RUN --side ", ["train", "val", "test"]),
        ("p3iv evaluate RUN --mode c", ["categorical", "chain"]),
        ("p3iv reproduce unique", ["unique-plans"]),
        ("p3iv compare DIR --planners graph,ra", ["graph,random"]),
        ("p3iv train DIR --overw", ["--overwrite"]),
    ],
)
def test_the_shell_completes_names(line: str, offered: list[str]) -> None:
    assert complete(line) == offered


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_complete_them_too(shell: str) -> None:
    assert "p3iv-plus" in "\n".join(complete("p3iv train DIR --planner p3iv", shell))


def test_completion_does_not_import_torch() -> None:
    words = {"COMP_WORDS": "p3iv train DIR --set ", "COMP_CWORD": "4", "_P3IV_COMPLETE": "complete_bash"}
    assert imported_by(**words) & {"torch", "numpy", "av", "ray", "transformers"} == set()


def test_a_list_completes_its_last_name_once() -> None:
    offer = complete_list(tuple(PLANNERS))
    assert offer("") == list(PLANNERS)
    assert "graph,graph" not in offer("graph,")
    assert offer("graph,p3iv-") == ["graph,p3iv-plus"]
    assert all("=" in text for text in complete_setting(""))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_of_a_shell(shell: str, p3iv: RunP3iv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: shell)
    shown = p3iv("--show-completion")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "_P3IV_COMPLETE=complete_" in shown.stdout


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        ("optim.epoch", ["optim.epochs"]),
        ("epochs", ["optim.epochs"]),
        ("optim.learnig_rate", ["optim.learning_rate"]),
        ("P3IV_PLUS", ["p3iv-plus"]),
        ("retreival", ["retrieval"]),
        ("quite something else", []),
        ("", []),
        (3, []),
    ],
)
def test_near_misses_are_suggested(wrong: object, meant: list[str]) -> None:
    from p3iv.config import setting_names

    known = [*setting_names(), *PLANNERS]
    assert near_misses(wrong, known, most=1) == meant
    assert one_of(wrong, ["graph"]).startswith("one of graph.")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("train d --out r --set optim.epoch=3", "There is no setting 'optim.epoch'. Did you mean optim.epochs?"),
        ("train d --out r --set model.foo=3", "There is no setting 'model.foo'. Those of model are width, layers"),
        ("train d --out r --set nonsense=3", "one of data, model, loss, optim, baseline, successor, plus, and itself"),
        ("train d --out r --planner p3ivplus", "Did you mean p3iv-plus?"),
        ("train d --out r --preset tini", "Did you mean tiny?"),
        ("compare d --out r --planners grahp", "Did you mean graph?"),
        ("data import crostask a b", "Did you mean crosstask?"),
        ("reproduce loses --out r --data d", "There is no table or figure 'loses'. Did you mean losses?"),
        ("evaluate r --mode chian", "Did you mean chain?"),
        ("evaluate r --side tset", "Did you mean test?"),
    ],
)
def test_a_wrong_name_is_answered_with_the_right_one(p3iv: RunP3iv, arguments: str, sentence: str) -> None:
    done = p3iv(*arguments.split())
    assert done.returncode in (1, 2)
    assert sentence in " ".join(done.stderr.split())
    assert len(done.stderr) < 600


def test_a_wrong_kind_of_split_is_answered_with_the_right_one(p3iv: RunP3iv, tabletop: Path) -> None:
    done = p3iv("data", "stats", tabletop, "--split", "relase")
    assert "not one of video, stratified, release, window. Did you mean release?" in done.stdout + done.stderr


def test_settings_are_listed(p3iv: RunP3iv) -> None:
    listed = p3iv("train", "--list-settings")
    assert listed.returncode == 0
    assert "optim.epochs=200\n    maximum number of epochs" in listed.stdout


def on_a_terminal(folder: Path, *words: str, **environment: str) -> str:
    """What `p3iv WORDS` prints on a terminal."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "p3iv", *words]
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        command, cwd=folder, stdout=follower, stderr=follower, env={**kept, "TERM": "xterm-256color", **environment}
    ) as process:
        os.close(follower)
        printed = b""
        while True:
            try:
                part = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            printed += part
        process.wait()
    os.close(leader)
    return printed.decode()


def test_findings_are_coloured_on_a_terminal_only(tmp_path: Path, p3iv: RunP3iv) -> None:
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\nv,tea,boil,3,1\nv,tea,pour,3,4\n")
    seen = on_a_terminal(tmp_path, "data", "check", ".")
    assert re.search(r"\x1b\[31merror: .*steps.csv:2", seen)
    assert "\x1b[33mwarning: " in seen
    assert "\x1b[3" not in on_a_terminal(tmp_path, "data", "check", ".", NO_COLOR="1")
    assert "\x1b" not in p3iv("data", "check", tmp_path).stdout


def test_all_good_is_green(tabletop: Path) -> None:
    assert re.search(
        r"\x1b\[32m.*no errors, 0 warnings", on_a_terminal(tabletop.parent, "data", "check", tabletop.name)
    )


def test_json_is_all_that_is_printed(p3iv: RunP3iv, tabletop: Path) -> None:
    done = p3iv("data", "stats", tabletop, "--json")
    assert json.loads(done.stdout)["videos"] == 40
    assert done.stderr == ""
