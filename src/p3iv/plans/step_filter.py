"""Which steps of a video were done, and which one is under way: a hidden Markov model over its seconds.

A second is in one of 2A + 1 states: step a is under way; a is done and the next one has not begun; none has begun. A
step goes on for another second with its own probability, a pause follows it or the next step at once, and the next step
is chosen by the transitions of the planner. What is seen in a second is scored for every step, and for no step, by a
classifier s of the planner, and counts as

    log e_t(a) = weight * (log softmax(scale * s_t)(a) - 0.3 log share(a))

`weight` is below 1 because neighbouring seconds show nearly the same. States have exact probabilities under this model,
by the forward algorithm; so has that a step was done, by the same algorithm over the histories in which it has not
ended. The step under way now is half the classifier's own answer for this second, and half that of the model, for which
this one second counts more (`now_weight`). With the state of the model alone 68 instead of 73 % of the seconds of
validation videos are right on IKEA ASM, and 39 instead of 49 % on the tabletop.

The most probable history (Viterbi) is worse than the steps that were each more probably done than not: on validation
videos its intersection over union with what was done is 63 instead of 73 % on IKEA ASM, and 31 instead of 57 % on the
tabletop. In numpy alone, so that an exported planner needs no torch; `planners.queries.following` fits the numbers.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import Final

import numpy as np

from p3iv.plans.chain import log_sum
from p3iv.types import Array

SHARE_EXPONENT: Final = 0.3  # of the shares of steps in training; on IKEA ASM 1 has 9 % of validation seconds right
USAGE_EXPONENT: Final = 0.6  # of how often a step occurs in the procedure that is named
NUM_SETTINGS: Final = 6
MIN_TRACKED: Final = 1e-3  # a step that was never as probable as this has not been done
MIN_WEIGHT: Final = 1e-6  # that a plan keeps if its first step is not the one that is seen
_FIRST_PAUSE: Final = 0.5  # probability that a video begins before its first step


@dataclass(frozen=True, eq=False)
class FollowNumbers:
    """What following learns from training videos, and the few numbers that are chosen on validation videos."""

    first: Array  # (A,): probability that a video begins with a step
    goes_on: Array  # (A + 1,): that a step, and at last a pause, goes on for another second
    repeats: Array  # (A,): that a step which was done occurs again
    log_share: Array  # (A + 1,): of the seconds of every step, and at last of no step
    usage: Array  # (P, A): how probable every step is in every procedure
    settings: Array  # (6,): pause_share, scale, weight, now_weight, first_weight, done_weight
    log_next: Array  # (A, A): the transitions of the planner from row to column, in logs, on any scale

    @property
    def is_fitted(self) -> bool:
        """Whether the training videos had times of their steps."""
        return bool(self.settings[1] > 0)

    @property
    def pause_share(self) -> float:
        """How often a pause follows a step."""
        return float(self.settings[0])

    def log_classes(self, scores: Array) -> Array:
        """The classifier's log probabilities of what is under way in a second: (A + 1,) -> (A + 1,)."""
        scaled = self.settings[1] * scores
        logs: Array = scaled - log_sum(scaled)
        return logs


@dataclass(frozen=True)
class FinishedStep:
    """A step that was more probably done than not."""

    action: int
    start: int  # the second in which it was first more probable than not that it had begun
    end: int  # the same for its end
    probability: float  # that it was done


