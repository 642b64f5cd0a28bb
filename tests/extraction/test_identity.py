"""A planner plans from videos only with the encoder that made the features it was trained on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from commands import Done, RunP3iv
from encoders.states import WORDS, make_clip_model, seeded_state
from extraction.conftest import extract
from p3iv import files
from p3iv.data.folder import open_dataset, require_features
from p3iv.encoders.base import EncoderOptions, identify
from p3iv.encoders.efficientnet_lite0 import EfficientNetLite0, EfficientNetLite0Encoder
from p3iv.encoders.identity import EncoderIdentity, as_identity, find_difference, note_comparison
from p3iv.encoders.registry import build_encoder
from p3iv.encoders.s3d import S3D, S3DEncoder
from p3iv.errors import DatasetError, FeatureError
from p3iv.features.pictures import Framing
from p3iv.planners.header import BEST, read_header

SPLIT = {"train": ["tea one", "tée"], "val": ["v3"], "test": ["v4"]}
MOMENTS = ("--start", "kitchen/videos/v4.mp4@0.5", "--goal", "kitchen/videos/v4.mp4@2.5", "--samples", "5")

RETRIEVAL = ("--planner", "retrieval", "--split", "release", "--horizon", "2")


@pytest.fixture(autouse=True)
def _small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both networks take any size, and small pictures are quick."""
    for encoder in (S3DEncoder, EfficientNetLite0Encoder):
        monkeypatch.setattr(encoder, "framing", Framing(size=32))


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights in the published layouts: mine.pth and other.pth for each encoder."""
    folder = tmp_path_factory.mktemp("weights")
    for name, network in (("s3d", S3D(WORDS)), ("lite0", EfficientNetLite0())):
        (folder / name).mkdir()
        for seed, file in enumerate(("mine.pth", "other.pth")):
            torch.save(seeded_state(network, seed), folder / name / file)
    np.save(folder / "s3d" / "s3d_dict.npy", np.array(WORDS))
    return folder


def train(p3iv: RunP3iv, kitchen: Path) -> None:
    (kitchen / "split.json").write_text(json.dumps(SPLIT), encoding="utf-8")
    done = p3iv("train", kitchen, "--out", "run", *RETRIEVAL)
    assert done.returncode == 0, done.stderr


def refused(done: Done) -> str:
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize(("encoder", "folder"), [("s3d", "s3d"), ("efficientnet-lite0", "lite0")])
def test_a_planner_on_weights_of_the_user_plans_with_these_alone(
    kitchen: Path, weights: Path, p3iv: RunP3iv, encoder: str, folder: str
) -> None:
    mine, other = weights / folder / "mine.pth", weights / folder / "other.pth"
    options = ("--encoder", encoder, "--text-encoder", "keep", "--only-needed", "--jobs", "1")
    done = p3iv("extract", kitchen, *options, "--weights", mine)
    assert done.returncode == 0, done.stderr
    assert f"{encoder}:mine.pth features" in done.stdout
    card = yaml.safe_load((kitchen / "dataset.yaml").read_text(encoding="utf-8"))
    assert card["encoder"].keys() == {"name", "weights", "fingerprint", "backend", "precision"}
    assert (card["encoder"]["name"], card["encoder"]["weights"]) == (encoder, "mine.pth")
    train(p3iv, kitchen)
    assert read_header(kitchen.parent / "run" / BEST).encoder == open_dataset(kitchen).card.encoder
    assert f"encoder: {encoder} (weights mine.pth, encoder fingerprint {card['encoder']['fingerprint'][:12]}" in (
        (kitchen.parent / "run" / "README.md").read_text(encoding="utf-8")
    )

    planned = p3iv("plan", "run", *MOMENTS, "--weights", mine, "--json")
    assert (planned.returncode, planned.stderr) == (0, "")
    of_dataset = p3iv("plan", "run", "--start", "v4@0.5", "--goal", "v4@2.5", "--samples", "5", "--json")
    assert json.loads(of_dataset.stdout)["plan"] == json.loads(planned.stdout)["plan"]

    without = refused(p3iv("plan", "run", *MOMENTS))
    assert f"features of {encoder} with the weights mine.pth, which are not in the checkpoint" in without
    assert f"Type: --encoder {encoder} --weights mine.pth" in without
    assert "is another encoder: the fingerprint is" in refused(p3iv("plan", "run", *MOMENTS, "--weights", other))
    if folder == "lite0":  # the packaged weights are never taken instead
        assert "is another encoder" in refused(p3iv("plan", "run", *MOMENTS, "--encoder", encoder))
    assert not (kitchen / ".extraction").exists()


def test_features_of_other_weights_are_not_used_with_a_planner(kitchen: Path, weights: Path, p3iv: RunP3iv) -> None:
    mine, other = (str(weights / "lite0" / name) for name in ("mine.pth", "other.pth"))
    extract(kitchen, weights=mine)
    train(p3iv, kitchen)
    extract(kitchen, weights=other, overwrite=True)
    of_planner, of_data = (json.loads(p3iv("info", path, "--json").stdout)["encoder"] for path in ("run", kitchen))
    differs = f"the fingerprint is {of_data['fingerprint'][:12]}, not {of_planner['fingerprint'][:12]}"
    assert f"trained on efficientnet-lite0:mine.pth ones: {differs}" in refused(p3iv("evaluate", "run"))
    assert differs in refused(p3iv("plan", "run", "--start", "v4@0.5", "--goal", "v4@2.5"))
    resumed = refused(p3iv("train", kitchen, "--out", "run", *RETRIEVAL, "--resume"))
    assert f"this dataset has efficientnet-lite0:other.pth ones: {differs}" in resumed


def test_a_clip_encoder_refuses_pictures(kitchen: Path, weights: Path, p3iv: RunP3iv) -> None:
    extract(kitchen, encoder="s3d", weights=str(weights / "s3d" / "mine.pth"), only_needed=True)
    train(p3iv, kitchen)
    Image.new("RGB", (32, 32)).save(kitchen.parent / "still.png")
    moments = ("--start", "still.png", "--goal", "still.png")
    message = refused(p3iv("plan", "run", *moments, "--weights", weights / "s3d" / "mine.pth"))
    assert "still.png: s3d encodes clips of 16 frames, not single pictures. Give a moment of a video" in message


def test_other_weights_and_seconds_without_features_say_what_to_type(kitchen: Path, p3iv: RunP3iv) -> None:
    steps = (kitchen / "steps.csv").read_text(encoding="utf-8")
    (kitchen / "steps.csv").write_text(steps.replace("v3,tea,stir,2.5,5.5", "v3,tea,stir,2.5,3"), encoding="utf-8")
    extract(kitchen, only_needed=True)
    train(p3iv, kitchen)
    assert "steps.csv: not a file of weights (.pth or .safetensors). Leave out --weights: the planner's" in refused(
        p3iv("plan", "run", *MOMENTS, "--weights", kitchen / "steps.csv")
    )
    assert "nowhere.pth: there is no such file of weights. Leave out --encoder and --weights" in refused(
        p3iv("plan", "run", *MOMENTS, "--encoder", "s3d", "--weights", "nowhere.pth")
    )
    message = refused(p3iv("plan", "run", "--start", "v3@5.5", "--goal", "v3@2.5"))
    assert "v3@5.5 needs the seconds 4 to 5 of the video, and" in message
    assert f"Type {kitchen}/videos/v3.mp4@5.5, or extract the features of all seconds: p3iv extract" in message


def test_features_with_a_name_only_need_an_encoder_on_the_command_line(kitchen: Path, p3iv: RunP3iv) -> None:
    extract(kitchen, only_needed=True)
    card = yaml.safe_load((kitchen / "dataset.yaml").read_text(encoding="utf-8"))
    (kitchen / "dataset.yaml").write_text(yaml.safe_dump(card | {"encoder": "efficientnet-lite0"}), encoding="utf-8")
    train(p3iv, kitchen)
    assert "encoder: efficientnet-lite0 (no fingerprint)" in (kitchen.parent / "run" / "README.md").read_text()
    message = refused(p3iv("plan", "run", *MOMENTS))
    assert "features are of efficientnet-lite0, but not with which weights" in message
    assert "Type: --encoder efficientnet-lite0 (with --weights FILE if they are not the packaged ones)" in message
    planned = p3iv("plan", "run", *MOMENTS, "--encoder", "efficientnet-lite0")
    assert planned.returncode == 0
    assert planned.stderr.startswith("note: it cannot be checked that efficientnet-lite0 features here and")


def test_rows_of_other_weights_are_not_mixed_in(kitchen: Path, weights: Path) -> None:
    (kitchen / "videos" / "v4.mp4").rename(kitchen / "v4.mp4")  # so that finished rows are kept
    mine, other = (str(weights / "lite0" / name) for name in ("mine.pth", "other.pth"))
    extract(kitchen, weights=mine)
    with pytest.raises(DatasetError, match=r"has efficientnet-lite0:mine\.pth features\. Pass --overwrite"):
        extract(kitchen, weights=other)
    assert extract(kitchen, weights=other, overwrite=True).num_resumed == 0
    assert extract(kitchen, weights=mine, overwrite=True).num_resumed == 3


@pytest.mark.parametrize("again", [False, True])
def test_an_extraction_that_was_killed_at_its_end_is_continued(
    kitchen: Path, monkeypatch: pytest.MonkeyPatch, p3iv: RunP3iv, again: bool
) -> None:
    """Killed after dataset.yaml and language.npz, before features/; the first extraction, or one of a new encoder."""
    if again:
        extract(kitchen, dtype="float32", text_encoder=None)
    move = files._replace_folder
    with monkeypatch.context() as patch:
        patch.setattr(files, "_replace_folder", lambda *at: os._exit(1) if at[1].name == "features" else move(*at))
        child = os.fork()
        if child == 0:
            extract(kitchen, overwrite=again, text_encoder=None)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    assert p3iv("data", "check", kitchen).returncode == 1
    assert p3iv("train", kitchen, "--out", "run").returncode == 1
    assert extract(kitchen, text_encoder=None).num_resumed == 4
    dataset = open_dataset(kitchen)
    assert dataset.card.feature_fingerprint == require_features(dataset).fingerprint
    assert not (kitchen / ".extraction").exists()


def test_a_worker_with_other_weights_is_refused(kitchen: Path, weights: Path) -> None:
    from p3iv.extraction import worker
    from p3iv.extraction.request import ExtractionRequest

    mine, other = (str(weights / "lite0" / name) for name in ("mine.pth", "other.pth"))
    spec = ExtractionRequest(kitchen, weights=mine).spec(build_encoder("efficientnet-lite0", EncoderOptions(mine)))
    assert worker.encode_group([], spec) == []
    with pytest.raises(FeatureError, match="other weights in a worker"):
        worker.encode_group([], replace(spec, options=EncoderOptions(other)))


@pytest.fixture
def contacted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[str]]:
    """What a hub on this machine was asked for."""
    asked: list[str] = []

    class Hub(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Hub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
        yield asked
        server.shutdown()


def write_planner(folder: Path, run: Path, **encoder: str) -> Path:
    """A copy of a checkpoint with another encoder in its header."""
    with safe_open(run / BEST, framework="pt") as file:
        header = json.loads(file.metadata()["p3iv"])
    header["encoder"] = encoder
    save_file(load_file(run / BEST), folder / "planner.safetensors", metadata={"p3iv": json.dumps(header)})
    return folder / "planner.safetensors"


PLAN_TWICE = """
import os, sys
from http.client import HTTPConnection
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from commands import run_in_process
for more in ([], ["--allow-download"]):
    done = run_in_process(Path(), "plan", "planner.safetensors", *sys.argv[2:], *more)
    print(done.returncode, " ".join(done.stderr.split()))
    HTTPConnection(os.environ["HF_ENDPOINT"].removeprefix("http://")).request("GET", "/planned")
