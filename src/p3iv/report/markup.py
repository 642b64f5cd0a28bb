"""HTML and SVG, safe by construction: what is not markup is escaped, and every element that is opened is closed."""

from __future__ import annotations

import re
from html import escape as escape_html

_VOID = frozenset({"br", "img", "meta"})
# Controls, halves of surrogate pairs (JSON can spell them, UTF-8 cannot) and marks that turn the reading direction.
_STRANGE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


class Markup(str):
    """Text that may stand in a page as it is."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: object) -> Markup:
    """An element; `class_` gives the attribute class, `stroke_width` gives stroke-width, and None leaves one out.

    >>> tag("p", "1 < 2", tag("b", "yes"), class_="note")
    '<p class="note">1 &lt; 2<b>yes</b></p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{join(*children)}</{name}>")


def join(*parts: str) -> Markup:
    """Parts one after another; those that are not markup are escaped."""
    return Markup("".join(part if isinstance(part, Markup) else escape(part) for part in parts))


def escape(text: str) -> Markup:
    """Text as markup, without the characters that no page may hold."""
    return Markup(escape_html(_STRANGE.sub("\ufffd", text), quote=True))


def shorten(text: str, most: int) -> str:
    """Text on one line, cut to so many characters."""
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def number(value: float) -> str:
    """A coordinate to a hundredth of a pixel: few bytes, and the same ones everywhere."""
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def _value(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
