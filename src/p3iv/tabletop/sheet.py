"""A page of moments from the tabletop's videos, with captions, to see at a glance what they show."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from p3iv.atomic import whole_file
from p3iv.errors import ConfigError
from p3iv.tabletop.art.brush import Pixels
from p3iv.tabletop.render import render_frames
from p3iv.tabletop.script import FRAMES_PER_SECOND, Script, write_script

_CELL, _GAP, _CAPTION, _TITLE = 190, 10, 40, 30
_INK, _FAINT, _PAPER = (40, 40, 44), (120, 120, 126), (255, 255, 255)
_SHOWN = ("make coffee", "make a sandwich", "repot a plant", "send a card")
_PHASE = 0.58  # of a step: the hand is at work


def write_sheet(path: Path, *, seed: int = 0) -> None:
    """Draw the contact sheet into a .png or .jpg file."""
    formats = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
    if path.suffix.lower() not in formats:
        raise ConfigError(f"--sheet {path}, but it must end in {', '.join(formats)}.")
    page = contact_sheet(seed=seed)
    with whole_file(path) as beside:
        page.save(beside, format=formats[path.suffix.lower()], quality=88, optimize=True)


def contact_sheet(*, seed: int = 0, procedures: Sequence[str] = _SHOWN, columns: int = 7) -> Image.Image:
    """One row per procedure, from the first video of the dataset with this seed that shows it.

    A row begins with the table at the start and ends with the table at the end; between them are steps in order.
    """
    row = _TITLE + _CELL + _CAPTION
    size = (columns * (_CELL + _GAP) + _GAP, len(procedures) * row + _GAP)
    page = Image.new("RGB", size, _PAPER)
    for number, procedure in enumerate(procedures):
        scripts = (write_script(seed, index) for index in count())
        script = next(script for script in scripts if script.execution.procedure == procedure)
        _draw_row(page, script, columns, _GAP + number * row)
    return page


def _draw_row(page: Image.Image, script: Script, columns: int, top: int) -> None:
    pen = ImageDraw.Draw(page)
    pen.text((_GAP, top), script.execution.procedure, _INK, font=ImageFont.load_default(19))
    moments = _moments(script, columns)
    for column, (picture, (_, caption)) in enumerate(zip(_pictures(script, moments), moments, strict=True)):
        x, y = _GAP + column * (_CELL + _GAP), top + _TITLE
        page.paste(Image.fromarray(picture).resize((_CELL, _CELL), Image.Resampling.LANCZOS), (x, y))
        faint = column in (0, columns - 1)
        text = "\n".join(textwrap.wrap(caption, 28))
        pen.multiline_text(
            (x, y + _CELL + 3), text, _FAINT if faint else _INK, font=ImageFont.load_default(13), spacing=2
        )


def _moments(script: Script, columns: int) -> list[tuple[float, str]]:
    """Times in seconds with their captions."""
    steps = script.execution.steps
    chosen = [round(i * (len(steps) - 1) / (columns - 3)) for i in range(columns - 2)]
    acting = [(start + _PHASE * (end - start), steps[i]) for i in chosen for start, end in [script.times[i]]]
    return [(0.0, "before"), *acting, (script.length_s - 1 / FRAMES_PER_SECOND, "after")]


def _pictures(script: Script, moments: Sequence[tuple[float, str]]) -> list[Pixels]:
    """The frames of the video nearest to the moments."""
    wanted = [round(time_s * FRAMES_PER_SECOND) for time_s, _ in moments]
    frames = render_frames(script.execution, script.times, script.length_s, seed=script.seed)
    kept = {number: frame for number, frame in enumerate(frames) if number in set(wanted)}
    return [kept[number] for number in wanted]
