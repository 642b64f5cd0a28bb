"""The commands of the tutorials run, in order, on small data; the README shows no command that no tutorial has."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import zipfile
from contextlib import chdir
from pathlib import Path

import numpy as np

from clips import write_clip
from commands import RunP3iv
from soak.service_process import running_service

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"
STEPS = (("boil water", 1, 4), ("pour water", 5, 9), ("stir", 10, 12))
# What makes a command small: options that are appended, of which the last one counts.
SMALLER = {
    "data make": ["--videos", "12"],
    "train": ["--set", "optim.epochs=1"],
    "train --resume": ["--set", "optim.epochs=2"],
    "evaluate": ["--samples", "50"],
    "compare": ["--samples", "50"],
}


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def commands_of(page: Path) -> list[list[str]]:
    """The words of every `$ p3iv ...` line of a page."""
    lines = "\n".join(blocks(page, "console")).replace("\\\n", " ").splitlines()
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ ")]
    assert words, f"{page.name} has no commands"
    assert all(command[0] == "p3iv" for command in words)
    return [command[1:] for command in words]


def smaller(command: list[str]) -> list[str]:
    """The command with the options that make it small."""
    found = [name for name in SMALLER if set(name.split()) <= set(command)]
    return command + [word for name in found for word in SMALLER[name]]


def run_page(page: str, p3iv: RunP3iv) -> None:
    """Run all commands of a tutorial."""
    for command in commands_of(TUTORIALS / page):
        done = p3iv(*smaller(command))
        assert done.returncode == 0, f"p3iv {shlex.join(command)}\n{done.stdout}\n{done.stderr}"
        assert "problem" not in done.stderr


def printed_on(page: Path) -> list[str]:
    """What a page shows below each of its `$ p3iv ...` lines."""
    return [part.partition("\n")[2] for block in blocks(page, "console") for part in f"\n{block}".split("\n$ ")[1:]]


def write_scripts(page: Path, folder: Path) -> None:
    """Write the Python blocks of a page to the files that their first lines name."""
    for block in blocks(page, "python"):
        first, _, code = block.partition("\n")
        (folder / first.removeprefix("# ")).write_text(code, encoding="utf-8")


def run_script(folder: Path, name: str) -> str:
    """Run a script in a folder and return what it prints."""
    done = subprocess.run([sys.executable, name], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{name}\n{done.stderr}"
    return done.stdout


def make_videos(folder: Path, name: str) -> None:
    """Six short videos of one procedure with their step list."""
    (folder / "videos").mkdir(parents=True)
    lines = ["video,task,step,start_s,end_s"]
    for number in range(6):
        video = name.format(number)
        write_clip(folder / "videos" / f"{video}.mp4", range(0, 16_000, 500))
        lines += [f"{video},make tea,{step},{start},{end}" for step, start, end in STEPS]
    (folder / "steps.csv").write_text("\n".join(lines) + "\n")


def make_crosstask(folder: Path) -> None:
    """A small CrossTask release with the three steps that P3IV's embeddings misspell."""
    (block,) = blocks(ROOT / "docs" / "reference" / "dataset_folder.md", "json")
    rename: dict[str, str] = json.loads(block)
    with zipfile.ZipFile(folder / "crosstask_release.zip", "w") as release:
        steps = ",".join(rename.values())
        release.writestr("crosstask_release/tasks_primary.txt", f"1\nMake Tea\nhttp://x\n3\n{steps}\n\n")
        for video in "abcd":
            release.writestr(f"crosstask_release/annotations/1_{video}.csv", "1,0,3\n2,4,5\n3,6,9\n")
    (folder / "rename.json").write_text(block)
    np.savez(folder / "step_embeddings.npz", step=np.array(list(rename)), embedding=np.eye(3, 8))


def test_every_example_of_the_readme_is_in_a_tutorial() -> None:
    known = [command for page in TUTORIALS.glob("*.md") for command in commands_of(page)]
    assert [command for command in commands_of(ROOT / "README.md") if command not in known] == []
    assert blocks(ROOT / "README.md", "python") == blocks(TUTORIALS / "first_plan.md", "python")


