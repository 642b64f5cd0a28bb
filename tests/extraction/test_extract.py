from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from clips import number_of
from extraction.conftest import LENGTHS_S, extract
from p3iv.config import CurationSettings
from p3iv.data.folder import exclusive_dataset, open_dataset
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.data.simulate import simulate_dataset
from p3iv.data.stats import describe_dataset
from p3iv.encoders.identity import EncoderIdentity
from p3iv.encoders.registry import build_encoder
from p3iv.errors import BusyError, ConfigError, DatasetError, FeatureError
from p3iv.extraction.align import AlignmentRequest, align_dataset
from p3iv.extraction.extract import extract_features
from p3iv.extraction.request import (
    ExtractionRequest,
)
from p3iv.extraction.worker import WORK_FOLDER, wanted_seconds
from p3iv.features.language import read_language
from p3iv.features.pictures import frame_picture
from p3iv.features.store import FeatureStore
from p3iv.features.store_index import KeptSeconds
from p3iv.features.video import VideoReader
from p3iv.types import Progress, count_problems


def content_of(folder: Path) -> dict[str, str]:
    """A digest of every file of the store."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted((folder / "features").iterdir())
    }


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory, kitchen_source: Path) -> dict[str, str]:
    """The files of an extraction without interruption."""
    folder = Path(shutil.copytree(kitchen_source, tmp_path_factory.mktemp("whole") / "kitchen"))
    extract(folder)
    return content_of(folder)


def test_every_second_becomes_the_row_of_its_middle(kitchen: Path) -> None:
    report = extract(kitchen)
    assert report.features.num_videos == 4
    assert report.problems == ()
    assert 4 * sum(LENGTHS_S.values()) < report.num_frames <= 5 * sum(LENGTHS_S.values())
    dataset = open_dataset(kitchen)
    assert (dataset.card.simulated, dataset.card.features_per_second) == (False, 1.0)
    store = dataset.features
    assert store is not None
    assert store.videos == tuple(LENGTHS_S)
    assert store.fingerprint == dataset.card.feature_fingerprint
    encoder = build_encoder("efficientnet-lite0")
    assert dataset.card.encoder == report.encoder == encoder.identity
    for video, length_s in LENGTHS_S.items():
        assert store.num_rows(video) == length_s
        with VideoReader(kitchen / "videos" / f"{video}.mp4") as reader:
            (picture,) = reader.frames_at([2.5])
        assert number_of(picture.pixels) == 12
        row = encoder.encode(frame_picture(picture, encoder.framing)[None, None])
        assert np.array_equal(store.rows(video)[2], row[0].astype(np.float16))
    assert not (kitchen / WORK_FOLDER).exists()


def test_weights_of_a_text_encoder_that_is_not_used_are_refused(kitchen: Path) -> None:
    with pytest.raises(ConfigError, match="--text-weights has no effect: --text-encoder keep has none"):
        extract(kitchen, text_encoder="keep", text_weights="mine")


def test_step_texts_become_embeddings(kitchen: Path) -> None:
    lines = (kitchen / "steps.csv").read_text(encoding="utf-8").splitlines()
    (kitchen / "steps.csv").write_text(
        "\n".join(
            [f"{lines[0]},text", *(f"{line},heat the kettle" if "boil" in line else f"{line}," for line in lines[1:])]
        ),
        encoding="utf-8",
    )
    report = extract(kitchen, text_encoder=None)
    table = read_language(kitchen / "language.npz")
    assert table.names == ("boil water", "pour", "stir")
    from p3iv.encoders.registry import build_text_encoder

    encoder = build_text_encoder("minilm")
    assert report.text_encoder == open_dataset(kitchen).card.text_encoder == encoder.text_identity
    wanted = encoder.encode_text(["heat the kettle", "pour", "stir"]).numpy()
    assert np.allclose(table.embedding, wanted, atol=1e-6)


def test_two_processes_write_the_same_bytes(kitchen: Path, expected: dict[str, str]) -> None:
    extract(kitchen, jobs=2)
    assert content_of(kitchen) == expected


def test_only_needed_keeps_the_seconds_that_are_looked_at(kitchen: Path) -> None:
    whole = extract(kitchen)
    rows = {video: FeatureStore.open(kitchen / "features").rows(video).copy() for video in LENGTHS_S}
    steps = "".join(f"{video},tea,boil water,0.5,0.9\n{video},tea,pour,0.5,0.9\n" for video in LENGTHS_S)
    (kitchen / "steps.csv").write_text(f"video,task,step,start_s,end_s\n{steps}", encoding="utf-8")
    report = extract(kitchen, only_needed=True, overwrite=True)
    store = FeatureStore.open(kitchen / "features")
    assert report.num_frames < whole.num_frames / 1.5
    for video, length_s in LENGTHS_S.items():
        assert store.kept(video) == KeptSeconds(length_s, (0, 1))
        assert np.array_equal(store.packed_rows(video), rows[video][:2])
    stats = describe_dataset(open_dataset(kitchen), CurationSettings(), horizons=(2,))
    assert (stats.features or {})["rows"] == report.features.num_rows == 2 * len(LENGTHS_S)


def test_a_video_without_times_needs_its_ends() -> None:
    assert wanted_seconds((0.0, float("inf")), 100) == [0, 1, 98, 99]
    assert wanted_seconds((0.0, float("inf")), 1) == [0]
    assert wanted_seconds((3.9, 1e9), 6) == [2, 3, 4, 5]
    assert wanted_seconds(None, 3) == [0, 1, 2]


def test_an_unusable_video_is_left_out_and_read_again_once_repaired(kitchen: Path, expected: dict[str, str]) -> None:
    videos = kitchen / "videos"
    shutil.copy(videos / "v3.mp4", kitchen / "v3.mp4")
    (videos / "v3.mp4").write_bytes(b"")
    (videos / "v4.mp4").rename(kitchen / "v4.mp4")
    (videos / "v4.mp4").symlink_to(videos / "v4.mp4")
    with pytest.raises(FeatureError, match=r"--strict: 2 videos cannot be used, so nothing was written"):
        extract(kitchen, strict=True)
    assert not (kitchen / "features").exists()
    report = extract(kitchen)
    assert [str(problem) for problem in report.problems] == [
        f"{videos / 'v3.mp4'}: is empty; left without features",
        f"{videos / 'v4.mp4'}: is a broken link; left without features",
    ]
    assert (report.features.num_videos, report.num_resumed) == (2, 2)
    (kitchen / "v3.mp4").replace(videos / "v3.mp4")
    (kitchen / "v4.mp4").replace(videos / "v4.mp4")
    report = extract(kitchen, overwrite=True)
    assert (report.problems, report.num_resumed) == ((), 2)
    assert content_of(kitchen) == expected
    assert not (kitchen / WORK_FOLDER).exists()


def test_a_video_of_an_unknown_codec_is_listed_and_the_others_are_encoded(kitchen: Path) -> None:
    film = kitchen / "videos" / "v3.mp4"
    film.write_bytes(film.read_bytes().replace(b"avc1", b"zzzz"))
    report = extract(kitchen)
    (problem,) = report.problems
    assert str(problem).startswith(f"{film}: its video codec has no decoder here")
    assert report.features.num_videos == len(LENGTHS_S) - 1


def test_nothing_is_written_if_no_video_can_be_used(kitchen: Path) -> None:
    before = {path.name for path in kitchen.iterdir()}
    for video in LENGTHS_S:
        (kitchen / "videos" / f"{video}.mp4").unlink()
    (kitchen / "videos" / "v3.mp4").mkdir()
    with pytest.raises(FeatureError, match=r"none of the 4 videos can be used:\n(.*\n)*.*v3\.mp4: is a folder"):
        extract(kitchen)
    assert {path.name for path in kitchen.iterdir()} == before


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"nonsense", None])
def test_damaged_rows_of_an_earlier_run_are_made_again(
    kitchen: Path, expected: dict[str, str], damage: bytes | None
) -> None:
    video = sorted((kitchen / "videos").iterdir())[0]
    whole = video.read_bytes()
    video.write_bytes(b"not a video")
    extract(kitchen)
    video.write_bytes(whole)
    rows = sorted((kitchen / WORK_FOLDER).iterdir())[0]
    rows.write_bytes(rows.read_bytes()[:-30] if damage is None else damage)
    assert extract(kitchen, overwrite=True).num_resumed == 2
    assert content_of(kitchen) == expected


def test_rows_of_a_changed_file_or_another_encoder_are_not_reused(kitchen: Path) -> None:
    (kitchen / "videos" / "v4.mp4").rename(kitchen / "v4.mp4")  # so that finished rows are kept
    extract(kitchen)
    shutil.copy(kitchen / "videos" / "v3.mp4", kitchen / "videos" / "tée.mp4")
    report = extract(kitchen, overwrite=True)
    assert report.num_resumed == 2
    store = FeatureStore.open(kitchen / "features")
    assert np.array_equal(store.rows("tée"), store.rows("v3"))
    assert extract(kitchen, overwrite=True, dtype="float32").num_resumed == 0
    assert FeatureStore.open(kitchen / "features").dtype == np.float32


def test_existing_features_are_replaced_only_on_request(kitchen: Path, expected: dict[str, str]) -> None:
    extract(kitchen)
    for options, message in (
        (
            {"encoder": "precomputed"},
            r"has efficientnet-lite0 features\. Pass --overwrite to replace them",
        ),
        ({"dtype": "float32"}, r"of type float16\. Pass --overwrite .* or --dtype float16 to keep them"),
    ):
        with pytest.raises(DatasetError, match=message):
            extract(kitchen, **options)
    shutil.rmtree(kitchen / "features")
    np.savez(kitchen / "language.npz", step=["boil water", "pour", "stir"], embedding=np.eye(3, 8))
    with pytest.raises(DatasetError, match="--text-encoder keep"):
        extract(kitchen, text_encoder=None)
    extract(kitchen)
    assert read_language(kitchen / "language.npz").embedding.shape == (3, 8)
    assert content_of(kitchen) == expected


def test_new_steps_are_embedded_with_the_old_ones(kitchen: Path) -> None:
    names = ["unseen", "boil water", "pour", "stir"]
    np.savez(kitchen / "language.npz", step=names, embedding=np.eye(4, 8))
    with (kitchen / "steps.csv").open("a", encoding="utf-8") as steps:
        steps.write("v3,tea,serve,5.5,5.9\n")
    with pytest.raises(DatasetError, match="no embedding for 1 step: serve"):
        extract(kitchen)
    extract(kitchen, text_encoder=None, overwrite=True)
    assert read_language(kitchen / "language.npz").names == (*names, "serve")


def test_complete_features_are_kept_and_a_renamed_step_is_embedded(kitchen: Path) -> None:
    steps = kitchen / "steps.csv"
    rows = "".join(f"{video},tea,pour,0.5,0.9\n{video},tea,stir,0.5,0.9\n" for video in LENGTHS_S)
    steps.write_text(f"video,task,step,start_s,end_s\n{rows}", encoding="utf-8")
    extract(kitchen, text_encoder=None, only_needed=True)
    written = {path: path.read_bytes() for path in kitchen.rglob("*") if path.is_file()}
    for text_encoder in ("keep", None):
        report = extract(kitchen, text_encoder=text_encoder, only_needed=True)
        assert (report.is_kept, report.num_new_steps, report.features.num_videos) == (True, 0, 4)
    assert {path: path.read_bytes() for path in written} == written
    with pytest.raises(DatasetError, match=r"4 videos: tea one.* Pass --overwrite .* or --only-needed to keep them"):
        extract(kitchen)
    steps.write_text(steps.read_text(encoding="utf-8").replace("stir", "stir it"), encoding="utf-8")
    with pytest.raises(DatasetError, match=r"no embedding for 1 step: stir it\. Type: p3iv extract \S*kitchen\.$"):
        open_dataset(kitchen)
    report = extract(kitchen, text_encoder=None)
    assert (report.is_kept, report.num_new_steps, report.num_frames) == (True, 1, 0)
    dataset = open_dataset(kitchen)
    assert dataset.vocabulary.names == ("pour", "stir", "stir it")
    assert content_of(kitchen)["rows.npy"] == hashlib.sha256(written[kitchen / "features" / "rows.npy"]).hexdigest()


def test_a_new_video_is_named(kitchen: Path) -> None:
    extract(kitchen)
    with (kitchen / "steps.csv").open("a", encoding="utf-8") as steps:
        steps.write("v5,tea,pour,1,2\n")
    with pytest.raises(
        DatasetError,
        match=r"features, but none of 1 video: v5\. Type: p3iv extract \S* --overwrite\. .* all 5 videos\.",
    ):
        extract(kitchen)


def test_many_unusable_videos_are_counted(kitchen: Path) -> None:
    with (kitchen / "steps.csv").open("a", encoding="utf-8") as steps:
        steps.writelines(f"absent-{number},tea,pour,1,2\n" for number in range(150))
    problems = extract(kitchen).problems
    assert (len(problems), count_problems(problems)) == (101, 150)


def test_precomputed_features_are_packed(kitchen: Path, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for video, length_s in LENGTHS_S.items():
        np.save(tmp_path / "rows" / f"{video}.npy", np.full((length_s, 3), 7, np.float32))
    report = extract(kitchen, encoder="precomputed", weights=str(tmp_path / "rows"))
    assert (report.encoder, report.features.width) == (EncoderIdentity("precomputed"), 3)
    assert open_dataset(kitchen).card.encoder == EncoderIdentity("precomputed")
    with pytest.raises(ConfigError, match="--weights FOLDER"):
        extract(kitchen, encoder="precomputed", overwrite=True)


KILLED = """
import os, sys
from pathlib import Path
from p3iv.extraction.extract import extract_features
from p3iv.extraction.request import ExtractionRequest
def stop(at):
    if at.done == 2:
        os.kill(os.getpid(), 9)
