"""Every `p3iv ...` command of the README runs, in order, on a small tabletop and small releases made here."""

from __future__ import annotations

import json
import re
import shlex
import zipfile
from pathlib import Path

import numpy as np

from clips import write_clip
from conftest import RunP3iv

README = Path(__file__).parents[1] / "README.md"
STEPS = "video,task,step,start_s,end_s\n" + "".join(
    f"v{i},tea,boil water,1,4\nv{i},tea,pour water,5,9\nv{i},tea,stir,10,12\n" for i in range(6)
)


def readme_commands() -> list[list[str]]:
    blocks = re.findall(r"```console\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if line.startswith("$ ")]
    assert all(command[0] == "p3iv" for command in commands)
    return commands


def readme_rename() -> dict[str, str]:
    """The names in the language file of the README's rename.json -> those of the release."""
    (block,) = re.findall(r"```json\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return dict(json.loads(block))


def make_sources(folder: Path) -> None:
    (block,) = re.findall(r"```jsonl\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (folder / "predictions.jsonl").write_text(block)
    with zipfile.ZipFile(folder / "crosstask_release.zip", "w") as release:
        steps = ",".join(readme_rename().values())
        release.writestr("crosstask_release/tasks_primary.txt", f"1\nMake Tea\nhttp://x\n3\n{steps}\n\n")
        for video in "abcd":
            release.writestr(f"crosstask_release/annotations/1_{video}.csv", "1,0,3\n2,4,5\n3,6,9\n")
    (folder / "rename.json").write_text(json.dumps(readme_rename()))
    np.savez(folder / "step_embeddings.npz", step=np.array(list(readme_rename())), embedding=np.eye(3, 8))
    coin = {
        name: {
            "class": "Tea",
            "subset": "testing" if name == "a" else "training",
            "annotation": [{"id": str(i), "label": f"step {i}", "segment": [i, i + 1]} for i in range(4)],
        }
        for name in "abcd"
    }
    (folder / "COIN.json").write_text(json.dumps({"database": coin}))
    (folder / "niv" / "csvs").mkdir(parents=True)
    for number in range(4):
        (folder / "niv" / "csvs" / f"tea_{number}.csv").write_text("BOIL WATER,1,2\nPOUR,3,4\n")
    make_own_folders(folder)


def make_own_folders(folder: Path) -> None:
    for name in ("my_videos", "captaincook4d"):
        (folder / name).mkdir()
        (folder / name / "steps.csv").write_text(STEPS)
    steps = np.array(["boil water", "pour water", "stir"])
    np.savez(folder / "captaincook4d" / "step_embeddings.npz", step=steps, embedding=np.eye(3, 8, dtype=np.float32))
    split = {"train": ["v0", "v1", "v2"], "val": ["v3"], "test": ["v4", "v5"]}
    (folder / "captaincook4d" / "split_recordings.json").write_text(json.dumps(split))
    (folder / "my_kitchen" / "videos").mkdir(parents=True)
    (folder / "my_kitchen" / "steps.csv").write_text(re.sub(r"(?m)^v(?=\d)", "kitchen-", STEPS))
    for video in range(6):
        write_clip(folder / "my_kitchen" / "videos" / f"kitchen-{video}.mp4", range(0, 14_000, 500))
    (folder / "omnivore").mkdir()
    for video in range(6):
        np.save(folder / "omnivore" / f"v{video}.npy", np.ones((13, 8), np.float16))


def test_every_command_of_the_readme_runs(tmp_path: Path, p3iv: RunP3iv) -> None:
    make_sources(tmp_path)
    commands = readme_commands()
    assert len(commands) >= 10
    for command in commands:
        small = ["12" if before == "--videos" else word for before, word in zip(["", *command], command, strict=False)]
        done = p3iv(*small[1:])
        assert done.returncode == 0, f"{shlex.join(small)}\n{done.stdout}\n{done.stderr}"
        assert "problem" not in done.stderr
