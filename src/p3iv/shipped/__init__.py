"""What comes with p3iv: planners that need no training and no download, each with clips to plan between.

Every folder here is a planner, `tools/make_tabletop_demo.py` makes it, and `clips.json` describes the clips beside it.
`steps/` has a picture of every step that the planner knows. A file or folder of the user that has the same name comes
first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from p3iv.errors import PlanError

FOLDER = Path(__file__).parent
CLIPS_FILE = "clips.json"
STEPS_FOLDER = "steps"
SHIPPED = ("tabletop-demo",)


@dataclass(frozen=True)
class ShippedClip:
    """A clip that the planner beside it was not trained on, and two moments of it to plan between."""

    planner: str
    file: str
    length_s: int
    task: str
    start_s: int
    goal_s: int
    steps: tuple[str, ...]  # in the clip, between the two moments

    @property
    def path(self) -> Path:
        return FOLDER / self.planner / self.file

    @property
    def start(self) -> str:
        """The first moment as one types it."""
        return f"{self.planner}/{self.file}@{self.start_s}"

    @property
    def goal(self) -> str:
        """The second moment as one types it."""
        return f"{self.planner}/{self.file}@{self.goal_s}"

    @property
    def command(self) -> str:
        """The command that plans between the two moments."""
        return f"p3iv plan {self.planner} --start {self.start} --goal {self.goal}"


def shipped_planner(name: str | Path) -> Path | None:
    """The folder of a planner that comes with p3iv; None if it has no such planner, or the user has such a file.

    Example:
        >>> shipped_planner("runs/first") is None
        True
    """
    return FOLDER / name if str(name) in SHIPPED and not Path(name).exists() else None


def shipped_clips(planner: str) -> tuple[ShippedClip, ...]:
    """The clips of a planner that comes with p3iv; the first is its example."""
    content = json.loads((FOLDER / planner / CLIPS_FILE).read_text(encoding="utf-8"))
    return tuple(ShippedClip(planner=planner, **{**clip, "steps": tuple(clip["steps"])}) for clip in content)


def step_picture_name(index: int) -> str:
    """The file of the picture of a step; steps are numbered as in the planner's `names`.

    >>> step_picture_name(7)
    '07.jpg'
    """
    return f"{index:02d}.jpg"


def shipped_step_picture(planner: str, index: int) -> Path | None:
    """A picture of a step of a planner that comes with p3iv, (160, 160) as JPEG; None if there is none."""
    path = FOLDER / planner / STEPS_FOLDER / step_picture_name(index)
    return path if planner in SHIPPED and path.is_file() else None


def shipped_clip(text: str) -> Path | None:
    """The clip that a path such as `tabletop-demo/tea.mp4` names; None for other paths and for files of the user.

    Raises:
        PlanError: the planner has no such clip.
    """
    planner, *rest = Path(text).parts or ("",)
    if planner not in SHIPPED or not rest or Path(planner).exists():
        return None
    file = "/".join(rest)
    clips = {clip.file: clip for clip in shipped_clips(planner)}
    if file not in clips:
        raise PlanError(f"{planner} has no clip {file}; its clips are {' and '.join(clips)}.")
    return clips[file].path
