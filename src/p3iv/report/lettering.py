"""How wide a text will be in a browser whose fonts nobody knows, and how it is broken into lines that fit."""

from __future__ import annotations

import unicodedata

# In em, of DejaVu Sans, the widest face that a system falls back to: in any other the same text leaves some room.
_WIDTHS = {
    **dict.fromkeys("ijl'|!.,:; I", 0.34),
    **dict.fromkeys('frt-()[]/"', 0.44),
    **dict.fromkeys("mwMW%@", 1.0),
    **dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&", 0.77),
}
_USUAL, _WIDE = 0.64, 1.1
_BOLD = 1.13
ELLIPSIS = "…"


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """An upper bound in pixels of a text set at a font size."""
    return sum(map(_char_width, text)) * size * (_BOLD if bold else 1.0)


def wrap_text(text: str, width: float, size: float, *, most_lines: int = 2, bold: bool = False) -> list[str]:
    """Lines that are no wider than `width`; what finds no room ends in an ellipsis."""
    words = _break_words(text.split(), width, size, bold=bold)
    lines: list[str] = []
    for word in words:
        if lines and text_width(f"{lines[-1]} {word}", size, bold=bold) <= width:
            lines[-1] = f"{lines[-1]} {word}"
        elif len(lines) == most_lines:
            return [*lines[:-1], _cut(f"{lines[-1]} {word}", width, size, bold=bold)]
        else:
            lines.append(word)
    return lines or [""]


def _break_words(words: list[str], width: float, size: float, *, bold: bool) -> list[str]:
    """Words, those that are wider than a line in pieces."""
    pieces = []
    for word in words:
        piece = ""
        for char in word:
            if piece and text_width(piece + char, size, bold=bold) > width:
                pieces.append(piece)
                piece = ""
            piece += char
        pieces.append(piece)
    return pieces


def _cut(text: str, width: float, size: float, *, bold: bool) -> str:
    while text and text_width(text + ELLIPSIS, size, bold=bold) > width:
        text = text[:-1]
    return text.rstrip() + ELLIPSIS


def _char_width(char: str) -> float:
    if unicodedata.combining(char):
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return _WIDE
    return _WIDTHS.get(char, _USUAL)