extract_features(ExtractionRequest(Path(sys.argv[1]), text_encoder="keep"), on_progress=stop)
"""


def test_killed_half_way_and_run_again_it_ends_the_same(kitchen: Path, expected: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, kitchen], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (kitchen / "features").exists()
    assert len(list((kitchen / WORK_FOLDER).glob("*.npz"))) == 2
    seen: list[Progress] = []
    report = extract_features(ExtractionRequest(kitchen, text_encoder="keep"), on_progress=seen.append)
    assert report.num_resumed == 2
    assert [at.done for at in seen] == [2, 3, 4]
    assert content_of(kitchen) == expected


def test_commands_do_not_write_one_dataset_folder_at_once(kitchen: Path, tmp_path: Path) -> None:
    writers: list[Callable[[], object]] = [
        lambda: extract(kitchen),
        lambda: align_dataset(AlignmentRequest(kitchen)),
        lambda: simulate_dataset(kitchen),
        lambda: import_dataset(ImportRequest("folder", tmp_path / "other", kitchen, overwrite=True)),
    ]
    shutil.copytree(kitchen, tmp_path / "other")
    with exclusive_dataset(kitchen):
        for write in writers:
            with pytest.raises(BusyError, match=f"Another process is writing (into )?{kitchen}"):
                write()


def test_wrong_settings_are_named() -> None:
    for options, message in (
        ({"engine": "spark"}, "--engine spark, but it must be one of local, ray"),
        ({"dtype": "float64"}, "--dtype float64"),
        ({"jobs": 0}, "--jobs 0"),
        ({"address": "auto"}, "pass --engine ray"),
    ):
        with pytest.raises(ConfigError, match=message):
            ExtractionRequest(Path("x"), **options)


@pytest.mark.slow
def test_ray_writes_the_same_bytes_and_survives_a_lost_worker(
    kitchen: Path, expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setenv("P3IV_TEST_DIE_ONCE", str(tmp_path / "died"))
    code = (
        "import sys; from pathlib import Path; import extraction.dying as dying;"
        "from p3iv.extraction.request import ExtractionRequest;"
        "from p3iv.extraction.extract import extract_features;"
        "dying.install();"
        "extract_features(ExtractionRequest(Path(sys.argv[1]), text_encoder='keep', engine='ray', jobs=2))"
    )
    paths = os.pathsep.join((str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", code, kitchen], check=True, env=environment, capture_output=True)
    assert (tmp_path / "died").exists()
    assert content_of(kitchen) == expected