def test_first_plan(demo: Path, tmp_path: Path, p3iv: RunP3iv) -> None:
    """The small demo has 4 videos: its longest replaces the video of the full demo that the tutorial names."""
    videos = tmp_path / "demo" / "tabletop" / "videos"
    videos.mkdir(parents=True)
    (tmp_path / "demo" / "run").symlink_to(demo / "run")
    (videos / "tabletop-0081.mp4").symlink_to(demo / "tabletop" / "videos" / "tabletop-0001.mp4")
    (pairs,) = blocks(TUTORIALS / "first_plan.md", "csv")
    (tmp_path / "pairs.csv").write_text(pairs)
    run_page("first_plan.md", p3iv)
    (example,) = blocks(TUTORIALS / "first_plan.md", "python")
    with chdir(tmp_path):
        exec(compile(example, "first_plan.md", "exec"), {})  # noqa: S102 - the tutorial's own lines


def test_own_videos(tmp_path: Path, p3iv: RunP3iv) -> None:
    make_videos(tmp_path / "my_kitchen", "kitchen-{}")
    (table,) = blocks(TUTORIALS / "own_videos.md", "csv")
    assert (tmp_path / "my_kitchen" / "steps.csv").read_text().startswith(table)
    run_page("own_videos.md", p3iv)


def test_ten_videos(tmp_path: Path, p3iv: RunP3iv) -> None:
    """Videos, annotation and check as the page shows them; the planner with fewer epochs."""
    page = TUTORIALS / "ten_videos.md"
    commands, shown = commands_of(page), printed_on(page)
    service_prints, annotate_prints, _ = blocks(page, "text")
    write_scripts(page, tmp_path)
    run_script(tmp_path, "film.py")
    with running_service("--annotate", str(tmp_path / "repot"), "--limit", "jobs=1") as service:
        client = tmp_path / "steps_client.py"
        client.write_text(client.read_text().replace("http://127.0.0.1:8000", service.url))
        assert service.printed.splitlines()[:2] == [
            line.replace("repot", str(tmp_path / "repot")).replace("http://127.0.0.1:8000", service.url)
            for line in service_prints.splitlines()
        ]
        assert run_script(tmp_path, "annotate.py") == annotate_prints
        wrong = p3iv(*commands[0])
        run_script(tmp_path, "correct.py")
        assert service.stop() == []
        assert service.printed.endswith(f"next: p3iv data check {tmp_path / 'repot'}\n")
    right = p3iv(*commands[1])
    assert [f"{done.stdout}{done.stderr}" for done in (wrong, right)] == shown[:2]
    for command, text in zip(commands[2:], shown[2:], strict=True):
        done = p3iv(*smaller(command))
        assert done.returncode == 0, f"p3iv {shlex.join(command)}\n{done.stdout}\n{done.stderr}"
        assert done.stderr.splitlines()[-1] == text.splitlines()[-1]  # the advice on what to type next


def test_train_and_evaluate(p3iv: RunP3iv) -> None:
    run_page("train_and_evaluate.md", p3iv)


def test_share_a_planner(p3iv: RunP3iv) -> None:
    assert p3iv("data", "make", "tabletop", "data/tabletop", "--videos", "12", "--skip-rendering").returncode == 0
    run_page("share_a_planner.md", p3iv)


def test_reproduce_the_paper(tmp_path: Path, p3iv: RunP3iv) -> None:
    make_crosstask(tmp_path)
    run_page("reproduce_the_paper.md", p3iv)


def test_the_example_of_a_prediction_file(tmp_path: Path, p3iv: RunP3iv) -> None:
    page = ROOT / "docs" / "reference" / "prediction_file.md"
    (lines,) = blocks(page, "jsonl")
    (tmp_path / "predictions.jsonl").write_text(lines)
    (command,) = commands_of(page)
    assert p3iv(*command).returncode == 0
