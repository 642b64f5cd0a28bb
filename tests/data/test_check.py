from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml

from p3iv.data.check import check_dataset
from p3iv.features.video_file import write_video


@pytest.fixture
def dataset(tabletop: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tabletop, tmp_path / "tabletop"))


def test_a_tabletop_is_sound(dataset: Path) -> None:
    assert check_dataset(dataset) == []


def cut_features(folder: Path) -> None:
    rows = folder / "features" / "rows.npy"
    rows.write_bytes(rows.read_bytes()[:-3])


def flip_a_bit(folder: Path) -> None:
    rows = folder / "features" / "rows.npy"
    content = bytearray(rows.read_bytes())
    content[-1] ^= 1
    rows.write_bytes(content)


def leak(folder: Path) -> None:
    split = json.loads((folder / "split.json").read_text())
    split["test"].append(split["train"][0])
    (folder / "split.json").write_text(json.dumps(split))


def spoil_truth(folder: Path) -> None:
    lines = (folder / "truth.jsonl").read_text().splitlines()
    line = json.loads(lines[4])
    line["plans"][0][1] += 0.5
    lines[4] = json.dumps(line)
    (folder / "truth.jsonl").write_text("\n".join(lines))


def repeat_truth(folder: Path) -> None:
    text = (folder / "truth.jsonl").read_text()
    (folder / "truth.jsonl").write_text(text + text.splitlines()[0] + "\n")


def repeat_truth_of_unknown_length(folder: Path) -> None:
    """A window that has a line of known and one of unknown length gets a second one of unknown length."""
    text = (folder / "truth.jsonl").read_text()
    line = next(line for line in text.splitlines() if "num_steps" in line)
    (folder / "truth.jsonl").write_text(text + line + "\n")


def spoil_steps(folder: Path) -> None:
    with (folder / "steps.csv").open("a") as lines:
        lines.write("tabletop-0000,make tea,set out a mug,9,3\n")


def unknown_step(folder: Path) -> None:
    with (folder / "steps.csv").open("a") as lines:
        lines.write("new-video,make tea,dance,900,903\n")


def spoil_card(folder: Path) -> None:
    (folder / "dataset.yaml").write_text("simulated: yes\nname: 3\n")


def change_card(folder: Path, **changes: object) -> None:
    card = yaml.safe_load((folder / "dataset.yaml").read_text())
    (folder / "dataset.yaml").write_text(yaml.safe_dump(card | changes))


def swap_features(folder: Path) -> None:
    change_card(folder, feature_fingerprint="f" * 64)


def lose_features(folder: Path) -> None:
    shutil.rmtree(folder / "features")


def break_link(name: str) -> Callable[[Path], None]:
    def spoil(folder: Path) -> None:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to("nowhere")

    return spoil


def unreadable_truth(folder: Path) -> None:
    (folder / "truth.jsonl").write_bytes(b"\xff\n")


def truth_folder(folder: Path) -> None:
    (folder / "truth.jsonl").unlink()
    (folder / "truth.jsonl").mkdir()


def huge_rate(folder: Path) -> None:
    change_card(folder, features_per_second=10**400)


def stranger_in_split(folder: Path) -> None:
    split = json.loads((folder / "split.json").read_text())
    (folder / "split.json").write_text(json.dumps(split | {"train": [*split["train"], "zebra"]}))


def put_video(folder: Path, name: str, content: bytes = b"") -> None:
    (folder / "videos").mkdir(exist_ok=True)
    (folder / "videos" / name).write_bytes(content)


def videos_file(folder: Path) -> None:
    (folder / "videos").touch()


def empty_video(folder: Path) -> None:
    put_video(folder, "tabletop-0000.mp4")


def no_video(folder: Path) -> None:
    put_video(folder, "tabletop-0000.mp4", b"not a film")


def video_folder(folder: Path) -> None:
    (folder / "videos" / "tabletop-0000.mp4").mkdir(parents=True)


