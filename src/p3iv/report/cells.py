"""A figure with its interval, as words and as a dot on a line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from p3iv.report.inputs import Leaf
from p3iv.report.markup import Markup, join, tag
from p3iv.report.svg import Frame, drawing, line

DASH = "\N{EN DASH}"  # between the ends of a range, and where there is nothing
_STRIP = 150.0


def percent(share: float) -> str:
    """A share in percent with one decimal, without the sign."""
    return f"{100 * share:.1f}"


def signed(share: float) -> str:
    """A difference of shares in percentage points."""
    return f"{100 * share:+.1f}".replace("-", "\N{MINUS SIGN}")


def nats(value: float) -> str:
    """Two decimals."""
    return f"{value:.2f}"


def figure(leaf: Leaf | None, show: Callable[[float], str], *, between: str = DASH) -> Markup:
    """A value and, smaller, its interval."""
    if leaf is None:
        return tag("span", DASH, class_="value")
    value = tag("span", _finite(leaf.value, show), class_="value")
    if leaf.low is None or leaf.high is None:
        return value
    return join(
        value, " ", tag("span", f"{_finite(leaf.low, show)}{between}{_finite(leaf.high, show)}", class_="interval")
    )


def interval_strip(leaf: Leaf | None, top: float, *, is_hollow: bool = False) -> Markup:
    """A share on a line from 0 to `top`."""
    if leaf is None or not math.isfinite(leaf.value):
        return join()
    low, high = (None if end is None else min(max(end, 0.0), top) for end in (leaf.low, leaf.high))
    label = f"{percent(leaf.value)} % on a scale to {percent(top)} %"
    return strip(Leaf(leaf.value, low, high), top, width=_STRIP, label=label, is_hollow=is_hollow)


def strip(
    leaf: Leaf,
    top: float,
    *,
    width: float,
    label: str,
    is_hollow: bool = False,
    hollows: Sequence[float] = (),
    ticks: Sequence[float] = (),
) -> Markup:
    """A value as a dot and its interval as a bar, on a line from 0 to `top`; other values hollow, or as ticks."""
    frame = Frame(4, 0, width - 8, 12, (0, top), (0, 1))
    low, high = (leaf.value if end is None else end for end in (leaf.low, leaf.high))
    return drawing(
        width,
        12.0,
        line(frame.left, 6, frame.right, 6, class_="rule"),
        line(frame.x(low), 6, frame.x(high), 6, class_="span"),
        *(tag("circle", cx=frame.x(value), cy=6, r=2.6, class_="hollow") for value in hollows),
        *(line(frame.x(value), 1, frame.x(value), 11, class_="tick-published") for value in ticks),
        tag("circle", cx=frame.x(leaf.value), cy=6, r=3, class_="hollow" if is_hollow else "dot"),
        label=label,
        class_="strip",
    )


def _finite(value: float, show: Callable[[float], str]) -> str:
    return show(value) if math.isfinite(value) else "∞"
