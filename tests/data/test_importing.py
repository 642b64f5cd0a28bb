from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from p3iv.data import importing
from p3iv.data.folder import DatasetCard, open_dataset
from p3iv.data.importing import ImportRequest, import_dataset
from p3iv.errors import ConfigError, DatasetError, SourceError, SplitError
from p3iv.types import Problem


def request(source: Path) -> ImportRequest:
    return ImportRequest("folder", source, source.parent / "dataset")


def test_a_folder_brings_all_its_parts(source: Path) -> None:
    report = import_dataset(request(source))
    dataset = open_dataset(source.parent / "dataset")
    assert report.problems == ()
    assert dataset.vocabulary.names == ("stir", "boil", "pour", "rest")
    assert dataset.language is not None
    assert dataset.language.argmax(axis=1).tolist() == [0, 1, 2, 3]
    assert dataset.features is not None
    assert dataset.features.rows("b").tolist() == [[1.0] * 5] * 10
    assert dataset.split is not None
    assert dataset.split.test == ("c",)
    assert dataset.videos[0].steps[1].extra == (("cook", "bob"),)
    assert (dataset.folder / "videos" / "b.mp4").read_bytes() == b"film b"


def test_importing_a_dataset_folder_again_changes_nothing(source: Path, tmp_path: Path) -> None:
    import_dataset(request(source))
    first, second = tmp_path / "dataset", tmp_path / "again"
    report = import_dataset(ImportRequest("folder", first, second))
    assert report.problems == ()
    for name in ("steps.csv", "split.json", "language.npz", "features/rows.npy", "features/index.json", "dataset.yaml"):
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_problems_are_listed_and_strict_refuses_with_nothing_left(source: Path) -> None:
    (source / "features" / "b.npy").write_bytes(b"not numpy")
    (source / "videos" / "c.MP4").unlink()
    with (source / "steps.csv").open("a") as lines:
        lines.write("c,tea,stir,5,nan,bob\n")
    with pytest.raises(SourceError, match=r"(?s)3 problems, so nothing was written.*steps.csv:8"):
        import_dataset(replace(request(source), strict=True))
    assert sorted(path.name for path in source.parent.iterdir()) == ["source"]
    report = import_dataset(request(source))
    listed = "\n".join(map(str, report.problems))
    assert len(report.problems) == 3
    assert all(part in listed for part in ("steps.csv:8", "b.npy", "no file c"))


