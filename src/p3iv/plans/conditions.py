"""Conditions that a plan must satisfy: in words as a user says them, and as ids of actions that restrict a chain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from p3iv.errors import PlanError, near_misses, one_of
from p3iv.plans.automaton import Automaton
from p3iv.plans.chain import Chain
from p3iv.plans.conditioned import ConditionedChain
from p3iv.types import Array, counted, listed
from p3iv.validation import shown

FIRST, LAST = 0, -1  # positions
MAX_ENTRIES = 1000  # of one kind of condition, so that a request cannot take long


@dataclass(frozen=True)
class Conditions:
    """What every plan must satisfy, in words; what is said twice counts once.

    Example:
        >>> conditions = Conditions(without=["add salt"], before=[("boil water", "add pasta")])
        >>> print(conditions)
        without 'add salt', 'boil water' before 'add pasta'
        >>> conditions.to_dict()
        {'without': ['add salt'], 'before': [['boil water', 'add pasta']]}
    """

    without: Sequence[str] = ()  # steps that must not occur
    including: Sequence[str] = ()  # steps that must occur, once or more often; in JSON `with`
    first: str | None = None  # the first step
    last: str | None = None  # the last step
    at: Sequence[tuple[int, str]] = ()  # (2, step): the second step of the plan
    before: Sequence[tuple[str, str]] = ()  # (a, b): no b before the first a; a plan may have only one of them, or none
    done: Sequence[str] = ()  # steps that are already done: they are not repeated

    def __post_init__(self) -> None:
        for name, (expected, is_one) in _LISTS.items():
            object.__setattr__(self, name, _without_repetition(getattr(self, name), KEYS[name], expected, is_one))
        for name in ("first", "last"):
            step = getattr(self, name)
            if step is not None and not _is_step(step):
                raise PlanError(f"{name}={shown(step)}, but it must be one step.")

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in KEYS)

    def __str__(self) -> str:
        return ", ".join(map(_in_words, self.split()))

    def to_dict(self) -> dict[str, Any]:
        """The conditions as JSON has them, without those that are not set.

        Example:
            >>> Conditions(including=["pour"], at=[(2, "boil")]).to_dict()
            {'with': ['pour'], 'at': [[2, 'boil']]}
        """
        values = {key: getattr(self, name) for name, key in KEYS.items()}
        return {key: _as_lists(value) for key, value in values.items() if value}

    @classmethod
    def from_dict(cls, content: Any) -> Conditions:
        """Read the output of `to_dict`, or what a user wrote by hand.

        Raises:
            PlanError: naming what is not a condition.

        Example:
            >>> Conditions.from_dict({"with": ["pour"]}) == Conditions(including=["pour"])
            True
        """
        if not isinstance(content, dict):
            raise PlanError(f'conditions={shown(content)}, but they must be an object such as {{"with": ["a step"]}}.')
        names = {key: name for name, key in KEYS.items()}
        if unknown := [key for key in content if key not in names]:
            raise PlanError(f"{shown(unknown[0])} is not a condition, which must be {one_of(unknown[0], list(names))}")
        return cls(**{names[key]: value for key, value in content.items()})

    def split(self) -> list[Conditions]:
        """The conditions one by one.

        Example:
            >>> [str(each) for each in Conditions(without=["stir", "boil"]).split()]
            ["without 'stir'", "without 'boil'"]
        """
        parts: list[Conditions] = []
        for name in KEYS:
            value = getattr(self, name)
            values: list[Any] = [[each] for each in value] if name in _LISTS else [value] * (value is not None)
            parts += [Conditions(**{name: each}) for each in values]
        return parts

    @classmethod
    def join(cls, parts: Sequence[Conditions]) -> Conditions:
        """All conditions of several, of which only one may have a first step, and one a last.

        Example:
            >>> Conditions.join([Conditions(first="boil"), Conditions(without=["stir"])])
            Conditions(without=('stir',), including=(), first='boil', last=None, at=(), before=(), done=())
        """
        values: dict[str, Any] = {
            name: tuple(each for part in parts for each in getattr(part, name)) for name in _LISTS
        }
        for name in ("first", "last"):
            values[name] = next((getattr(part, name) for part in parts if getattr(part, name) is not None), None)
        return cls(**values)

    def rules(self, names: Sequence[str]) -> Rules:
        """The conditions for a planner with these actions.

        Raises:
            PlanError: naming a step that it does not know, and similar ones.

        Example:
            >>> Conditions(first="boil").rules(["pour", "boil"])
            Rules(without=frozenset(), including=frozenset(), at=((0, 1),), before=())
        """
        ids = {name: number for number, name in enumerate(names)}

        def find(step: str) -> int:
            if step not in ids:
                near = near_misses(step, names)
                hint = f" Similar: {listed([repr(name) for name in near])}." if near else ""
                raise PlanError(f"{shown(step)} is not one of the {len(names)} actions of this planner.{hint}")
            return ids[step]

        ends = [(position, step) for position, step in ((FIRST, self.first), (LAST, self.last)) if step is not None]
        places = [(position - 1, step) for position, step in self.at]
        return Rules(
            without=frozenset(find(step) for step in (*self.without, *self.done)),
            including=frozenset(find(step) for step in self.including),
            at=tuple((position, find(step)) for position, step in (*ends, *places)),
            before=tuple((find(first), find(second)) for first, second in self.before),
        )


@dataclass(frozen=True)
class Rules:
    """Conditions as ids of actions."""

    without: frozenset[int] = frozenset()
    including: frozenset[int] = frozenset()
    at: tuple[tuple[int, int], ...] = ()  # position from 0, or LAST; action
    before: tuple[tuple[int, int], ...] = ()

    def restrict(self, chain: Chain) -> ConditionedChain:
        """The chain of one window, given that its plans satisfy the conditions.

        Raises:
            PlanError: the conditions are too many to be computed exactly.

        Example:
            >>> chain = Chain.of(np.array([[[0.75, 0.25], [0.75, 0.25]]]), np.ones((2, 2)))
            >>> float(np.exp(Rules(including=frozenset({1})).restrict(chain).log_share).round(4))
            0.4375
        """
        windows, horizon, num_actions = chain.log_emissions.shape
        if windows != 1:
            raise PlanError(f"A chain of {counted(windows, 'window')}, but conditions restrict one window at a time.")
        missing = self.including - {action for _, action in self.at}
        pairs = [pair for pair in self.before if not self.without & set(pair)]  # the others always hold
        automaton = Automaton.of(missing, pairs, horizon=horizon, num_actions=num_actions)
        return ConditionedChain.over(chain, self.allowed(horizon, num_actions), automaton)

    def allowed(self, horizon: int, num_actions: int) -> Array:
        """Which actions may be at which position, whatever the other positions have: (T, A) bool."""
        allowed = np.ones((horizon, num_actions), dtype=bool)
        allowed[:, list(self.without)] = False
        for position, action in self.at:
            if position < horizon:
                allowed[position, np.arange(num_actions) != action] = False
            else:
                allowed[:] = False
        return allowed


def restrict_chains(chains: Sequence[Chain], conditions: Conditions, names: Sequence[str]) -> list[ConditionedChain]:
    """The chains of one window, one for each allowed length, given the conditions.

    Args:
        chains: of one window each.
        conditions: in words.
        names: of the actions.

    Returns:
        As many as chains; the `log_share` of some may be minus infinity.

    Raises:
        PlanError: no plan of any length satisfies the conditions; names those that cannot hold together. Or a step is
            not known, or the conditions are too many.
    """
    rules, lengths = conditions.rules(names), [chain.log_emissions.shape[1] for chain in chains]
    needed = sorted(rules.including | {action for _, action in rules.at})
    if len(needed) > max(lengths):
        steps = listed([shown(names[action]) for action in needed])
        raise PlanError(f"{counted(len(needed), 'step')} must occur ({steps}), but a plan has {_range_of(lengths)}.")
    restricted = [rules.restrict(chain) for chain in chains]
    if all(each.log_share == -np.inf for each in restricted):
        raise PlanError(_why_impossible(chains, conditions, names))
    return restricted


def _why_impossible(chains: Sequence[Chain], conditions: Conditions, names: Sequence[str]) -> str:
    lengths = [chain.log_emissions.shape[1] for chain in chains]
    plan, steps = f"plan of {_range_of(lengths)}", _steps_of(conditions)
    others = [name for name in names if name not in steps][:1]  # one stands for all that are not mentioned
    size = len(steps) + len(others)
    equal = [Chain(np.zeros((1, length, size)), np.zeros((size, size))) for length in lengths]  # every plan is possible
    if parts := smallest_impossible(equal, conditions, [*steps, *others]):
        together = "together " if len(parts) > 1 else ""
        return f"{_enumerated(parts)} cannot hold {together}in a {plan}. Leave out a condition."
    parts = smallest_impossible(chains, conditions, names)
    if not parts:
        return f"This planner gives every {plan} the probability 0 for these moments, also without conditions."
    return f"This planner gives every {plan} with {_enumerated(parts)} the probability 0. Leave out a condition."


def smallest_impossible(chains: Sequence[Chain], conditions: Conditions, names: Sequence[str]) -> list[Conditions]:
    """Some of the conditions that cannot hold together, while all but any one of them can; empty if all can hold.

    The search is QuickXplain (Junker, 2004): about k log n checks for k of n conditions.
    """

    def is_impossible(parts: Sequence[Conditions]) -> bool:
        rules = Conditions.join(parts).rules(names)
        try:
            return all(rules.restrict(chain).log_share == -np.inf for chain in chains)
        except PlanError:  # too many to be computed: without a step that must not occur, others may matter
            return False

    def needed(given: list[Conditions], parts: list[Conditions], *, is_new: bool) -> list[Conditions]:
        """Those of the parts that are impossible with what is given; `is_new` if that has changed (QuickXplain)."""
        if is_new and is_impossible(given):
            return []
        if len(parts) == 1:
            return parts
        first, second = parts[: len(parts) // 2], parts[len(parts) // 2 :]
        of_second = needed(given + first, second, is_new=True)
        of_first = needed(given + of_second, first, is_new=bool(of_second))
        return of_first + of_second

    parts = conditions.split()
    return needed([], parts, is_new=True) if is_impossible(parts) else []


def _steps_of(conditions: Conditions) -> list[str]:
    """The steps that conditions mention."""
    ends = [step for step in (conditions.first, conditions.last) if step is not None]
    pairs = [step for pair in conditions.before for step in pair]
    placed = [step for _, step in conditions.at]
    return list(dict.fromkeys((*conditions.without, *conditions.including, *ends, *placed, *pairs, *conditions.done)))


def _in_words(condition: Conditions) -> str:
    """A single condition."""
    if condition.before:
        return " before ".join(map(shown, condition.before[0]))
    if condition.at:
        position, step = condition.at[0]
        return f"{shown(step)} at {position}"
    ((key, value),) = condition.to_dict().items()
    return f"{key} {shown(value if isinstance(value, str) else value[0])}"


def _enumerated(parts: Sequence[Conditions]) -> str:
    """A, b and c; of many, the first."""
    words = [str(part) for part in parts]
    if len(words) > 10:
        return listed(words, 8)
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _range_of(lengths: Sequence[int]) -> str:
    least, most = min(lengths), max(lengths)
    return counted(most, "step") if least == most else f"{least} to {most} steps"


def _is_step(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_place(value: Any) -> bool:
    return _is_pair(value) and type(value[0]) is int and value[0] >= 1 and _is_step(value[1])


def _is_order(value: Any) -> bool:
    return _is_pair(value) and all(map(_is_step, value)) and value[0] != value[1]


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _without_repetition(values: Any, key: str, expected: str, is_one: Callable[[Any], bool]) -> tuple[Any, ...]:
    """The values as a tuple of texts or pairs, if each of them is what it must be."""
    if not isinstance(values, list | tuple):
        raise PlanError(f"{key}={shown(values)}, but it must be {expected}.")
    if len(values) > MAX_ENTRIES:
        raise PlanError(f"{key} has {len(values)} entries, but at most {MAX_ENTRIES} are allowed.")
    if wrong := [value for value in values if not is_one(value)]:
        entry = wrong[0]
        inside = f"({', '.join(map(shown, entry[:3]))})" if isinstance(entry, list | tuple) else shown(entry)
        raise PlanError(f"{key} has the entry {inside}, but it must be {expected}.")
    return tuple(dict.fromkeys(tuple(value) if isinstance(value, list) else value for value in values))


def _as_lists(value: Any) -> Any:
    """Tuples as lists, as JSON has them."""
    return [_as_lists(each) for each in value] if isinstance(value, tuple) else value


_STEPS = ("a list of steps", _is_step)
_LISTS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "without": _STEPS,
    "including": _STEPS,
    "at": ("a list of pairs of a position from 1 and a step", _is_place),
    "before": ("a list of pairs of two different steps", _is_order),
    "done": _STEPS,
}
KEYS = {each.name: "with" if each.name == "including" else each.name for each in fields(Conditions)}  # as in JSON
