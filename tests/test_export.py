"""`p3iv export`: what it writes, what it refuses, and the encoder beside the planner."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from commands import RunP3iv
from conftest import MakeOnce
from p3iv import Planner, __version__
from p3iv.data.folder import Dataset
from p3iv.encoders.base import EncoderOptions
from p3iv.encoders.efficientnet_lite0 import EfficientNetLite0Encoder
from p3iv.encoders.identity import EncoderIdentity
from p3iv.encoders.onnx_encoder import OnnxEncoder
from p3iv.encoders.registry import build_encoder
from p3iv.errors import CheckpointError, ConfigError, FeatureError
from p3iv.export import planner as export
from p3iv.export.encoder import cosines, example_clips, export_encoder
from p3iv.planners.header import BEST, read_header
from p3iv.planners.onnx_planner import OnnxPlanner, encoder_beside, load_exported
from p3iv.plans.evidence import Evidence
from p3iv.training.loop import TrainRequest, train
from p3iv.types import Array
from runs import quick


@pytest.fixture(scope="module")
def lite0() -> EfficientNetLite0Encoder:
    return EfficientNetLite0Encoder(EncoderOptions())


@pytest.fixture(scope="module")
def encoder_file(make_once: MakeOnce, lite0: EfficientNetLite0Encoder) -> Path:
    """The encoder, exported in float32."""

    def fill(folder: Path) -> None:
        export_encoder(lite0.identity, folder / "x.encoder.onnx", "float32")

    return make_once("exported_encoder", fill) / "x.encoder.onnx"


def test_a_file_says_everything_about_itself(plus_run: Path, tmp_path: Path) -> None:
    report = export.export_planner(plus_run, tmp_path / "x.onnx")
    assert report.max_difference <= 1e-5
    assert [path.name for path in tmp_path.iterdir()] == ["x.onnx"]  # no file of external data
    model = onnx.load(tmp_path / "x.onnx")
    about = {entry.key: entry.value for entry in model.metadata_props}
    header = read_header(plus_run / BEST)
    assert json.loads(about["actions"]) == list(header.names)
    assert json.loads(about["horizon"]) == 3
    assert json.loads(about["encoder"])["name"] == "state"
    assert len(json.loads(about["scaling"])["mean"]) == header.shape.feature_width
    assert set(json.loads(about["transitions"])["outputs"]) <= {output.name for output in model.graph.output}
    assert (about["planner"], about["version"]) == ("p3iv-plus", __version__)
    assert read_header(tmp_path / "x.onnx") == header
    for path in (plus_run, tmp_path, Path(export.__file__).parent):
        assert str(path).encode() not in (tmp_path / "x.onnx").read_bytes()


def test_the_same_run_gives_the_same_bytes(plus_run: Path, tmp_path: Path) -> None:
    for name in ("one.onnx", "other.onnx"):
        export.export_planner(plus_run, tmp_path / name)
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "other.onnx").read_bytes()


def test_a_file_with_other_scores_is_not_kept(plus_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "build_plus", _scaled)
    with pytest.raises(CheckpointError, match=r"was not written: its scores differ from those of torch by"):
        export.export_planner(plus_run, tmp_path / "x.onnx")
    assert not list(tmp_path.iterdir())


def _scaled(graph: object, planner: object) -> None:
    from p3iv.export.networks import build_plus

    planner.temperature.mul_(1.001)  # type: ignore[attr-defined]
    build_plus(graph, planner)  # type: ignore[arg-type]
    planner.temperature.div_(1.001)  # type: ignore[attr-defined]


def test_other_planners_cannot_be_exported(dataset: Dataset, tmp_path: Path) -> None:
    train(TrainRequest(dataset, tmp_path / "run", quick("majority")))
    with pytest.raises(ConfigError, match=r"planner=majority cannot be exported, only p3iv and p3iv-plus\."):
        export.export_planner(tmp_path / "run", tmp_path / "x.onnx")


def test_the_command_writes_once_and_says_what_to_type(p3iv: RunP3iv, plus_run: Path) -> None:
    done = p3iv("export", plus_run, "--out", "x.onnx")
    assert done.returncode == 0, done.stderr
    assert "plan with it: p3iv plan x.onnx --start start.npy" in done.stdout
    assert "note: the planner's features are of state" in done.stderr
    again = p3iv("export", plus_run, "--out", "x.onnx")
    assert again.returncode == 1
    assert "x.onnx is there already. Pass --overwrite" in again.stderr
    told = json.loads(p3iv("export", plus_run, "--out", "x.onnx", "--overwrite", "--json").stdout)
    assert (told["horizon"], told["encoder"]) == (3, None)
    assert told["outputs"]["log_emissions"]["shape"] == [None, 3, 90]
    assert "must end in .onnx" in p3iv("export", plus_run, "--out", "x.bin").stderr
    assert "p3iv-plus, 3 steps to plan" in p3iv("info", "x.onnx").stdout


# Runs a command in a process in which torch cannot be imported.
WITHOUT_TORCH = """
import sys
sys.modules["torch"] = sys.modules["onnx"] = sys.modules["safetensors"] = None
from p3iv.cli.app import main
main()
"""


def plan_without_torch(folder: Path, *arguments: object) -> dict[str, Any]:
    words = ["plan", *map(str, arguments), "--json"]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_plan_needs_no_torch(p3iv: RunP3iv, plus_run: Path, tmp_path: Path) -> None:
    p3iv("export", plus_run, "--out", "x.onnx", "--encoder-precision", "none")
    width = read_header(plus_run / BEST).shape.feature_width
    for name, row in zip("ab", np.random.default_rng(0).standard_normal((2, width)), strict=True):
        np.save(tmp_path / f"{name}.npy", row.astype(np.float32))
    pair = ("--start", "a.npy", "--goal", "b.npy", "--samples", "50")
    found = plan_without_torch(tmp_path, "x.onnx", *pair)
    wanted = json.loads(p3iv("plan", plus_run, *pair, "--json").stdout)
    assert found["plan"] == wanted["plan"]
    assert found["plan_probability"] == pytest.approx(wanted["plan_probability"], abs=1e-5)
    assert found["samples"] == wanted["samples"]


def test_plans_of_every_length_need_no_torch(p3iv: RunP3iv, query_run: Path, dataset: Dataset, tmp_path: Path) -> None:
    """From moments of the dataset, so that the video before the start counts."""
    told = p3iv("export", query_run, "--out", "x.onnx", "--encoder-precision", "none").stdout
    assert "p3iv-plus, 1 to 4 steps of 90 actions" in told
    video = dataset.videos[0]
    start, first, last = f"{video.id}@{video.steps[2].start_s}", video.steps[0].action, video.steps[4].action
    goal = ("--goal-text", last, "--procedure", video.task, "--without", first)
    asked = ("--start", start, *goal, "--samples", "50", "--why", "--data", str(dataset.folder))
    found = plan_without_torch(tmp_path, "x.onnx", *asked)
    wanted = json.loads(p3iv("plan", query_run, *asked, "--json").stdout)
    assert found["plan"] == wanted["plan"]
    assert found["understood"] == wanted["understood"]
    assert found["samples"] == wanted["samples"]
    assert "history" in found["why"][0]["steps"][0]["addends"]
    assert found["plan_probability"] == pytest.approx(wanted["plan_probability"], abs=1e-5)


def test_plan_from_a_video_needs_no_torch(p3iv: RunP3iv, demo: Path, tmp_path: Path) -> None:
    """The encoder beside the planner is found; its rows differ by rounding, and by pixels that Pillow scales."""
    assert p3iv("export", demo / "run", "--out", "x.onnx").returncode == 0
    assert encoder_beside(tmp_path / "x.onnx").is_file()
    clip = next((demo / "tabletop" / "videos").glob("*.mp4"))
    pair = ("--start", f"{clip}@2", "--goal", f"{clip}@9")
    found = plan_without_torch(tmp_path, "x.onnx", *pair)
    wanted = json.loads(p3iv("plan", demo / "run", *pair, "--json").stdout)
    assert found["plan"] == wanted["plan"]
    assert found["plan_probability"] == pytest.approx(wanted["plan_probability"], abs=0.01)


def test_an_exported_encoder_gives_the_rows_of_torch(encoder_file: Path, lite0: EfficientNetLite0Encoder) -> None:
    exported = build_encoder("efficientnet-lite0", EncoderOptions(str(encoder_file)))
    assert exported.identity == replace(lite0.identity, backend="onnx")
    clips = np.concatenate(list(islice(example_clips(lite0.framing), 4)))
    rows = exported.encode(clips)
    assert np.abs(rows - lite0.encode(clips)).max() <= 1e-4
    assert np.array_equal(exported.encode(clips[2:3])[0], rows[2])
    assert exported.encode(clips[:0]).shape == (0, lite0.width)


@pytest.mark.slow
def test_an_encoder_in_int8_is_a_third_of_the_size(
    encoder_file: Path, lite0: EfficientNetLite0Encoder, tmp_path: Path
) -> None:
    report = export_encoder(lite0.identity, tmp_path / "x.onnx", "int8")
    assert report.num_bytes < encoder_file.stat().st_size / 3
    exported = OnnxEncoder(tmp_path / "x.onnx")
    assert exported.identity == replace(lite0.identity, backend="onnx", precision="int8")
    clips = np.concatenate(list(islice(example_clips(lite0.framing), 400, 408)))
    assert cosines(exported.encode(clips), lite0.encode(clips)).min() > 0.98


def test_files_that_are_not_an_encoder_are_refused(encoder_file: Path, plus_run: Path, tmp_path: Path) -> None:
    content = bytearray(encoder_file.read_bytes())
    content[-1000] ^= 1
    (tmp_path / "changed.onnx").write_bytes(content)
    (tmp_path / "part.onnx").write_bytes(content[:5000])
    export.export_planner(plus_run, tmp_path / "planner.onnx")
    for name, reason in (("changed", "checksum"), ("part", "whole"), ("planner", "no description"), ("no", "No such")):
        with pytest.raises(FeatureError, match=reason):
            OnnxEncoder(tmp_path / f"{name}.onnx")
    with pytest.raises(CheckpointError, match="no header that p3iv wrote"):
        Planner.from_pretrained(encoder_file)
    with pytest.raises(FeatureError, match="holds the encoder efficientnet-lite0, not clip"):
        build_encoder("clip", EncoderOptions(str(encoder_file)))


def test_only_the_encoder_of_the_features_is_exported(lite0: EfficientNetLite0Encoder, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only efficientnet-lite0 can be exported"):
        export_encoder(EncoderIdentity("clip", "x/y"), tmp_path / "x.onnx", "float32")
    with pytest.raises(FeatureError, match="of another encoder: the fingerprint is"):
        export_encoder(replace(lite0.identity, fingerprint="0" * 64), tmp_path / "x.onnx", "float32")
    assert not list(tmp_path.iterdir())


STAND_IN = """
import { readFileSync } from "node:fs";
export class Tensor { constructor(type, data, dims) { Object.assign(this, { type, data, dims }); } }
const { inputs, ...outputs } = JSON.parse(readFileSync("outputs.json"));
const same = (given, wanted) =>
  wanted.length === given?.data.length && wanted.every((n, k) => Math.fround(n) === given.data[k]);