class StepFilter:
    """Takes the seconds of one video one by one.

    Args:
        numbers: of the planner.
        procedure: probabilities of the procedures (P,), if it is known.
        tracks: whether to compute which steps are done; without it, only the step under way.

    Example:
        >>> numbers = FollowNumbers(
        ...     first=np.array([1.0, 0.0]), goes_on=np.full(3, 0.5), repeats=np.zeros(2), log_share=np.zeros(3),
        ...     usage=np.full((1, 2), 0.5), settings=np.array([0.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        ...     log_next=np.log([[0.01, 0.99], [0.99, 0.01]]))
        >>> found = StepFilter(numbers)
        >>> for scores in ([9.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 9.0, 0.0]):
        ...     found.add(np.array(scores))
        >>> [(step.action, step.start, step.end) for step in found.finished], bool(found.under_way[1] > 0.99)
        ([(0, 0, 2)], True)
    """

    under_way: Array  # (A,): that a step is under way
    paused: Array  # (A,): that it was the last one, is done, and no other has begun
    not_begun: float  # that no step has begun
    now: Array  # (A + 1,): what is under way, with this second's own weight; at last: nothing

    def __init__(self, numbers: FollowNumbers, procedure: Array | None = None, *, tracks: bool = True) -> None:
        self.numbers, self.second, self._tracks = numbers, -1, tracks
        usage = np.ones(len(numbers.first)) if procedure is None else (procedure @ numbers.usage) ** USAGE_EXPONENT
        self._transitions = _rows(np.exp(numbers.log_next - numbers.log_next.max(axis=1, keepdims=True)) * usage)
        self._first = _rows(numbers.first * usage)
        self._tracked = np.empty(0, dtype=np.int64)  # steps that may have been done
        self._joint: tuple[Array, Array, Array] | None = None  # (n, A), (n, A), (n,): not ended, and in which state
        self._start, self._end = (np.full(len(numbers.first), -1) for _ in range(2))  # seconds; -1: not yet

    def add(self, scores: Array | None) -> None:
        """Take the next second: its scores (A + 1,), or None if it cannot be seen."""
        self.second += 1
        classes = None if scores is None else self.numbers.log_classes(scores)
        shown = np.zeros(len(self._first) + 1)
        if classes is not None:
            shown = classes - SHARE_EXPONENT * self.numbers.log_share
        weights = _shrunk(shown, self.numbers.settings[2])
        if self.second == 0:
            states = (1 - _FIRST_PAUSE) * self._first, np.zeros(len(self._first)), np.array(_FIRST_PAUSE)
        else:
            states = self._moved(self.under_way, self.paused, np.array(self.not_begun))
        self.now = self._mixed(states, shown, classes)
        under_way, paused, not_begun = _weighted(*states, weights)
        total = under_way.sum() + paused.sum() + not_begun
        self.under_way, self.paused, self.not_begun = under_way / total, paused / total, float(not_begun / total)
        if self._tracks:
            self._track(weights, float(total))
            done = self.done
            self._start = self._since(self._start, done + self.under_way > 0.5)
            self._end = self._since(self._end, done > 0.5)

    @property
    def no_step(self) -> float:
        """The probability that no step is under way."""
        return float(self.paused.sum()) + self.not_begun

    @property
    def done(self) -> Array:
        """The probability that every step was done, at least once: (A,)."""
        found = np.zeros(len(self._first))
        if self._joint is not None:
            under_way, paused, not_begun = self._joint
            found[self._tracked] = 1 - (under_way.sum(axis=1) + paused.sum(axis=1) + not_begun)
        return np.clip(found, 0.0, 1.0)

    @property
    def first_left(self) -> Array:
        """The probability that a step is the first that is left: it is under way, or the next one: (A,)."""
        following = self.paused @ self._transitions + self.not_begun * self._first
        found: Array = self.now[:-1] + self.now[-1] * following / max(self.no_step, MIN_WEIGHT)
        return found

    @property
    def finished(self) -> list[FinishedStep]:
        """The steps that were more probably done than not, in the order in which they became so; each once."""
        done, order = self.done, np.argsort(self._end, kind="stable")
        places = zip(self._start.tolist(), self._end.tolist(), done.tolist(), strict=True)
        found = [FinishedStep(action, start, end, share) for action, (start, end, share) in enumerate(places)]
        return [found[action] for action in order.tolist() if found[action].end >= 0]

    def plan_weights(self, settings: Array | None = None) -> tuple[Array, Array]:
        """What follows for plans from here: log weights of their first step, and of every later one, (A,) each.

        `settings` are those of the planner, if they are to be tried before they are chosen.
        """
        *_, first_weight, done_weight = self.numbers.settings if settings is None else settings
        again = 1 - self.done * (1 - self.numbers.repeats)
        first, later = self.first_left, np.maximum(again, MIN_WEIGHT)
        return first_weight * np.log(np.maximum(first, MIN_WEIGHT)), done_weight * np.log(later)

    def copy(self) -> StepFilter:
        """What is known at this second: `add` replaces arrays and changes none."""
        return copy(self)

    def _mixed(self, states: tuple[Array, Array, Array], shown: Array, classes: Array | None) -> Array:
        """What is under way now, from the states before this second is seen, and from what it shows: (A + 1,)."""
        under_way, paused, not_begun = states
        model = np.append(under_way, paused.sum() + not_begun) * _shrunk(shown, self.numbers.settings[3])
        model = model / model.sum()
        return model if classes is None else (model + np.exp(classes)) / 2

    def _moved(self, under_way: Array, paused: Array, not_begun: Array) -> tuple[Array, Array, Array]:
        """The states a second later, before it is seen; (A,), (A,), () or (n, A), (n, A), (n,)."""
        return self._moved_without(under_way, paused, not_begun, None)

    def _moved_without(
        self, under_way: Array, paused: Array, not_begun: Array, never: Array | None
    ) -> tuple[Array, Array, Array]:
        """The same over the histories in which the step `never` (n,) of each row does not end."""
        pause, step = self.numbers.goes_on[-1], self.numbers.goes_on[:-1]
        ending = (1 - step) * under_way
        if never is not None:
            ending[np.arange(len(never)), never] = 0.0
        share = self.numbers.pause_share
        begun = ((1 - share) * ending + (1 - pause) * paused) @ self._transitions
        begun = begun + (1 - pause) * not_begun[..., None] * self._first
        return step * under_way + begun, pause * paused + share * ending, pause * not_begun

    def _since(self, seconds: Array, is_so: Array) -> Array:
        """Since which second something is so, which may be from now on; -1 if it is not."""
        return np.where(is_so, np.where(seconds < 0, self.second, seconds), -1)

    def _track(self, weights: Array, total: float) -> None:
        """Follow, for every step that may have been under way, the histories in which it has not ended."""
        if self._joint is not None:
            under_way, paused, not_begun = _weighted(*self._moved_without(*self._joint, self._tracked), weights)
            self._joint = under_way / total, paused / total, not_begun / total
        fresh = np.setdiff1d(np.flatnonzero(self.under_way > MIN_TRACKED), self._tracked)
        if not len(fresh):
            return
        alike = (self.under_way, self.paused, np.array(self.not_begun))  # nothing of it has ended yet
        begun = tuple(np.repeat(part[None], len(fresh), axis=0) for part in alike)
        old = self._joint or tuple(part[:0] for part in begun)
        self._tracked = np.concatenate((self._tracked, fresh))
        under_way, paused, not_begun = (np.concatenate(parts) for parts in zip(old, begun, strict=True))
        self._joint = under_way, paused, not_begun


def _shrunk(logs: Array, exponent: float) -> Array:
    """Weights to a power, from their logs; the largest is 1."""
    weights: Array = np.exp(exponent * (logs - logs.max()))
    return weights


def _weighted(under_way: Array, paused: Array, not_begun: Array, weights: Array) -> tuple[Array, Array, Array]:
    """States times what is seen in the second."""
    return under_way * weights[:-1], paused * weights[-1], not_begun * weights[-1]


def _rows(weights: Array) -> Array:
    """Weights as probabilities along the last axis."""
    shares: Array = weights / weights.sum(axis=-1, keepdims=True)
    return shares
