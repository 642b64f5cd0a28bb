"""A folder of four short videos and their steps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clips import write_clip
from p3iv.extraction.extract import extract_features
from p3iv.extraction.request import ExtractionReport, ExtractionRequest

LENGTHS_S = {"tea one": 5, "tée": 4, "v3": 6, "v4": 5}
STEPS = "video,task,step,start_s,end_s\n" + "".join(
    f"{video},tea,boil water,0.5,1.5\n{video},tea,pour,1.5,2.5\n{video},tea,stir,2.5,{length - 0.5}\n"
    for video, length in LENGTHS_S.items()
)


def extract(folder: Path, **options: object) -> ExtractionReport:
    request = ExtractionRequest(folder, **{"text_encoder": "keep", **options})  # type: ignore[arg-type]
    return extract_features(request)


@pytest.fixture(scope="session")
def kitchen_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source") / "kitchen"
    (folder / "videos").mkdir(parents=True)
    (folder / "steps.csv").write_text(STEPS, encoding="utf-8")
    for number, (video, length_s) in enumerate(LENGTHS_S.items()):
        times_ms = [200 * frame for frame in range(5 * length_s)]
        write_clip(folder / "videos" / f"{video}.mp4", times_ms, options={"g": "5"}, size=(128, 96 + 16 * number))
    return folder


@pytest.fixture
def kitchen(tmp_path: Path, kitchen_source: Path) -> Path:
    """A copy to work in."""
    return Path(shutil.copytree(kitchen_source, tmp_path / "kitchen"))
