"""A figure with its interval, as words and as a dot on a line."""

from __future__ import annotations

import math
from collections.abc import Callable

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
    """A share as a dot and its interval as a bar, on a line from 0 to `top`."""
    if leaf is None or not math.isfinite(leaf.value):
        return join()
    frame = Frame(4, 0, _STRIP - 8, 10, (0, top), (0, 1))
    low, high = (leaf.value if end is None else min(max(end, 0.0), top) for end in (leaf.low, leaf.high))
    return drawing(
        _STRIP,
        10.0,
        line(frame.left, 5, frame.right, 5, class_="rule"),
        line(frame.x(low), 5, frame.x(high), 5, class_="span"),
        tag("circle", cx=frame.x(leaf.value), cy=5, r=3, class_="hollow" if is_hollow else "dot"),
        label=f"{percent(leaf.value)} % on a scale to {percent(top)} %",
        class_="strip",
    )


def _finite(value: float, show: Callable[[float], str]) -> str:
    return show(value) if math.isfinite(value) else "∞"