def test_an_import_that_dies_leaves_nothing_and_keeps_what_was_there(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_dataset(request(source))
    before = (source.parent / "dataset" / "steps.csv").read_bytes()

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(importing, "write_steps", die)
    with pytest.raises(KeyboardInterrupt):
        import_dataset(replace(request(source), overwrite=True))
    assert sorted(path.name for path in source.parent.iterdir()) == ["dataset", "source"]
    assert (source.parent / "dataset" / "steps.csv").read_bytes() == before


def test_a_folder_is_not_overwritten_unless_asked(source: Path) -> None:
    import_dataset(request(source))
    with pytest.raises(DatasetError, match="--overwrite"):
        import_dataset(request(source))
    import_dataset(replace(request(source), overwrite=True))


def test_options_that_do_not_fit_say_so(source: Path) -> None:
    with pytest.raises(ConfigError, match="--keep-tasks-apart is for crosstask, not for folder"):
        import_dataset(replace(request(source), keep_tasks_apart=True))
    with pytest.raises(SourceError, match="not a folder"):
        import_dataset(replace(request(source), videos=source / "nowhere"))


def test_a_release_split_that_cannot_be_used_is_left_out_and_one_asked_for_is_an_error(tmp_path: Path) -> None:
    entry = {"class": "Tea", "subset": "training", "annotation": [{"id": "1", "label": "boil", "segment": [0, 1]}]}
    (tmp_path / "COIN.json").write_text(json.dumps({"database": dict.fromkeys("abc", entry)}))
    ask = ImportRequest("coin", tmp_path / "COIN.json", tmp_path / "coin")
    (problem,) = import_dataset(ask).problems
    assert problem.done == "split left out"
    assert problem.what == (
        "The split leaves 3 training videos and 0 test videos of this dataset's 3, but each side needs at least one"
    )
    assert open_dataset(tmp_path / "coin").split is None
    (tmp_path / "split.json").write_text(json.dumps({"train": ["a"], "test": ["A"]}))
    with pytest.raises(SplitError, match="It names A, but the dataset has a, b, c"):
        import_dataset(replace(ask, split=tmp_path / "split.json", overwrite=True))


def test_the_ids_of_a_release_survive_so_that_its_own_table_fits_again(tmp_path: Path) -> None:
    rows = [{"id": str(i), "label": label, "segment": [i, i + 1]} for i, label in enumerate(("cut", "cut", "stir"))]
    entry = {"class": "Tea", "subset": "training", "annotation": rows}
    (tmp_path / "COIN.json").write_text(json.dumps({"database": {"a": entry}}))
    table = tmp_path / "table.npz"
    np.savez(
        table, step=np.array(["cut", "cut", "stir", "cut"]), step_id=np.arange(4), embedding=np.eye(4)[[0, 0, 1, 2]]
    )
    import_dataset(ImportRequest("coin", tmp_path / "COIN.json", tmp_path / "coin", language=table))
    first = open_dataset(tmp_path / "coin")
    assert [(a.name, a.id) for a in first.vocabulary.actions] == [
        ("cut [0]", "0"),
        ("cut [1]", "1"),
        ("stir", "2"),
        ("cut", "3"),
    ]
    for number, language in enumerate((table, None)):
        again = tmp_path / f"again{number}"
        import_dataset(ImportRequest("folder", tmp_path / "coin", again, language=language))
        assert open_dataset(again).vocabulary == first.vocabulary


def test_ids_of_a_table_that_counts_differently_are_not_matched(source: Path, tmp_path: Path) -> None:
    steps = np.array(["boil", "pour", "stir"])
    np.savez(source / "language.npz", step=steps, step_id=np.arange(3), embedding=np.eye(3))
    np.savez(tmp_path / "other.npz", step=steps[::-1], step_id=np.arange(3), embedding=np.eye(3))
    import_dataset(replace(request(source), language=tmp_path / "other.npz"))
    dataset = open_dataset(tmp_path / "dataset")
    assert dataset.language is not None
    assert dict(zip(dataset.vocabulary.names, dataset.language.argmax(axis=1).tolist(), strict=True)) == {
        "boil": 2,
        "pour": 1,
        "stir": 0,
    }


def test_the_card_is_written_last(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[list[str]] = []
    write = DatasetCard.write

    def note_and_write(card: DatasetCard, folder: Path) -> None:
        written.append(sorted(path.name for path in folder.iterdir()))
        write(card, folder)

    monkeypatch.setattr(DatasetCard, "write", note_and_write)
    import_dataset(request(source))
    assert written == [["features", "language.npz", "split.json", "steps.csv", "videos"]]


HEAD = "video,task,step,start_s,end_s\n"
STEPS = "a,tea,boil,0,1\na,tea,boil,2,3\na,tea,boil,4,5\nb,tea,boil,0,1\nb,tea,pour,2,3\n"


def line(video: str, first: int, *plan: str) -> str:
    return json.dumps({"video": video, "first_step": first, "horizon": len(plan), "plans": [[plan, 1.0]]}) + "\n"


TRUTH = line("a", 0, "boil", "boil") + line("a", 1, "boil", "boil") + line("b", 0, "boil", "pour")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "steps.csv").write_text(HEAD + STEPS)
    (folder / "truth.jsonl").write_text(TRUTH)
    return folder


def import_truth(folder: Path) -> tuple[list[str], tuple[Problem, ...]]:
    report = import_dataset(ImportRequest("folder", folder, folder.parent / "new", overwrite=True))
    return [window.video for window in open_dataset(folder.parent / "new").read_truth()], report.problems


def test_truth_that_fits_comes_in_as_it_is(mine: Path) -> None:
    assert import_truth(mine) == (["a", "a", "b"], ())
    assert (mine.parent / "new" / "truth.jsonl").read_text() == TRUTH


def test_truth_of_unknown_length_comes_in_as_it_is(mine: Path) -> None:
    plans = [[["boil", "pour"], 0.75], [["pour"], 0.25]]
    unknown = {"video": "b", "first_step": 0, "num_steps": 2, "horizons": [1, 6], "plans": plans}
    (mine / "truth.jsonl").write_text(TRUTH + json.dumps(unknown) + "\n")
    assert import_truth(mine) == (["a", "a", "b", "b"], ())


def test_a_video_that_lost_a_row_loses_its_truth_even_where_the_lines_seem_to_fit(mine: Path) -> None:
    (mine / "steps.csv").write_text(HEAD + "a,tea,boil,9,8\n" + STEPS)
    videos, problems = import_truth(mine)
    assert videos == ["b"]
    assert str(problems[-1]) == "truth.jsonl: 2 lines about other steps, of a; lines left out"


@pytest.mark.parametrize("row", [",tea,boil,0,1\n", '"a,tea,boil,0,1\n'])
def test_a_row_of_nobody_knows_which_video_costs_all_truth(mine: Path, row: str) -> None:
    (mine / "steps.csv").write_text(HEAD + STEPS + row)
    videos, problems = import_truth(mine)
    assert videos == []
    assert "3 lines" in str(problems[-1])


def test_lines_that_are_wrong_are_counted_and_named(mine: Path) -> None:
    with (mine / "truth.jsonl").open("ab") as lines:
        lines.write(line("a", 0, "pour").encode() + line("zebra", 0, "boil").encode() + b"\xff\n")
    videos, problems = import_truth(mine)
    assert videos == ["a", "a", "b"]
    assert [problem.what for problem in problems] == ["3 lines about other steps, of a, an unknown video, zebra"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "s3d"}, "--encoder has no effect without --features"),
        ({"simulated": True}, "--simulated has no effect without --features"),
        ({"text_encoder": "minilm"}, "--text-encoder has no effect without --language"),
        ({"rename": Path("rename.json")}, "--rename has no effect without --language"),
    ],
)
def test_options_about_parts_that_are_not_imported_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    (tmp_path / "steps.csv").write_text("video,task,step,start_s,end_s\na,tea,boil,1,4\n")
    with pytest.raises(ConfigError, match=message):
        import_dataset(ImportRequest("folder", tmp_path, tmp_path / "new", **options))