"""


@pytest.mark.usefixtures("kitchen")
def test_a_checkpoint_does_not_lead_to_the_network(p3iv_run: Path, tmp_path: Path, contacted: list[str]) -> None:
    write_planner(tmp_path, p3iv_run, name="clip", weights="some-user/some-model", fingerprint="0" * 64)
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", PLAN_TWICE, tests, *MOMENTS]  # in a new process, which reads HF_ENDPOINT
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    without, allowed = done.stdout.splitlines()
    assert without.startswith("1 error: model some-user/some-model: there is no such folder, nor such a model in the")
    assert "--weights FOLDER, or allow the download of a model of that name: --allow-download." in without
    assert allowed.startswith("1 error: model some-user/some-model: cannot be loaded")
    assert contacted[0] == "/planned"  # nothing before the end of the first command
    assert any("some-user/some-model" in path for path in contacted)


@pytest.mark.usefixtures("kitchen")
@pytest.mark.parametrize(
    ("name", "weights"), [("clip", "/models/clip"), ("clip", "models\\clip"), ("efficientnet-lite0", "models/mine.pth")]
)
def test_a_path_in_a_checkpoint_is_not_opened(
    p3iv_run: Path, tmp_path: Path, p3iv: RunP3iv, name: str, weights: str
) -> None:
    planner = write_planner(tmp_path, p3iv_run, name=name, weights=weights, fingerprint="0" * 64)
    assert "which are not in the checkpoint" in refused(p3iv("plan", planner, *MOMENTS))


def test_code_of_a_model_is_not_run_and_nobody_is_asked(tmp_path: Path) -> None:
    folder = make_clip_model(tmp_path / "clip")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with pytest.raises(FeatureError, match="cannot be loaded"):
        build_encoder("clip", EncoderOptions(str(folder)))
    assert not (tmp_path / "ran").exists()


def test_the_fingerprint_covers_weights_and_preprocessing_but_not_precision(
    weights: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def identity(path: Path) -> EncoderIdentity:
        return build_encoder("efficientnet-lite0", EncoderOptions(str(path))).identity

    mine = weights / "lite0" / "mine.pth"
    first = identity(mine)
    assert first.fingerprint != identity(weights / "lite0" / "other.pth").fingerprint
    state = torch.load(mine, weights_only=True)
    torch.save({name: value for name, value in state.items() if "tracked" not in name}, tmp_path / "old.pth")
    assert identity(tmp_path / "old.pth") == replace(first, weights="old.pth")
    monkeypatch.setattr(EfficientNetLite0Encoder, "framing", Framing(size=64))
    assert identity(mine).fingerprint != first.fingerprint

    half = replace(first, precision="float16")
    assert find_difference(half, first) is None
    assert list(note_comparison(half, first)) == [
        "the encoder's precision is float16, in training it was float32: features differ by rounding"
    ]


def test_the_words_and_their_number_belong_to_the_text_encoder_alone(weights: Path) -> None:
    path = str(weights / "s3d" / "mine.pth")
    few, many = (S3DEncoder(EncoderOptions(path, max_words=number)) for number in (16, 30))
    assert few.identity == many.identity
    assert few.text_identity.fingerprint != many.text_identity.fingerprint


def test_weights_in_a_file_whose_name_cannot_be_printed(tmp_path: Path) -> None:
    path = tmp_path / "my\x07weights.pth"
    path.touch()
    assert identify("x", str(path), {}).weights == "my?weights.pth"


def test_names_of_encoders_in_files_written_by_hand() -> None:
    assert as_identity("omnivore") == EncoderIdentity("omnivore")
    assert as_identity("clip:some/model") == EncoderIdentity("clip", "some/model")
    assert as_identity("") is None
    assert find_difference(EncoderIdentity("omnivore"), EncoderIdentity("slowfast")) is not None
    assert find_difference(EncoderIdentity("omnivore"), EncoderIdentity("imported")) is None
    assert find_difference(EncoderIdentity("clip", "a/b"), EncoderIdentity("clip", "a/c")) is not None
