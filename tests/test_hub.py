"""Planners by name, and on a small hub: what is pushed is what another machine plans with; local use asks nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from commands import RunP3iv
from p3iv.config import override
from p3iv.errors import CheckpointError, ConfigError, PlanError
from p3iv.evaluation.pretrained import save_pretrained
from p3iv.hub import find_planner, hub_url, parse_hub_name
from p3iv.planner import Planner
from p3iv.planners.checkpoint import load_planner, save_best
from p3iv.planners.header import BEST, LAST, PRETRAINED, PRETRAINED_TEXTS, planner_file, read_header
from p3iv.planners.onnx_planner import EXPORTED, EXPORTED_FILES
from small_hub import READ_TOKEN, TOKEN, SmallHub, serve_hub

RunChild = Callable[..., Any]
NAME = "me/kitchen-planner"
EVALUATED_TEXTS = tuple(name for name in PRETRAINED_TEXTS if name != "cross_validation.json")


@pytest.fixture(scope="module")
def hub() -> Iterator[SmallHub]:
    with serve_hub() as running:
        yield running


@pytest.fixture
def child(hub: SmallHub, tmp_path: Path) -> RunChild:
    """Run Python in a process that knows this hub; returns what it prints as JSON.

    huggingface_hub reads its variables when it is imported, so that each machine and token needs a process.
    """

    def run(code: str, *, home: str = "home", **variables: str) -> Any:
        hub_variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / home), "HF_TOKEN": TOKEN}
        quick = {"HF_HUB_DISABLE_XET": "1", "NO_PROXY": "127.0.0.1"}
        environment = {**os.environ, **hub_variables, **quick, **variables}
        words = [sys.executable, "-W", "error", "-c", PRELUDE + code]
        done = subprocess.run(words, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    return run


PRELUDE = """
import json, os, sys
from pathlib import Path
from p3iv.errors import P3ivError
from p3iv.hub import find_planner, push_to_hub

def message(call, *arguments, **options):
    try:
        return f"no error, but {call(*arguments, **options)}"
    except P3ivError as error:
        return str(error)
"""


@pytest.fixture
def run_with_paths(plus_run: Path, tmp_path: Path) -> Path:
    """A run whose settings have the path of a split file."""
    run = Path(shutil.copytree(plus_run, tmp_path / "run"))
    trained = load_planner(run / BEST)
    config = override(trained.header.config, {"data.split": str(tmp_path / "secret" / "split.json")})
    save_best(run, replace(trained, header=replace(trained.header, config=config)))
    return run


def tensors_of(path: Path) -> dict[str, Any]:
    trained = load_planner(path)
    return {**trained.planner.state_dict(), "row": trained.transitions.row, "paper": trained.transitions.paper}


def observations(run: Path) -> tuple[list[float], list[float]]:
    width = read_header(run / BEST).shape.feature_width
    numbers = np.random.default_rng(0).normal(size=(2, width)).astype(np.float32)
    return numbers[0].tolist(), numbers[1].tolist()


def test_what_is_pushed_is_what_another_machine_plans_with(
    hub: SmallHub, child: RunChild, run_with_paths: Path, tmp_path: Path
) -> None:
    run, (start, goal) = run_with_paths, observations(run_with_paths)
    pushed = child(f"print(json.dumps(push_to_hub({str(run)!r}, {NAME!r}, licence='apache-2.0')))", home="mine")
    assert pushed == f"{hub.url}/{NAME}"
    files = hub.files(NAME)
    assert set(files) == {str(PRETRAINED), *EVALUATED_TEXTS}
    assert len(hub.repositories[NAME].messages) == 1
    assert [name for name, data in files.items() if str(tmp_path).encode() in data] == []

    plan = f"Planner.from_pretrained({NAME!r}).plan({start}, {goal}).to_dict()"
    there = child(
        f"""
