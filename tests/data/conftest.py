"""A folder of one's own with all parts, for the tests to import."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

STEPS = """video,task,step,start_s,end_s,cook
a,tea,boil,0,2,ann
a,tea,pour,3,4,bob
b,tea,boil,1,2,ann
b,tea,stir,5,6,ann
c,tea,boil,0,1,bob
c,tea,pour,2,9,bob
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    (folder / "steps.csv").write_text(STEPS)
    np.savez(folder / "language.npz", step=np.array(["stir", "boil", "pour", "rest"]), embedding=np.eye(4, 6))
    (folder / "split.json").write_text(json.dumps({"train": ["a", "b"], "test": ["c"]}))
    (folder / "features").mkdir()
    (folder / "videos").mkdir()
    for number, video in enumerate("abc"):
        np.save(folder / "features" / f"{video}.npy", np.full((10, 5), number, np.float32))
        (folder / "videos" / f"{video}.MP4").write_bytes(b"film " + video.encode())
    return folder
