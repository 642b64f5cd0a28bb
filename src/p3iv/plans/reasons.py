"""Why a plan is as probable as it is, in words: what every source adds to its log probability at every step.

    log p(plan) = sum over steps and sources of addends + length + conditions + normaliser

The sources are the evidence (start, goal, history, words, procedure), the prior (what a planner says without evidence),
the transitions into a step, and the effects that rescore a plan. An addend is relative to an average alternative of the
step: above 0 it speaks for the step, below 0 against it. `plans.explaining` computes them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any
from unicodedata import combining, east_asian_width

from pydantic import Strict, TypeAdapter, ValidationError

from p3iv.errors import PlanError, one_of
from p3iv.validation import PlainText, explain, shown

EVIDENCE = ("start", "goal", "history", "words", "procedure")  # what a query may have
SOURCES = ("prior", *EVIDENCE, "transitions", "effects")  # of the addends of a step, in the order of tables
UNITS = "In nats, against an average other step at the same place: +0.7 is twice as probable, -0.7 half."

_PLURALS = ("words", "transitions", "effects")
_MIN_NAMED = math.log(2)  # nats with which a source is said to speak against a plan: it halves its probability
_STEP_WIDTH = 18  # of the first column of a table, at least
_TOLERANCE = 1e-6  # of sums, relative to the largest addend where that is more than 1

Number = Annotated[float, Strict()]  # in JSON, neither a text nor true


@dataclass(frozen=True)
class Example:
    """A moment of the training videos that resembles a step."""

    video: PlainText
    second: Number
    distance: Number | None = None  # of its features

    def __post_init__(self) -> None:
        if not all(math.isfinite(value) and value >= 0 for value in (self.second, self.distance or 0.0)):
            raise PlanError("The second and the distance of an example must be numbers from 0.")


@dataclass(frozen=True)
class StepReasons:
    """What each source says for one step of a plan."""

    step: PlainText
    addends: Mapping[str, Number] = field(hash=False)  # in nats, of some of SOURCES
    examples: tuple[Example, ...] = ()  # nearest first

    def __post_init__(self) -> None:
        if unknown := [source for source in self.addends if source not in SOURCES]:
            raise PlanError(f"{shown(unknown[0])} is not a source of reasons: it must be {one_of(unknown[0], SOURCES)}")


@dataclass(frozen=True)
class Change:
    """The cheapest change of one piece of evidence with which another plan becomes the most probable one."""

    source: PlainText
    step: Annotated[int, Strict()] | None  # position from 1; None: at all steps
    factor: Number  # how much the source would count, from 0 (not at all) to 2 (twice)
    nats: Number  # by which the other plan is now less probable
    plan: tuple[PlainText, ...]  # the other plan

    def __post_init__(self) -> None:
        if self.source not in SOURCES:
            raise PlanError(f"{shown(self.source)} is not a source: it must be {one_of(self.source, SOURCES)}")
        if not (0 <= self.factor <= 2 and 0 <= self.nats < math.inf):
            raise PlanError("The factor of a change must be from 0 to 2, and its nats a number from 0.")
        if self.step is not None and not 1 <= self.step <= len(self.plan):
            raise PlanError(f"step={shown(self.step)} of a change, but it must be a position in its plan.")

    def to_text(self) -> str:
        """The change as a sentence.

        Example:
            >>> Change("goal", 2, 0.8, 1.2, ("boil", "stir")).to_text()
            'If the goal counted 20 % less at step 2, the plan would be: boil -> stir.'
        """
        place = "" if self.step is None else f" at step {self.step}"
        # Rounded up, so that the other plan is the most probable one by then; but 20 %, not 21, for 1 - 0.8.
        percent = max(1, math.ceil(100 * abs(1 - self.factor) - 1e-6))
        counted = f"counted {percent} % {'less' if self.factor <= 1 else 'more'}"
        if percent == 100:
            counted = "did not count" if self.factor < 1 else "counted twice"
        return f"If {_noun(self.source)} {counted}{place}, the plan would be: {' -> '.join(self.plan)}."


@dataclass(frozen=True)
class PlanReasons:
    """Why a plan is as probable as it is; all addends, length, conditions and normaliser sum to `log_probability`.

    Example:
        >>> steps = StepReasons("boil", {"goal": 2.0}), StepReasons("pour", {"goal": 0.5})
        >>> reasons = PlanReasons(steps, length=0.0, conditions=0.0, normaliser=-3.0, log_probability=-0.5)
        >>> reasons.plan, reasons.totals
        (('boil', 'pour'), {'goal': 2.5})
    """

    steps: tuple[StepReasons, ...]  # all with addends of the same sources
    length: Number  # log p(T); 0 for a fixed length
    conditions: Number  # minus the log of the share of plans that satisfy the conditions; 0 without
    normaliser: Number  # all that does not depend on a source: minus log Z, and what the alternatives have
    log_probability: Number
    change: Change | None = None  # of the recommended plan, if there is one

    def __post_init__(self) -> None:
        parts = self._parts()
        if not self.steps or any(step.addends.keys() != self.steps[0].addends.keys() for step in self.steps):
            raise PlanError("Reasons need at least one step, and addends of the same sources for each.")
        if not all(map(math.isfinite, (*parts, self.log_probability))):
            raise PlanError("The addends of reasons must be finite numbers.")
        tolerance = _TOLERANCE * max(1.0, *map(abs, parts))
        if abs(math.fsum(parts) - self.log_probability) > tolerance or self.log_probability > tolerance:
            raise PlanError(
                f"The addends of these reasons sum to {math.fsum(parts):.6g}, but the log probability is "
                f"{self.log_probability:.6g}: they must be equal, and at most 0."
            )

    @property
    def plan(self) -> tuple[str, ...]:
        """The plan that is explained."""
        return tuple(step.step for step in self.steps)

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of the addends, in the order of SOURCES."""
        return tuple(source for source in SOURCES if source in self.steps[0].addends)

    @property
    def totals(self) -> dict[str, float]:
        """What each source adds over all steps."""
        return {source: math.fsum(step.addends[source] for step in self.steps) for source in self.sources}

    def with_examples(self, examples: Sequence[Sequence[Example]]) -> PlanReasons:
        """The same reasons with the nearest training moments of every step."""
        steps = zip(self.steps, examples, strict=True)
        return replace(self, steps=tuple(replace(step, examples=tuple(found)) for step, found in steps))

    def headline(self) -> str:
        """What matters most, in a sentence or two.

        Example:
            >>> steps = (StepReasons("pour", {"goal": 2.0, "start": 0.5, "history": -0.9}),)
            >>> PlanReasons(steps, 0.0, 0.0, -2.0, -0.4).headline()
            'Mostly the goal (+2.0) speaks for this plan. The history (-0.9) speaks against it.'
        """
        ranked = sorted(self.totals.items(), key=lambda item: -item[1])
        best = ranked[0][1] if ranked else 0.0
        speaking = [item for item in ranked if item[1] >= max(best / 2, 0.05)][:3]
        against = [item for item in reversed(ranked) if item[1] <= -_MIN_NAMED][:2]
        first = f"Mostly {_listed(speaking)} for this plan." if speaking else "No source speaks for this plan."
        second = f"{_listed(against)} against it." if against else ""
        return f"{first} {second[:1].upper()}{second[1:]}".strip()

    def to_text(self, width: int = 80) -> str:
        """What matters most, a table of all addends, and the cheapest change, as `p3iv plan --why` prints it.

        Example:
            >>> steps = StepReasons("boil", {"goal": 2.0}), StepReasons("pour", {"goal": 0.5})
            >>> print(PlanReasons(steps, length=0.0, conditions=0.0, normaliser=-3.0, log_probability=-0.5).to_text())
            Mostly the goal (+2.5) speaks for this plan.
            <BLANKLINE>
              step       goal   sum
              1. boil    +2.0  +2.0
              2. pour    +0.5  +0.5
              all steps  +2.5  +2.5
            <BLANKLINE>
            In nats, against an average other step at the same place: +0.7 is twice as
            probable, -0.7 half.
            Sum +2.5, normaliser -3.0: log probability -0.5.
        """
        notes = [UNITS, self._summed(), *self._shown_examples(), *([self.change.to_text()] if self.change else [])]
        first, *rest = (textwrap.fill(text, width) for text in (self.headline(), *notes))
        return "\n".join([first, "", *self._table(width), "", *rest])

    def to_svg(self) -> str:
        """The addends of every step as bars, as the content of an SVG file.

        Example:
            >>> PlanReasons((StepReasons("pour", {"goal": 2.0}),), 0.0, 0.0, -2.5, -0.5).to_svg().startswith("<svg")
            True
        """
        from p3iv.drawing.html import standalone_svg
        from p3iv.drawing.reasons_drawing import draw_reasons

        rows = [(step.step, {source: step.addends[source] for source in self._columns()}) for step in self.steps]
        notes = [self.change.to_text()] if self.change else []
        picture = draw_reasons(rows, self.headline(), notes=notes, footnotes=[UNITS, self._summed()])
        return standalone_svg(picture, title=f"Why this plan: {', then '.join(self.plan)}", about=self.headline())

    def to_dict(self) -> dict[str, Any]:
        """The fields of the JSON of `p3iv plan --why`; `from_dict` reads them back to equal reasons.

        Example:
            >>> reasons = PlanReasons((StepReasons("pour", {"goal": 2.0}),), 0.0, 0.0, -2.5, -0.5)
            >>> reasons.to_dict()["steps"]
            [{'step': 'pour', 'addends': {'goal': 2.0}}]
        """
        sums = {name: getattr(self, name) for name in ("length", "conditions", "normaliser", "log_probability")}
        change = {} if self.change is None else {"change": {**vars(self.change), "plan": list(self.change.plan)}}
        return {"steps": [_step_dict(step) for step in self.steps], **sums, **change}

    @classmethod
    def from_dict(cls, content: Any) -> PlanReasons:
        """Read the output of `to_dict`.

        Example:
            >>> reasons = PlanReasons((StepReasons("pour", {"goal": 2.0}),), 0.0, 0.0, -2.5, -0.5)
            >>> PlanReasons.from_dict(reasons.to_dict()) == reasons
            True
        """
        try:
            return TypeAdapter(cls).validate_python(content)
        except ValidationError as error:
            raise PlanError(f"These are not reasons as `to_dict` makes them: {explain(error)}.") from error

    def _parts(self) -> list[float]:
        """Everything that sums to the log probability."""
        addends = [value for step in self.steps for value in step.addends.values()]
        return [*addends, self.length, self.conditions, self.normaliser]

    def _columns(self) -> list[str]:
        """The sources that say something."""
        return [source for source in self.sources if any(step.addends[source] for step in self.steps)]

    def _summed(self) -> str:
        """How the sum of the table becomes the log probability."""
        plan = {"length": self.length, "conditions": self.conditions}
        further = [f"{name} {_signed(value)}" for name, value in plan.items() if value]
        parts = [f"Sum {_signed(sum(self.totals.values()))}", *further, f"normaliser {_signed(self.normaliser)}"]
        return f"{', '.join(parts)}: log probability {_signed(self.log_probability)}."

    def _shown_examples(self) -> list[str]:
        return [
            f"Step {number} resembles {', '.join(f'{each.video} at {each.second:.0f} s' for each in step.examples)}."
            for number, step in enumerate(self.steps, start=1)
            if step.examples
        ]

    def _table(self, width: int) -> list[str]:
        """The addends of every step and their sums."""
        columns = self._columns()
        named = [(f"{number}. {step.step}", step.addends) for number, step in enumerate(self.steps, start=1)]
        if len(self.steps) > 1:
            named.append(("all steps", self.totals))
        values = [(name, [addends[source] for source in columns]) for name, addends in named]
        rows = [(name, [*map(_signed, row), _signed(math.fsum(row))]) for name, row in values]
        return _aligned([("step", [*columns, "sum"]), *rows], width)