from p3iv import Planner
print(json.dumps([str(find_planner({NAME!r})), {plan}]))"""
    )
    folder = Path(there[0])
    assert folder.is_relative_to(tmp_path / "home")
    assert {path.name for path in folder.iterdir()} == set(files)
    ours, theirs = tensors_of(run / BEST), tensors_of(folder / PRETRAINED)
    assert ours.keys() == theirs.keys()
    assert all(bool((ours[name] == theirs[name]).all()) for name in ours)
    assert there[1] == json.loads(Planner.from_pretrained(run).plan(start, goal).to_json())

    hub.requests.clear()
    code = f"print(json.dumps(str(find_planner({NAME!r}))))"
    assert child(code, HF_HUB_OFFLINE="1") == there[0]
    assert hub.requests == []
    hub.is_down = True
    try:
        notes = child(f"notes = []\nfind_planner({NAME!r}, on_note=notes.append)\nprint(json.dumps(notes))")
    finally:
        hub.is_down = False
    assert len(notes) == 1
    assert "the hub answered with an error (503)" in notes[0]
    assert notes[0].endswith("The copy in the local cache is used.")


def test_a_second_push_replaces_the_first_in_one_commit(hub: SmallHub, child: RunChild, plus_run: Path) -> None:
    code = f"""
bare, other = {str(plus_run / BEST)!r}, Path("alone.safetensors")
other.write_bytes(Path(bare).read_bytes())
from p3iv import Planner
first = Planner.from_pretrained({str(plus_run)!r}).push_to_hub("me/again", private=True)
second = push_to_hub(other, "me/again", private=True, commit_message="without scores")
branch = push_to_hub(bare, "me/again", revision="wip")
sys.argv = ["p3iv", "push", str(other), "me/open", "--licence", "apache-2.0", "--json"]
import contextlib, io
from p3iv.cli.app import app
with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()):
    app(sys.argv[1:], standalone_mode=False)
assert json.loads(printed.getvalue())["pushed"]
refused = message(push_to_hub, other, "me/open", private=True)
print(json.dumps([first, second, branch, refused, message(find_planner, "me/again@nowhere")]))"""
    first, second, branch, refused, unknown = child(code)
    assert first == second == f"{hub.url}/me/again"
    assert branch == f"{hub.url}/me/again/tree/wip"
    assert hub.repositories["me/again"].private
    assert hub.repositories["me/again"].messages[1] == "without scores"
    assert len(hub.repositories["me/again"].messages) == 3
    assert set(hub.files("me/again")) == {"README.md", "config.yaml", str(PRETRAINED)}  # no scores of another planner
    assert "evaluation.json" in hub.files("me/again", "wip")
    assert "me/open is public already. Make it private" in refused
    assert "there is no revision nowhere of me/again" in unknown


def test_every_failure_of_the_hub_is_one_sentence(child: RunChild, hub: SmallHub, tmp_path: Path) -> None:
    expected = {
        "me/not-there": "there is no such planner on the hub, or it is private. Check the name",
        "faulty/401": "the hub does not accept the token (401). For another, type hf auth login",
        "faulty/403": f"the token does not allow it (403). Make one that does at {hub.url}/settings/tokens",
        "faulty/404": "there is no such planner on the hub",
        "faulty/500": "the hub answered with an error (500). Try again later",
        "faulty/gated": f"its owner grants access by request. Ask for it at {hub.url}/faulty/gated",
        "faulty/dropped": "the hub does not answer (RemoteProtocolError). Check the connection",
        "faulty/slow": "the hub does not answer (ReadTimeout). Check the connection",
        "faulty/nonsense": "Try again later",
        "faulty/other": "is not a planner of p3iv, which has config.yaml and model.safetensors",
        "faulty/huge": "model.safetensors of faulty/huge has 1099511627776 bytes, but at most 2147483648 are allowed",
        "faulty/short": "of faulty/short arrived damaged: it has 3 bytes",
        "faulty/corrupt": "of faulty/corrupt arrived damaged: it has 21 bytes",
    }
    code = f"print(json.dumps([message(find_planner, name) for name in {list(expected)}]))"
    found = child(code, HF_HUB_ETAG_TIMEOUT="1")
    for (name, words), text in zip(expected.items(), found, strict=True):
        assert words in text, text
        assert name in text, text
        assert "\n" not in text
        assert text.endswith(".")
    assert not list((tmp_path / "home").rglob("*corrupt*/**/model.safetensors"))  # a second try fetches it again


def test_a_push_without_the_right_token_says_what_to_type(child: RunChild, hub: SmallHub, plus_run: Path) -> None:
    code = f"print(json.dumps(message(push_to_hub, {str(plus_run)!r}, 'me/new')))"
    before = list(hub.requests)
    without = child(code, HF_TOKEN="")
    assert (
        without
        == "me/new cannot be pushed: there is no token of the hub. To get one, type hf auth login, or set HF_TOKEN."
    )
    assert child(code, HF_HUB_OFFLINE="1") == "HF_HUB_OFFLINE is set, so me/new cannot be pushed. Unset it."
    assert hub.requests == before
    assert "the token does not allow it (403)" in child(code, HF_TOKEN=READ_TOKEN)
    assert "me/new" not in hub.repositories


def test_local_planners_open_no_socket_and_read_no_token(
    child: RunChild, hub: SmallHub, demo: Path, plus_run: Path, tmp_path: Path
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "token").write_text("hf_of_a_user")
    save_pretrained(plus_run, tmp_path / "folder")
    start, goal = observations(plus_run)
    video = next((demo / "tabletop" / "videos").glob("*.mp4"))
    before = list(hub.requests)
    code = f"""
