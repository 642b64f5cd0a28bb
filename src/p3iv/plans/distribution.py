"""The plans between one start and one goal, in words: what a user gets."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from p3iv.errors import PlanError
from p3iv.plans.reasons import PlanReasons
from p3iv.types import counted
from p3iv.validation import cut, shown

Steps = tuple[str, ...]  # a plan in words
SOURCES = ("chain", "samples")  # probabilities computed exactly by a chain, or shares of samples


@dataclass(frozen=True, repr=False)
class PlanDistribution:
    """The most probable plans between one start and one goal, in words.

    It can be iterated and printed, and a notebook shows it as a graph.

    Example:
        >>> plans = PlanDistribution((("boil", "pour"), ("pour", "boil")), (0.75, 0.25), "chain")
        >>> for steps, probability in plans:
        ...     print(f"{probability:.0%}", " -> ".join(steps))
        75% boil -> pour
        25% pour -> boil
    """

    plans: tuple[Steps, ...]  # distinct: the recommended plan, then the others, most probable first
    probabilities: tuple[float, ...]  # of each plan
    source: str  # of the probabilities, one of SOURCES
    samples: tuple[tuple[Steps, int], ...] = ()  # if asked for: distinct plans with their counts, most frequent first
    lengths: tuple[tuple[int, float], ...] = ()  # of plans of several lengths: number of steps, probability
    understood: tuple[str, ...] = ()  # how words were understood
    reasons: tuple[PlanReasons, ...] = ()  # if asked for, of every plan

    def __post_init__(self) -> None:
        sampled = [plan for plan, _ in self.samples]
        if len(self.plans) != len(self.probabilities) or not self.plans:
            raise PlanError("A plan distribution needs as many probabilities as plans, at least one.")
        allowed = {number for number, _ in self.lengths} or {len(self.plan)}
        if not {len(plan) for plan in (*self.plans, *sampled)} <= allowed:
            raise PlanError("The plans of a distribution must have the same number of steps, or one of its lengths.")
        if self.reasons and [each.plan for each in self.reasons] != list(self.plans):
            raise PlanError("The reasons of a distribution must be those of its plans, in their order.")
        if len(set(self.plans)) != len(self.plans) or len(set(sampled)) != len(sampled):
            raise PlanError("A plan distribution contains a plan twice.")
        if not all(0 <= probability <= 1 for probability in self.probabilities) or self.other_plans < -1e-6:
            raise PlanError("Probabilities of plans must be from 0 to 1 and sum to at most 1.")
        if any(type(count) is not int or count < 1 for _, count in self.samples):
            raise PlanError("Every count of samples must be a whole number from 1.")
        if self.source not in SOURCES:
            raise PlanError(f"source={shown(self.source)}, but it must be {' or '.join(SOURCES)}.")

    @property
    def plan(self) -> Steps:
        """The recommended plan."""
        return self.plans[0]

    @property
    def plan_probability(self) -> float:
        """The probability of the recommended plan."""
        return self.probabilities[0]

    @property
    def other_plans(self) -> float:
        """The joint probability of all plans that are not in the list."""
        return 1 - math.fsum(self.probabilities)

    @property
    def num_samples(self) -> int:
        """The number of samples, if some were asked for."""
        return sum(count for _, count in self.samples)

    def __iter__(self) -> Iterator[tuple[Steps, float]]:
        """The plans, the recommended one first, each with its probability."""
        return self.top(len(self.plans))

    def __len__(self) -> int:
        return len(self.plans)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        shown_plan = " -> ".join(self.plan)
        return f"<PlanDistribution of {counted(len(self), 'plan')}: {self.plan_probability:.1%} {cut(shown_plan)}>"

    def _repr_html_(self) -> str:
        """The plan graph, in a notebook; as a picture of its own, so that its style stays inside it."""
        picture = base64.b64encode(self.to_svg().encode()).decode()
        style, spoken = "max-width: 100%; background: white", escape(self.to_text())
        return f'<img src="data:image/svg+xml;base64,{picture}" alt="{spoken}" style="{style}">'

    def top(self, number: int = 5) -> Iterator[tuple[Steps, float]]:
        """The recommended plan and the next most probable ones, each with its probability.

        Example:
            >>> plans = PlanDistribution((("boil", "pour"), ("pour", "boil")), (0.75, 0.25), "chain")
            >>> list(plans.top(1))
            [(('boil', 'pour'), 0.75)]
        """
        return zip(self.plans[: max(0, number)], self.probabilities, strict=False)

    def to_text(self, top: int = 5) -> str:
        """The recommended plan, the `top` most probable plans and the most frequent samples, as `p3iv plan` prints.

        Example:
            >>> plans = PlanDistribution((("boil", "pour"), ("pour", "boil")), (0.75, 0.25), "chain")
            >>> print(plans.to_text())
            plan (probability 75.0 %):
              1. boil
              2. pour
            <BLANKLINE>
            most probable plans:
               75.0 %  boil -> pour
               25.0 %  pour -> boil
        """
        is_exact, share = self.source == "chain", as_percent(self.plan_probability)
        lines = [f"{text}\n" for text in self.understood]
        lines += [f"plan (probability {share}):" if is_exact else f"plan ({share} of the planner's samples):"]
        lines += [f"  {number}. {step}" for number, step in enumerate(self.plan, start=1)]
        if self.lengths:
            numbers = ", ".join(f"{number}: {as_percent(share)}" for number, share in self.lengths)
            lines += ["", f"number of steps: {numbers}"]
        lines += ["", "most probable plans:" if is_exact else "this plan, then the most frequent samples:"]
        lines += _listed(list(self.top(top)), rest=self.other_plans + sum(self.probabilities[top:]))
        if self.samples:
            shares = [(steps, count / self.num_samples) for steps, count in self.samples]
            distinct, samples = counted(len(shares), "distinct plan"), counted(self.num_samples, "sample")
            lines += ["", f"{distinct} in {samples}, the most frequent:"]
            lines += _listed(shares[:top], rest=sum(share for _, share in shares[top:]))
        if self.reasons:
            lines += ["", self.reasons[0].to_text()]
        return "\n".join(lines)

    def to_svg(self, *, vertical: bool = False) -> str:
        """The plans merged into one graph, as the content of an SVG file; from top to bottom for narrow screens.

        Of plans of several lengths, those with as many steps as the recommended one are drawn.

        Example:
            >>> plans = PlanDistribution((("boil", "pour"), ("pour", "boil")), (0.75, 0.25), "chain")
            >>> plans.to_svg().startswith("<svg")
            True
        """
        from p3iv.drawing.graph import merge_plans
        from p3iv.drawing.graph_drawing import HORIZONTAL, VERTICAL, draw_graph
        from p3iv.drawing.html import standalone_svg

        of_length = [(steps, share) for steps, share in self if len(steps) == len(self.plan)]
        graph = merge_plans(self.plan, of_length, total=1.0)
        number, rest = len(of_length) - graph.num_pruned_plans, graph.pruned
        drawn = f"{counted(number, 'plan')} {'is' if number == 1 else 'are'} drawn"
        caption = f"{drawn}; all others together: {as_percent(rest)}"
        style = VERTICAL if vertical else HORIZONTAL
        return standalone_svg(draw_graph(graph, style, caption=caption if rest >= 0.01 else ""))

    def to_dict(self) -> dict[str, Any]:
        """The fields of the JSON of `p3iv plan`; `from_dict` reads them back to an equal distribution.

        Example:
            >>> plans = PlanDistribution((("boil", "pour"), ("pour", "boil")), (0.75, 0.25), "chain")
            >>> plans.to_dict()["plan"]
            ['boil', 'pour']
        """
        more: dict[str, Any] = {
            "lengths": [{"steps": number, "probability": share} for number, share in self.lengths],
            "understood": list(self.understood),
            "why": [reasons.to_dict() for reasons in self.reasons],
        }
        return {
            "plan": list(self.plan),
            "plan_probability": self.plan_probability,
            "source": self.source,
            "plans": [{"steps": list(steps), "probability": share} for steps, share in self.top(len(self.plans))],
            "samples": [{"steps": list(steps), "count": count} for steps, count in self.samples],
            **{name: found for name, found in more.items() if found},
        }

    def to_json(self) -> str:
        """One JSON object; `from_json` reads it back to an equal distribution.

        Example:
            >>> plans = PlanDistribution((("boil", "pour"), ("pour", "boil")), (0.75, 0.25), "chain")
            >>> PlanDistribution.from_json(plans.to_json()) == plans
            True
        """
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> PlanDistribution:
        """Read the output of `to_json`.

        Example:
            >>> plans = PlanDistribution((("boil", "pour"), ("pour", "boil")), (0.75, 0.25), "chain")
            >>> PlanDistribution.from_json(plans.to_json()).plan
            ('boil', 'pour')
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise PlanError(f"This is not a plan distribution as `to_json` writes it: {cut(repr(error))}") from error
        return cls.from_dict(content)

    @classmethod
    def from_dict(cls, content: Any) -> PlanDistribution:
        """Read the output of `to_dict`.

        Example:
            >>> plans = PlanDistribution((("boil", "pour"), ("pour", "boil")), (0.75, 0.25), "chain")
            >>> PlanDistribution.from_dict(plans.to_dict()) == plans
            True
        """
        try:
            if any(isinstance(plan["steps"], str) for plan in (*content["plans"], *content["samples"])):
                raise TypeError("the steps of a plan are a text, not a list")  # noqa: TRY301 explained below
            return cls(
                plans=tuple(tuple(map(str, plan["steps"])) for plan in content["plans"]),
                probabilities=tuple(float(plan["probability"]) for plan in content["plans"]),
                source=content["source"],
                samples=tuple((tuple(map(str, plan["steps"])), plan["count"]) for plan in content["samples"]),
                lengths=tuple((int(one["steps"]), float(one["probability"])) for one in content.get("lengths", ())),
                understood=tuple(map(str, content.get("understood", ()))),
                reasons=tuple(map(PlanReasons.from_dict, content.get("why", ()))),
            )
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise PlanError(f"This is not a plan distribution as `to_dict` makes it: {cut(repr(error))}") from error


def as_percent(share: float) -> str:
    """A probability for people.

    >>> as_percent(0.4321), as_percent(0.0001)
    ('43.2 %', '< 0.1 %')
    """
    return f"{100 * share:.1f} %" if share >= 0.0005 else "< 0.1 %"


def _listed(plans: list[tuple[Steps, float]], *, rest: float) -> list[str]:
    lines = [f"  {as_percent(share):>7}  {' -> '.join(steps)}" for steps, share in plans]
    return [*lines, f"  {as_percent(rest):>7}  all other plans"] if rest > 1e-6 else lines