def _step_dict(step: StepReasons) -> dict[str, Any]:
    examples = [{key: value for key, value in vars(each).items() if value is not None} for each in step.examples]
    return {"step": step.step, "addends": dict(step.addends), **({"examples": examples} if examples else {})}


def _noun(source: str) -> str:
    return source if source in ("transitions", "effects") else f"the {source}"


def _listed(items: Sequence[tuple[str, float]]) -> str:
    """The goal (+2.0) and transitions (+1.2) speak."""
    named = [f"{_noun(source)} ({_signed(value)})" for source, value in items]
    verb = "speak" if len(items) > 1 or items[0][0] in _PLURALS else "speaks"
    return f"{', '.join(named[:-1])} and {named[-1]} {verb}" if len(named) > 1 else f"{named[0]} {verb}"


def _signed(value: float) -> str:
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def _aligned(rows: Sequence[tuple[str, list[str]]], width: int) -> list[str]:
    """A table of names and numbers in lines of a terminal; long names take up to three lines."""
    widths = [max(map(len, column)) for column in zip(*(cells for _, cells in rows), strict=True)]
    room = max(_STEP_WIDTH, width - 2 - sum(widths) - 2 * len(widths))
    names = [_wrapped(name, room) for name, _ in rows]
    room = max(_terminal_width(line) for lines in names for line in lines)
    table = []
    for (first, *more), (_, cells) in zip(names, rows, strict=True):
        numbers = (f"  {cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
        table.append(f"  {first}{' ' * (room - _terminal_width(first))}{''.join(numbers)}")
        table += [f"  {line}" for line in more]
    return table


def _wrapped(name: str, width: int) -> list[str]:
    """A name in lines; wide characters take two columns, so half of them fit."""
    room = width if _terminal_width(name) <= len(name) else width // 2
    return textwrap.wrap(name, room, subsequent_indent="   ", max_lines=3, placeholder="...") or [""]


def _terminal_width(text: str) -> int:
    """The columns that a text takes on a terminal: two for a Chinese character, none for an accent."""
    return sum(0 if combining(letter) else 1 + (east_asian_width(letter) in "WF") for letter in text)