def sound_file(folder: Path) -> None:
    """A container without pictures."""
    import av

    put_video(folder, "tabletop-0000.avi")
    with av.open(folder / "videos" / "tabletop-0000.avi", "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        container.mux(stream.encode(frame))


def unknown_codec(folder: Path) -> None:
    put_video(folder, "tabletop-0000.mp4")
    film = folder / "videos" / "tabletop-0000.mp4"
    write_video(film, np.zeros((8, 32, 32, 3), np.uint8), fps=8)
    film.write_bytes(film.read_bytes().replace(b"avc1", b"zzzz"))


def cut_video(folder: Path) -> None:
    """Half of a Matroska file, which announces its length at its head."""
    import av

    put_video(folder, "tabletop-0000.mkv")
    whole = folder / "videos" / "tabletop-0000.mkv"
    frames = np.random.default_rng(0).integers(0, 255, (40, 32, 32, 3), dtype=np.uint8)
    write_video(folder / "whole.mp4", frames, fps=8)
    with av.open(folder / "whole.mp4") as source, av.open(whole, "w", format="matroska") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut_features, "rows.npy"),
        (flip_a_bit, "fingerprint"),
        (leak, "under train and again under test"),
        (spoil_truth, "truth.jsonl:5.*sum to 1.5"),
        (repeat_truth, "gives 1 window twice: tabletop-0000 step 0 T=1"),
        (repeat_truth_of_unknown_length, "gives 1 window twice: tabletop-"),
        (spoil_steps, r"^steps\.csv:\d+: the end 3.0 is before the start 9.0, expected start <= end$"),
        (unknown_step, "dance"),
        (spoil_card, "dataset.yaml"),
        (huge_rate, "`features_per_second` is 1000"),
        (swap_features, "replaced"),
        (lose_features, "names state features"),
        (break_link("features"), "index.json is missing"),
        (break_link("language.npz"), "language.npz"),
        (break_link("split.json"), "split.json"),
        (break_link("truth.jsonl"), "truth.jsonl"),
        (break_link("dataset.yaml"), "dataset.yaml"),
        (break_link("videos"), "videos is a file or a broken link"),
        (stranger_in_split, "zebra"),
        (unreadable_truth, "truth.jsonl:1"),
        (truth_folder, "truth.jsonl is a folder"),
        (videos_file, "videos is a file"),
        (empty_video, "1 empty file: tabletop-0000.mp4"),
        (no_video, r"tabletop-0000.mp4: cannot be read \(Invalid data found when processing input\)$"),
        (video_folder, "folders or broken links: tabletop-0000.mp4"),
        (sound_file, r"tabletop-0000.avi: no video stream"),
        (unknown_codec, r"tabletop-0000.mp4: its video codec has no decoder here"),
        (cut_video, r"tabletop-0000.mkv: truncated: 5.0 s declared"),
    ],
)
def test_check_names_what_is_wrong(dataset: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(dataset)
    errors = [finding.message for finding in check_dataset(dataset) if finding.severity == "error"]
    assert len(errors) == 1
    assert re.search(message, errors[0])


def test_missing_parts_are_warnings(dataset: Path) -> None:
    for file in ("language.npz", "split.json", "truth.jsonl"):
        (dataset / file).unlink()
    (finding,) = check_dataset(dataset)
    assert finding.severity == "warning"
    assert "no language.npz" in finding.message


def test_a_folder_made_by_hand_lacks_only_features(tmp_path: Path) -> None:
    """`p3iv extract`, the next command, writes features, language.npz and dataset.yaml."""
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\na,tea,boil water,1,4\na,tea,pour water,5,9\n")
    few, finding = check_dataset(tmp_path)
    assert few.message == "1 video, but training needs 3: one each for train, val and test"
    assert (few.severity, finding.severity) == ("warning", "warning")
    assert finding.message == f"no features yet; make them with `p3iv extract {tmp_path}`"


def test_one_error_does_not_hide_another(dataset: Path) -> None:
    for spoil in (spoil_steps, leak, flip_a_bit, spoil_truth, spoil_card, break_link("language.npz"), empty_video):
        spoil(dataset)
    errors = [finding.message for finding in check_dataset(dataset) if finding.severity == "error"]
    for part in ("steps.csv", "split.json", "fingerprint", "truth.jsonl:5", "dataset.yaml", "language.npz", "empty"):
        assert sum(part in error for error in errors) == 1, part
    (dataset / "steps.csv").write_text("")
    errors = [finding.message for finding in check_dataset(dataset) if finding.severity == "error"]
    for part in ("steps.csv", "split.json", "fingerprint", "dataset.yaml", "language.npz", "empty"):
        assert sum(part in error for error in errors) == 1, part


def repeat_row(folder: Path) -> None:
    lines = (folder / "steps.csv").read_text().splitlines(keepends=True)
    (folder / "steps.csv").write_text("".join([*lines[:2], lines[1], *lines[2:]]))
    (folder / "truth.jsonl").unlink()


def scatter_rows(folder: Path) -> None:
    lines = (folder / "steps.csv").read_text().splitlines(keepends=True)
    (folder / "steps.csv").write_text("".join([lines[0], *lines[2:], lines[1]]))


def misspell(folder: Path) -> None:
    change_card(folder, simulate=True)


def lose_card(folder: Path) -> None:
    (folder / "dataset.yaml").unlink()


def outlast_features(folder: Path) -> None:
    """The first step of a video ends last, and after its features do."""
    lines = (folder / "steps.csv").read_text().splitlines(keepends=True)
    *cells, _ = lines[1].split(",")
    (folder / "steps.csv").write_text("".join([lines[0], ",".join([*cells, "9000\n"]), *lines[2:]]))


def strange_videos(folder: Path) -> None:
    frames = np.zeros((8, 32, 32, 3), np.uint8)
    for line in (folder / "steps.csv").read_text().splitlines()[1:]:
        path = folder / "videos" / f"{line.split(',')[0]}.mp4"
        if not path.exists():
            write_video(path, frames, fps=8)
    write_video(folder / "videos" / "zebra.mp4", frames, fps=8)


def wrong_suffix(folder: Path) -> None:
    strange_videos(folder)
    (folder / "videos" / "zebra.mp4").rename(folder / "videos" / "notes.txt")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (repeat_row, "1 video with the same step at the same time: tabletop-0000"),
        (scatter_rows, "rows of 1 video in several places.*tabletop-0000"),
        (misspell, "unknown keys.*: simulate"),
        (lose_card, "no dataset.yaml"),
        (outlast_features, "features of 1 video end before the last step: tabletop-0000"),
        (strange_videos, "1 file without steps: zebra.mp4; add their rows"),
        (wrong_suffix, "1 file with an ending other than .*: notes.txt"),
    ],
)
def test_what_may_be_intended_is_a_warning(dataset: Path, spoil: Callable[[Path], None], message: str) -> None:
    spoil(dataset)
    (finding,) = [finding for finding in check_dataset(dataset) if re.search(message, finding.message)]
    assert finding.severity == "warning"
