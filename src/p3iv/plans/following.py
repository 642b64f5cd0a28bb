"""What is known at a moment of a video that is followed: what was done, what is under way, what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from p3iv.plans.distribution import PlanDistribution, as_percent


@dataclass(frozen=True)
class DoneStep:
    """A step that was more probably done than not."""

    step: str
    start_s: int  # the second in which it was first more probable than not that it had begun
    end_s: int  # the same for its end
    probability: float  # that it was done until now, at any time

    def to_dict(self) -> dict[str, Any]:
        """The fields of its JSON."""
        return dict(vars(self))


@dataclass(frozen=True)
class FollowedMoment:
    """What is known at one second of a video.

    Example:
        >>> plans = PlanDistribution((("pour",),), (0.9,), "chain")
        >>> moment = FollowedMoment(7, (DoneStep("boil", 0, 5, 0.98),), (("pour", 0.8), (None, 0.2)), plans)
        >>> print(moment)
        0:07  done: boil 98.0 %  now: pour 80.0 %  left: pour 90.0 %
    """

    second: int
    done: tuple[DoneStep, ...]  # in order; a step that was done several times is listed once
    now: tuple[tuple[str | None, float], ...]  # the steps that may be under way, the most probable first; None: no step
    left: PlanDistribution  # its plans begin with the step under way, if there is one

    def __str__(self) -> str:
        done = ", ".join(f"{one.step} {as_percent(one.probability)}" for one in self.done) or "nothing"
        step, probability = self.now[0]
        left = " -> ".join(self.left.plan)
        return (
            f"{self.second // 60}:{self.second % 60:02}  done: {done}  now: {step or 'no step'} "
            f"{as_percent(probability)}  left: {left} {as_percent(self.left.plan_probability)}"
        )

    def to_text(self, previous: FollowedMoment | None = None) -> str:
        """Some lines for people: what was done since a moment before, what is under way and what is left."""
        known = set() if previous is None else {one.step for one in previous.done}
        fresh = [f"{one.step} ({as_percent(one.probability)})" for one in self.done if one.step not in known]
        step, probability = self.now[0]
        lines = [f"done  {', '.join(fresh)}"] if fresh else []
        lines += [
            f"now   {step or 'no step'} ({as_percent(probability)})",
            f"left  {' -> '.join(self.left.plan)} ({as_percent(self.left.plan_probability)})",
        ]
        clock = f"{self.second // 60}:{self.second % 60:02}"
        return "\n".join(f"{text:>7}  {line}" for text, line in zip((clock, "", ""), lines, strict=False))

    def to_summary(self) -> str:
        """Everything that was done, with times."""
        if not self.done:
            return f"Nothing was probably done until {self.second} s."
        lines = [
            f"  {one.start_s // 60}:{one.start_s % 60:02} to {one.end_s // 60}:{one.end_s % 60:02}  {one.step} "
            f"({as_percent(one.probability)})"
            for one in self.done
        ]
        return "\n".join([f"done until {self.second // 60}:{self.second % 60:02}:", *lines])

    def to_dict(self) -> dict[str, Any]:
        """The fields of the JSON of `p3iv follow`."""
        return {
            "second": self.second,
            "done": [one.to_dict() for one in self.done],
            "now": [{"step": step, "probability": probability} for step, probability in self.now],
            "left": self.left.to_dict(),
        }