const run = async (given) => {
  for (const name in { ...inputs, ...given }) {
    if (!same(given[name], inputs[name])) throw new Error(`another input ${name}`);
  }
  return Object.fromEntries(Object.entries(outputs).map(([name, data]) => [name, { data }]));
};
export const InferenceSession = { create: async () => ({ run }) };
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize(("run", "horizon"), [("plus_run", 3), ("query_run", 4), ("query_run", 2)])
def test_the_javascript_of_the_documentation_plans_as_p3iv_does(
    request: pytest.FixtureRequest, tmp_path: Path, run: str, horizon: int
) -> None:
    """With the outputs of onnxruntime for Python in place of onnxruntime-web, which only npm can install."""
    page = (Path(__file__).parents[1] / "docs" / "reference" / "onnx.md").read_text()
    (code,) = re.findall(r"```js\n(.*?)```", page, re.DOTALL)
    (tmp_path / "plan.mjs").write_text(code)
    package = tmp_path / "node_modules" / "onnxruntime-web"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"type": "module", "main": "index.js"}')
    (package / "index.js").write_text(STAND_IN)
    export.export_planner(request.getfixturevalue(run), tmp_path / "x.onnx")
    planner = load_exported([tmp_path / "x.onnx"])
    pair = np.random.default_rng(3).standard_normal((2, planner.header.shape.feature_width)).astype(np.float32)
    (tmp_path / "pair.json").write_text(json.dumps(pair.tolist()))
    (tmp_path / "outputs.json").write_text(json.dumps(outputs_of(planner, pair)))
    words = ["node", "plan.mjs", "x.onnx", "pair.json", *([] if horizon == planner.header.shape.horizon else ["2"])]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = tuple(done.stdout.strip().split(" -> "))
    assert found == Planner(planner).plan(*pair, history=False, horizon=horizon).plan
    assert len(found) == horizon


def outputs_of(planner: OnnxPlanner, pair: Array) -> dict[str, Any]:
    """All outputs for a pair of observations (2, F), and the inputs as JavaScript must give them."""
    filled = Evidence(start=pair[:1], goal=pair[1:]).filled(planner.header.shape.evidence_widths)
    given = {name: filled[name] for name in planner.model.inputs}
    found = planner.scores(*planner.model.outputs, **given)
    outputs = {name: array.ravel().tolist() for name, array in zip(planner.model.outputs, found, strict=True)}
    return {**outputs, "inputs": {name: array.ravel().tolist() for name, array in given.items()}}