def refuse(event, arguments):
    if event.startswith("socket.") or (event == "open" and str(arguments[0]).endswith("token")):
        raise RuntimeError(f"{{event}} {{arguments}}")

sys.addaudithook(refuse)
from p3iv import Planner
for place in ({str(plus_run)!r}, {str(plus_run / BEST)!r}, "folder"):
    Planner.from_pretrained(place).plan({start}, {goal})
Planner.from_pretrained({str(demo / "run")!r}).plan("{video}@1", "{video}@4")
print(json.dumps("huggingface_hub" in sys.modules))"""
    assert child(code) is False
    assert hub.requests == before


@pytest.mark.parametrize(
    ("name", "repo", "revision"),
    [
        ("owner/name", "owner/name", None),
        ("owner/name@v1.0", "owner/name", "v1.0"),
        ("hf://owner/na_me.x", "owner/na_me.x", None),
        ("hf:/owner/name", "owner/name", None),  # as a path
        *((text, None, None) for text in ("name", "a/b/c", "/a/b", "./a", "../a", "a/..", "a/b@", "a b/c", "~/a", "")),
    ],
)
def test_names_of_the_hub(name: str, repo: str | None, revision: str | None) -> None:
    found = parse_hub_name(name)
    assert (found.repo, found.revision) == (repo, revision) if found else repo is None


def test_a_name_that_is_nowhere_is_explained_without_the_hub(
    tmp_path: Path, plus_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens: a connection would be another error
    monkeypatch.chdir(tmp_path)
    shutil.copytree(plus_run, "runs/first")
    assert find_planner("runs/first") == Path("runs/first")
    with pytest.raises(CheckpointError, match=r"no run runs/frist\. Similar: runs/first\. .* type hf://runs/frist"):
        find_planner(Path("runs/frist"))
    for name in ("nowhere", "/nowhere/at/all", "x" * 5000, "a\0b", ""):
        with pytest.raises(
            CheckpointError, match=r"A planner is a run folder, a checkpoint or \.onnx file, or OWNER/NAME"
        ):
            find_planner(name)


def test_a_shared_folder_is_a_planner_and_can_be_shared_again(plus_run: Path, tmp_path: Path) -> None:
    first = save_pretrained(plus_run, tmp_path / "first")
    again = save_pretrained(first, tmp_path / "again")
    assert save_pretrained(plus_run, again) == again  # replaced
    assert planner_file(again) == again / PRETRAINED
    assert planner_file(plus_run) == plus_run / BEST
    assert (again / PRETRAINED).read_bytes() == (plus_run / BEST).read_bytes()
    second = save_pretrained(first, tmp_path / "second", name="first")
    for name in EVALUATED_TEXTS:
        assert (second / name).read_bytes() == (first / name).read_bytes()
    assert json.loads((first / "environment.json").read_text())["dataset"] is None
    start, goal = observations(plus_run)
    assert Planner.from_pretrained(first).plan(start, goal) == Planner.from_pretrained(plus_run).plan(start, goal)


def test_an_exported_planner_is_shared_while_it_is_of_the_same_checkpoint(
    plus_run: Path, p3iv_run: Path, tmp_path: Path, p3iv: RunP3iv
) -> None:
    run = Path(shutil.copytree(plus_run, tmp_path / "run"))
    assert p3iv("export", run).returncode == 0
    shared = save_pretrained(run, tmp_path / "shared")
    assert (shared / EXPORTED).read_bytes() == (run / EXPORTED).read_bytes()
    start, goal = observations(plus_run)
    assert Planner.from_pretrained(shared, backend="onnx").plan(start, goal).plan == (
        Planner.from_pretrained(plus_run).plan(start, goal).plan
    )
    assert "p3iv-plus, 3 steps to plan" in p3iv("info", shared / EXPORTED).stdout
    shutil.copy(p3iv_run / BEST, run / BEST)
    assert not (save_pretrained(run, tmp_path / "other") / EXPORTED).exists()


def test_the_encoder_beside_an_exported_planner_is_shared_too(tmp_path: Path, p3iv: RunP3iv) -> None:
    run = Path(shutil.copytree(find_planner("tabletop-demo"), tmp_path / "run"))
    assert p3iv("export", run).returncode == 0
    shared = save_pretrained(run, tmp_path / "shared")
    assert {path.name for path in shared.glob("*.onnx")} == set(EXPORTED_FILES)
    damaged = run / EXPORTED_FILES[1]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    assert {path.name for path in save_pretrained(run, tmp_path / "other").glob("*.onnx")} <= {EXPORTED_FILES[0]}


def test_a_shared_planner_names_no_folder_of_this_machine(plus_run: Path, tabletop: Path, tmp_path: Path) -> None:
    shared = save_pretrained(plus_run, tmp_path / "shared")
    content = json.loads((shared / "environment.json").read_text())
    (shared / "environment.json").write_text(json.dumps({**content, "dataset": str(tabletop)}))
    video = sorted((tabletop / "videos").glob("*.mp4"))[0].stem if (tabletop / "videos").is_dir() else "tabletop-0003"
    planner = Planner.from_pretrained(shared)
    with pytest.raises(PlanError, match=f"There is no file '{video}'"):
        planner.plan(f"{video}@3", f"{video}@9")
    assert len(Planner.from_pretrained(shared, data=tabletop).plan(f"{video}@3", f"{video}@9").plan) == 3


def test_a_revision_is_of_the_hub_alone(plus_run: Path) -> None:
    with pytest.raises(ConfigError, match="is of planners on the hub"):
        Planner.from_pretrained(plus_run, revision="v1")
    with pytest.raises(ConfigError, match="names another revision than"):
        find_planner("me/planner@v1", "v2")


def test_folders_with_other_files_and_states_of_a_training_are_refused(plus_run: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ConfigError, match=r"holds other files, such as thesis\.tex"):
        save_pretrained(plus_run, tmp_path)
    with pytest.raises(ConfigError, match="is a file, but it must be a folder"):
        save_pretrained(plus_run, tmp_path / "thesis.tex")
    with pytest.raises(CheckpointError, match="is the state of a training, not a planner"):
        save_pretrained(plus_run / LAST, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_dry_run_shows_everything_and_asks_nobody(
    plus_run: Path, p3iv: RunP3iv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    done = p3iv("push", plus_run, NAME, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "bytes  model.safetensors" in done.stdout
    assert f"would go to http://127.0.0.1:9/{NAME}; nothing was pushed" in done.stdout
    assert f'Planner.from_pretrained("{NAME}")' in done.stdout
    assert "state it with --licence" in done.stderr
    shown = json.loads(p3iv("push", plus_run, NAME, "--dry-run", "--licence", "mit", "--json").stdout)
    assert {file["name"] for file in shown["files"]} == {str(PRETRAINED), *EVALUATED_TEXTS}
    assert yaml.safe_load(shown["card"].split("---")[1])["license"] == "mit"
    refused = p3iv("push", plus_run, "kitchen")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "'kitchen' is not a name on the hub, which is OWNER/NAME" in refused.stderr


def test_the_page_of_a_planner() -> None:
    asked = parse_hub_name("owner/name@wip")
    assert asked is not None
    assert hub_url(asked).endswith("/owner/name/tree/wip")
