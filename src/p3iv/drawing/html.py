"""HTML and SVG that are safe by construction, and the frame of every page.

Text that is not markup is escaped, and every element that is opened is closed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files

from markupsafe import Markup, escape

_VOID = frozenset({"br", "img", "meta"})
# Control characters, halves of surrogate pairs (JSON can hold them, UTF-8 cannot) and marks that change the reading
# direction.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
# Videos may be played from files beside the page, by a relative path: nothing comes from another place.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src 'self' file:; base-uri 'none'; "
    "form-action 'none'"
)
_NOTICES = {
    "simulated": (
        "SIMULATED FEATURES",
        "The features of this dataset are computed from its annotations. The numbers on this page test the code; they "
        "say nothing about real videos.",
    ),
    "tabletop": (
        "TABLETOP",
        "Generated videos of nine procedures, whose true distribution of plans is known. The numbers on this page say "
        "how well the planner learns that world, not how well it would plan from real videos.",
    ),
}


def tag(name: str, /, *children: str, **attributes: object) -> Markup:
    """An element; `class_` gives the attribute class, `stroke_width` gives stroke-width, and None leaves one out.

    >>> print(tag("p", "1 < 2", tag("b", "yes"), class_="note"))
    <p class="note">1 &lt; 2<b>yes</b></p>
    """
    written = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _clean(_attribute(value)))
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup("<{}{}>").format(name, written)
    return Markup("<{}{}>{}</{}>").format(name, written, join(*children), name)


def join(*parts: str) -> Markup:
    """Parts one after another; those that are not markup are escaped."""
    return Markup("").join(map(_clean, parts))


def shorten(text: str, max_length: int) -> str:
    """Text on one line, cut to a number of characters."""
    text = " ".join(text.split())
    return text if len(text) <= max_length else f"{text[: max_length - 1].rstrip()}…"


def number(value: float) -> str:
    """A coordinate to a hundredth of a pixel: few bytes, and the same bytes on every machine."""
    return f"{round(value, 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def drawing(width: float, height: float, *children: str, label: str, class_: str | None = None) -> Markup:
    """A drawing that scales with its column, with a label for screen readers; they skip one without a label."""
    box = f"0 0 {number(width)} {number(height)}"
    said = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return tag("svg", *children, viewBox=box, width=width, height=height, **said, class_=class_)


def text(x: float, y: float, content: str, *, anchor: str = "start", class_: str | None = None) -> Markup:
    """One line of text; y is its baseline."""
    return tag("text", content, x=x, y=y, text_anchor=None if anchor == "start" else anchor, class_=class_)


def percent(share: float) -> str:
    """A share in percent with one decimal, without the sign."""
    return f"{100 * share:.1f}"


def style_sheet(name: str = "style.css") -> str:
    """The style that all pages and drawings share; dark.css has the dark colours of pages."""
    return files("p3iv.drawing").joinpath(name).read_text(encoding="utf-8")


def scrolling(content: Markup, label: str, *, hint: bool = True) -> Markup:
    """Content that scrolls sideways where it is wider than the page, also by keyboard.

    Args:
        content: a table or a drawing.
        label: what it is, for screen readers.
        hint: whether narrow pages say that it scrolls.
    """
    said = tag("p", "Swipe or scroll sideways to see all columns \N{RIGHTWARDS ARROW}", class_="scroll-hint")
    region = tag("div", content, class_="scroll", tabindex=0, role="region", aria_label=label)
    return join(said, region) if hint else region


def slug(title: str) -> str:
    """A title as the id of an element: By procedure -> by-procedure."""
    return "-".join(re.findall(r"[a-z0-9]+", title.lower()))


def contents(titles: Sequence[str]) -> Markup:
    """Links to the sections with these titles."""
    links = [tag("li", tag("a", title, href=f"#{slug(title)}")) for title in titles]
    return tag("nav", tag("ol", *links), class_="contents", aria_label="Contents")


def document(title: str, *parts: Markup, style: str = "") -> str:
    """A page in one file that loads nothing from outside; `style` is added to that of all pages."""
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", title),
    )
    styles = f"{style_sheet()}{style_sheet('dark.css')}{style}"
    body = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", tag("body", tag("main", *parts)))
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}<style>{styles}</style></head>{body}</html>\n'


def standalone_svg(drawing: Markup, *, title: str = "", about: str = "") -> str:
    """A drawing as an SVG file of its own, with its style, title and description."""
    opening, rest = str(drawing).split(">", 1)
    said = "".join(tag(name, text) for name, text in (("title", title), ("desc", about)) if text)
    # Escaped by construction; the style contains no `]]>`.
    return f'{opening} xmlns="http://www.w3.org/2000/svg">{said}<style><![CDATA[{style_sheet()}]]></style>{rest}\n'


def notices(label: str) -> Markup:
    """What must be said beside any number on data with this label."""
    shown = (notice for word, notice in _NOTICES.items() if word in label.lower())
    return join(*(tag("p", tag("strong", name), " ", meaning, class_="notice") for name, meaning in shown))


def _clean(text: str) -> Markup:
    """Text as markup, without the characters that a page must not hold."""
    return text if isinstance(text, Markup) else escape(_FORBIDDEN.sub("\ufffd", text))


def _attribute(value: object) -> str:
    return number(value) if isinstance(value, float) else str(value)
