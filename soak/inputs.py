"""Every type of input that the program reads: small sound examples, and how the program reads them."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import av
import numpy as np
import torch
from PIL import Image
from safetensors.torch import save_file

from p3iv.api.runs import published_for
from p3iv.cli.app import main
from p3iv.cli.pairs import read_pairs
from p3iv.config import override, parse_settings, preset_config
from p3iv.data.check import check_dataset
from p3iv.data.check_steps import repair_steps
from p3iv.data.folder import open_dataset
from p3iv.data.tensors import load_planning_data
from p3iv.encoders.identity import EncoderIdentity
from p3iv.encoders.weight_files import read_state
from p3iv.errors import P3ivError
from p3iv.evaluation.actions import read_actions
from p3iv.evaluation.predictions import read_predictions
from p3iv.evaluation.scores import score
from p3iv.extraction.request import EncodedVideo, VideoTask
from p3iv.extraction.worker import WorkFolder
from p3iv.features.arrays import read_observation, read_rows
from p3iv.features.language import read_language, read_rename
from p3iv.features.pictures import Framing, frame_picture, read_picture
from p3iv.features.video import VideoReader
from p3iv.features.video_file import find_fault
from p3iv.onnx_model import digest_of, find_checksum
from p3iv.planner import Planner
from p3iv.planners.onnx_planner import load_exported
from p3iv.plans.draws import SampleSettings
from p3iv.readers.folder import read_split
from p3iv.readers.registry import read_annotations
from p3iv.readers.steps import write_steps
from p3iv.readers.tools.reading import read_tool_files
from p3iv.readers.tools.registry import FORMATS
from p3iv.report.write import write_report
from p3iv.training.loop import TrainRequest, train
from p3iv.types import Annotations
from soak.annotation_examples import CLOCK, EXAMPLES
from soak.processes import run_p3iv
from soak.scenarios import SETTINGS, TRAIN, must

MAPPING, LABELS = "tools/mstcn/mapping.txt", "tools/mstcn/groundTruth/kitchen.txt"  # the first is read with the second

VIDEOS = ("v.mp4", "v.mkv", "v.webm", "v.avi", "v.ts", "v.flv", "v.h264", "v.mov")


@dataclass(frozen=True)
class InputType:
    """Files or texts of one kind."""

    name: str
    read: Callable[[Path, str], object]  # given the folder of all examples, and the path or the text that was damaged
    paths: tuple[str, ...] = ()  # in the folder of examples
    texts: tuple[str, ...] = ()


def input_types() -> list[InputType]:
    """The registry; a path that ends in / stands for all files below it."""
    kitchen = [f"kitchen/{name}" for name in ("dataset.yaml", "steps.csv", "split.json", "truth.jsonl", "language.npz")]
    return [
        InputType("crosstask zip", _annotations("crosstask"), ("crosstask.zip",)),
        InputType("crosstask", _annotations("crosstask", "crosstask"), ("crosstask/",)),
        InputType("coin", _annotations("coin"), ("COIN.json",)),
        InputType("window lists", _annotations("lists", "lists/train_2.json"), ("lists/",)),
        InputType("niv", _annotations("niv", "niv"), ("niv/",)),
        *(InputType(f"annotations {form}", _tool_file(form), paths) for form, paths in annotation_paths().items()),
        *(InputType(Path(path).name, _open_kitchen, (path,)) for path in kitchen),
        InputType("data check", _check_kitchen, (*kitchen, "kitchen/features/")),
        InputType("steps.csv by hand", _repair_by_hand, ("by_hand/steps.csv",)),
        InputType("feature store", _open_kitchen, ("kitchen/features/",)),
        InputType("split file", lambda folder, path: read_split(folder / path), ("split.json",)),
        InputType("npy", _arrays, ("arrays/a.npy", "arrays/old.npy")),
        InputType("npz", _arrays, ("arrays/a.npz",)),
        InputType("pickle", _arrays, ("arrays/a.pkl", "arrays/object.npy")),
        InputType("language", lambda folder, path: read_language(folder / path), ("language.npz",)),
        InputType("rename", lambda folder, path: read_rename(folder / path), ("rename.json", "rename.csv")),
        InputType("predictions", _score, ("predictions.jsonl", "predictions.csv")),
        InputType("references", _score_apart, ("references.jsonl", "references.csv")),
        InputType("actions", lambda folder, path: read_actions(str(folder / path)), ("actions.json", "actions.txt")),
        InputType("checkpoint", _plan, ("run/checkpoints/best/model.safetensors",)),
        InputType("exported planner", _exported, ("planner.onnx",)),
        InputType("picture", _picture, ("p.png", "p.jpg", "p.gif", "p.webp", "p.bmp", "p.tiff")),
        InputType("video", _video, VIDEOS),
        InputType("weights pth", lambda folder, path: read_state(folder / path), ("w.pth", "old.pth")),
        InputType("weights safetensors", lambda folder, path: read_state(folder / path), ("w.safetensors",)),
        InputType("work file", _work_file, ("work/",)),
        InputType("report", _report, ("run/evaluation.json", "run/predictions.jsonl")),
        InputType("report run", _report, ("run/config.yaml", "run/environment.json", "run/metrics.csv")),
        InputType("resumed run", _resume, ("run/checkpoints/last/", "run/config.yaml", "run/metrics.csv")),
        InputType("pairs", _pairs, ("pairs.csv",)),
        InputType("command line", _command_line, texts=COMMANDS),
        InputType("moment", _moment, texts=MOMENTS),
        InputType("setting", _setting, texts=SET),
    ]


MOMENTS = ("tabletop-0000@1", "tabletop-0001@12.5", "v.mp4@1", "p.png", "arrays/row.npy", "v.mp4@99", "nothing@3")
SET = (
    "optim.epochs=20",
    "model.width=16",
    "data.split=release",
    "loss.latents=3",
    "seed=1",
    "planner=p3iv",
    "plus.linear=false",
    "optim.max_cpu_s=null",
    "optim.learning_rate=0.001",
    "loss.diversity_form=inverse",
)


COMMANDS = (
    "data stats kitchen --json",
    "data check kitchen",
    "data import crosstask crosstask.zip new --keep-tasks-apart --overwrite",
    "data import folder kitchen new --release-split split.json --language language.npz --dtype float32 --overwrite",
    "train kitchen --out new-run --planner retrieval --horizon 3 --protocol 1 --split release --seed 1 --overwrite",
    "evaluate run --side val --seed 1 --mode chain --input-noise 0.1 --samples 3",
    "plan run --start tabletop-0000@1 --goal tabletop-0000@9 --seed 1 --top 2 --samples 3 --svg plan.svg",
    "plan run --pairs pairs.csv --top 2 --json",
    "score predictions.jsonl --actions actions.json --references references.jsonl --batch-size 2 --json",
    "report run --cases 2 --data kitchen",
    "compare kitchen --out tables --planners retrieval --horizons 3 --seeds 0 --split release --samples 3",
    "reproduce unique-plans --data kitchen --out tables --budget small --seeds 0 --horizons 3",
    "data simulate new --seed 1 --noise 4.5",
    "data import annotations tools/ls/kitchen.json new --task tea --fps 25 --videos tools --overwrite",
    "data import annotations tools/kitchen.srt tools/kitchen.eaf new --cues-are-steps --task tea --tier a --dry-run",
    "data export kitchen exported --format webvtt --overwrite",
    "data export kitchen exported.json --format label-studio --fps 25 --overwrite",
)


def _annotations(kind: str, source: str | None = None) -> Callable[[Path, str], object]:
    return lambda folder, path: read_annotations(kind, folder / (source or path))


def annotation_paths() -> dict[str, tuple[str, ...]]:
    """The examples of every annotation format, in the folder of all examples."""
    paths: dict[str, list[str]] = {form: [] for form in FORMATS}
    for path, (_, form) in EXAMPLES.items():
        paths[form or "frame-labels"].append(f"tools/{path}")
    return {form: tuple(found) for form, found in paths.items()}


def _tool_file(form: str) -> Callable[[Path, str], object]:
    """Read a file as what it is recognised as, and as its format in any case; what is read can be written."""

    def read(folder: Path, path: str) -> None:
        source = folder / (LABELS if path == MAPPING else path)
        with suppress(P3ivError):
            _write_again(folder, read_tool_files([source], CLOCK, format_name=form).annotations)
        _write_again(folder, read_tool_files([source], CLOCK).annotations)

    return read


def _write_again(folder: Path, annotations: Annotations) -> None:
    try:
        write_steps(folder / "written.csv", annotations)
    except P3ivError as error:
        raise RuntimeError("annotations that were read cannot be written") from error


def _open_kitchen(folder: Path, _: str) -> None:
    dataset = open_dataset(folder / "kitchen")
    list(dataset.read_truth())
    load_planning_data(dataset, override(preset_config("tiny"), {"data.split": "release"}).data)


def _check_kitchen(folder: Path, _: str) -> None:
    check_dataset(folder / "kitchen")


def _repair_by_hand(folder: Path, _: str) -> None:
    check_dataset(folder / "by_hand")
    repair_steps(folder / "by_hand")


def _arrays(folder: Path, path: str) -> None:
    read_rows(folder / path)
    if path.endswith(".npy"):
        read_observation(folder / path)


def _score(folder: Path, path: str) -> None:
    actions = read_actions(str(folder / "actions.json"))
    score(read_predictions(folder / path, actions), actions.number)


def _score_apart(folder: Path, path: str) -> None:
    actions = read_actions(str(folder / "actions.json"))
    score(read_predictions(folder / "plans.jsonl", actions, folder / path), actions.number)


def _plan(folder: Path, path: str) -> None:
    planner = Planner.from_pretrained(folder / path)
    width = planner.header.shape.feature_width
    planner.plan(np.zeros(width), np.ones(width), num_samples=3)


def _sealed(folder: Path, path: str) -> Path:
    """A copy of an ONNX file with its checksum made right again, so that the rest of it is read, too."""
    content, sealed = (folder / path).read_bytes(), folder / "sealed.onnx"
    with suppress(ValueError):
        place = find_checksum(content)
        content = content[: place.begin] + digest_of(content, place).encode() + content[place.end :]
    sealed.write_bytes(content)
    return sealed


def _exported(folder: Path, path: str) -> None:
    planner = load_exported([_sealed(folder, path)])
    pair = np.zeros((2, 1, planner.header.shape.feature_width), np.float32)
    planner.sampler(SampleSettings(3)).draw(*pair)


def _picture(folder: Path, path: str) -> None:
    frame_picture(read_picture(folder / path), Framing(size=32))


def _video(folder: Path, path: str) -> None:
    find_fault(folder / path)
    with VideoReader(folder / path) as reader:
        for picture in reader.frames_at([0.0, 0.5, 1.5, float(reader.length_s)]):
            frame_picture(picture, Framing(size=32))


def _work_folder(folder: Path) -> tuple[WorkFolder, VideoTask]:
    encoder = cast(Any, SimpleNamespace(identity=EncoderIdentity("x")))  # all that the folder depends on
    return WorkFolder(folder / "work", encoder, "float32"), VideoTask("v", folder / "v.mp4")


def _work_file(folder: Path, _: str) -> None:
    work, task = _work_folder(folder)
    encoded = work.read(task)
    if encoded is not None and encoded.rows is not None:
        encoded.rows.astype(np.float32)


def _report(folder: Path, _: str) -> None:
    write_report(folder / "run", num_cases=2, find_published=published_for)


def _moment(folder: Path, text: str) -> None:
    planner = Planner.from_pretrained(folder / "run")
    planner.plan(text, text, num_samples=3)


def _resume(folder: Path, _: str) -> None:
    """Resume a copy of the run: a run that was resumed is not the example any more."""
    run = folder / "resumed"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(folder / "run", run)
    config = override(preset_config("tiny"), parse_settings(SETTINGS) | {"data.split": "release"})
    train(TrainRequest(open_dataset(folder / "kitchen"), run, config, resume=True))


def _command_line(_: Path, text: str) -> None:
    """Run a command; absolute paths and paths above this folder are left out, since commands write."""
    words = ["x" if word.startswith("/") or ".." in word else word for word in text.split()]
    with patch.object(sys, "argv", ["p3iv", *words]):
        try:
            main()
        except SystemExit as stop:
            if stop.code not in (0, 1, 2):
                raise RuntimeError(f"exit code {stop.code}") from stop


def _pairs(folder: Path, path: str) -> None:
    with (folder / path).open("rb") as file:
        list(read_pairs(file, path))


def _setting(_: Path, text: str) -> None:
    override(preset_config("tiny"), parse_settings([text]))


def make_examples(folder: Path) -> None:
    """Write a small sound file of every type."""
    _make_annotations(folder)
    must(run_p3iv(folder, "data", "make", "tabletop", "kitchen", "--videos", "6", "--skip-rendering"))
    must(run_p3iv(folder, "train", "kitchen", "--out", "run", *TRAIN))
    must(run_p3iv(folder, "evaluate", "run", "--samples", "3"))
    must(run_p3iv(folder, "export", "run", "--out", "planner.onnx"))
    for name in ("language.npz", "split.json"):
        shutil.copy(folder / "kitchen" / name, folder / name)
    _make_predictions(folder)
    _make_arrays(folder)
    _make_pictures(folder)
    for name in VIDEOS:
        _make_video(folder / name)
    work, task = _work_folder(folder)
    work.write(task, EncodedVideo("v", np.ones((3, 4), np.float32)))


def _make_annotations(folder: Path) -> None:
    tasks = "23521\nMake Jello Shots\nhttp://x\n3\npour water,pour juice,stir mixture\n\n"
    tasks += "44047\nMake Lemonade\nhttp://y\n2\ncut lemon,pour water\n"
    files = {
        "crosstask/tasks_primary.txt": tasks,
        "crosstask/annotations/23521_a_b-c.csv": "3,7.5,9\n1,0.25,3\n",
        "crosstask/annotations/44047_-xyz.csv": "2,1,2\n1,3,4\n",
        "niv/csvs/repot_0001.csv": "PUT SOIL,46.7,49.25\nCOVER HOLE,5.8,8.5\n",
        "niv/csvs/jump_car_0002.csv": "OPEN HOOD,1,2\nGET CAR,0,1\n",
        "COIN.json": json.dumps({"database": {name: _coin_video(name) for name in ("a", "b")}}),
        "lists/train_2.json": json.dumps([*_list_windows("a", 0), *_list_windows("c", 4)]),
        "lists/test_2.json": json.dumps(_list_windows("b", 0)),
        "lists/taxonomy.json": json.dumps(
            {"0_1_Tea": {"0": "boil", "1": "pour"}, "1_2_Box": {"2": "fold", "3": "cut"}}
        ),
        "rename.json": '{"boil": "boil water", "pour": "pour it"}',
        "rename.csv": "boil,boil water\npour,pour it\n",
        "actions.txt": "boil\npour\nstir\n",
        "by_hand/steps.csv": "sep=;\nVideo;Task;Step;Start;End\nd.mp4;tea;Boil;0:01;1,5\nd.mp4;tea;boil ;0:02;3 s\n",
        "pairs.csv": "id,start,goal,room\na,tabletop-0000@1,tabletop-0000@9,hall\nb,p.png,arrays/row.npy,\n",
    }
    files |= {f"tools/{path}": text for path, (text, _) in EXAMPLES.items()}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    with zipfile.ZipFile(folder / "crosstask.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in files:
            if name.startswith("crosstask/"):
                archive.write(folder / name, name.replace("crosstask", "crosstask_release", 1))


def _list_windows(video: str, later: int) -> list[dict[str, object]]:
    rows = [[1 + later, 3 + later, 0], [4, 6, 1], [7, 9, 3]]
    about = {"vid": video, "feature": f"./features/1_{video}.npy", "task_id": 0}
    return [{"id": {**about, "legal_range": rows[n : n + 2]}, "instruction_len": 3} for n in range(2)]


def _coin_video(name: str) -> dict[str, object]:
    steps = [(f"35{n}", label, [13.5 * n, 13.5 * n + 9]) for n, label in enumerate(("fold", "mark", "cut"))]
    rows = [{"id": number, "label": label, "segment": segment} for number, label, segment in steps]
    side = "training" if name == "a" else "testing"
    return {"class": "MakeDice", "subset": side, "recipe_type": 3, "duration": 60, "annotation": rows}


def _make_predictions(folder: Path) -> None:
    lines = [
        {
            "window": f"v{n}:0",
            "plan": [n % 5, 1],
            "reference": [1, 2],
            "samples": [[[1, 2], 3], [[n, 0], 1]],
            "video": "v",
        }
        for n in range(4)
    ]
    (folder / "actions.json").write_text(json.dumps(["boil", "pour", "stir", "cut", "mix"]))
    (folder / "predictions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    rows = [f'{line["window"]},{n} 1,1 2,"[[[1, 2], 3]]",v' for n, line in enumerate(lines)]
    (folder / "predictions.csv").write_text("\n".join(["window,plan,reference,samples,video", *rows]) + "\n")
    apart = [{key: line[key] for key in ("window", "plan")} for line in lines]
    (folder / "plans.jsonl").write_text("".join(json.dumps(line) + "\n" for line in apart))
    right = [{key: line[key] for key in ("window", "reference", "video")} for line in lines]
    (folder / "references.jsonl").write_text("".join(json.dumps(line) + "\n" for line in right))
    (folder / "references.csv").write_text("window,reference\n" + "".join(f"v{n}:0,1 2\n" for n in range(4)))


def _make_arrays(folder: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    (folder / "arrays").mkdir()
    np.save(folder / "arrays" / "a.npy", rows)
    np.save(folder / "arrays" / "row.npy", np.ones(128, np.float32))
    np.save(folder / "arrays" / "object.npy", np.array({"frames_features": rows}, dtype=object), allow_pickle=True)
    with (folder / "arrays" / "old.npy").open("wb") as file:
        np.lib.format.write_array(file, np.asfortranarray(rows.astype(">f8")), version=(2, 0))
    np.savez(folder / "arrays" / "a.npz", frames_features=rows, other=rows)
    (folder / "arrays" / "a.pkl").write_bytes(pickle.dumps({"frames_features": rows}, protocol=2))
    state = {"layer.weight": torch.ones(3, 4), "layer.bias": torch.zeros(3)}
    torch.save(state, folder / "w.pth")
    torch.save({"state_dict": state}, folder / "old.pth", _use_new_zipfile_serialization=False)
    save_file(state, folder / "w.safetensors")


def _make_pictures(folder: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 255, (24, 32, 3), dtype=np.uint8)
    for suffix in ("png", "jpg", "gif", "webp", "bmp", "tiff"):
        Image.fromarray(pixels).save(folder / f"p.{suffix}")


def _make_video(path: Path) -> None:
    """Two seconds of four frames each."""
    codecs = {".webm": "libvpx", ".avi": "mpeg4", ".ts": "mpeg2video", ".flv": "flv"}
    with av.open(path, "w") as container:
        stream = cast(Any, container.add_stream(codecs.get(path.suffix, "libx264"), rate=25))
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
        for number in range(50):
            frame = av.VideoFrame.from_ndarray(np.full((32, 32, 3), 5 * number, np.uint8), format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())


def files_of(folder: Path, paths: Sequence[str]) -> list[str]:
    """The files that paths name; a path that ends in / names all below it."""
    found = []
    for path in paths:
        below = (folder / path).rglob("*") if path.endswith("/") else [folder / path]
        found += sorted(str(file.relative_to(folder)) for file in below if file.is_file())
    return found
