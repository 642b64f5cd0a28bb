"""The reasons of plans: the log probability of a plan under a chain, taken apart into the addends of its sources.

A raw addend means nothing by itself: one could add a constant for all actions to one source and take it from another.
So an addend here is what a source says for a step minus what it says on average in the alternatives: all plans with
another step at this position, weighted by their probability before any is rescored. The alternatives of a transition
are the plans with another transition there, and those of effects are rescored plans, because only these have effects.
What the alternatives have on average goes into the normaliser, so that everything sums to the log probability. For one
position and two actions, the addends of a step sum to its log odds. An addend is 0 where there is no alternative.

A step does not count among its own alternatives: if it did, all addends of a certain plan would be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from p3iv.errors import PlanError, one_of
from p3iv.plans.chain import Chain, RescoredChain, log_pairs, log_sum
from p3iv.plans.reasons import EVIDENCE, SOURCES, Change, PlanReasons, StepReasons
from p3iv.types import Array
from p3iv.validation import shown

_MAX_CHANGE = 1 - 1e-9  # of how much a source counts: without it, all plans may be as probable as the first
_MAX_TRIALS = 5  # changes that are tried; for a chain, the first one is right
_PRECISION = 1e-6  # of a factor
_TOLERANCE = 1e-3  # of the sum of a planner's addends: networks compute in single precision


def explain_plans(
    plans: Array,
    names: Sequence[str],
    chain: Chain,
    addends: Mapping[str, Array],
    *,
    log_length: float = 0.0,
    log_share: float = 0.0,
) -> tuple[PlanReasons, ...]:
    """Explain possible plans of one query and one length.

    Args:
        plans: action ids (n, T).
        names: of the actions.
        chain: of one window.
        addends: of the log emissions, (T, A) each, by their source; they sum to the emissions of the chain.
        log_length: log p(T).
        log_share: log of the share of plans, of all lengths if there are several, that satisfy the conditions.

    Raises:
        PlanError: a plan is impossible, or the addends do not sum to the emissions.

    Example:
        >>> chain = Chain.of(np.array([[[0.8, 0.2]]]), np.ones((2, 2)))
        >>> (reasons,) = explain_plans(np.array([[0]]), ("boil", "pour"), chain, {"goal": chain.log_emissions[0]})
        >>> print(f"{reasons.totals['goal']:.2f} = log {0.8 / 0.2:g}")
        1.39 = log 4
    """
    _check_addends(chain, addends)
    window = np.zeros(len(plans), dtype=np.int64)
    logs = chain.log_probability(plans, window) + log_length - log_share
    if not np.isfinite(logs).all():
        raise PlanError("There are no reasons for a plan that is impossible: explain plans with a probability above 0.")
    pairs = log_pairs(chain)[0]  # (T - 1, A, A)
    singles = _at_positions(pairs) if len(pairs) else chain.log_emissions[0]
    found = {source: _compare_steps(addend, plans, singles) for source, addend in addends.items()}
    found["transitions"] = _compare_transitions(chain.log_transitions, plans, pairs)
    if isinstance(chain, RescoredChain):
        found["effects"] = _compare_effects(chain, plans)
    return tuple(
        _reasons_of(
            [names[action] for action in plan],
            {source: found[source][row].tolist() for source in SOURCES if source in found},
            (log_length, 0.0 - log_share, float(logs[row])),
        )
        for row, plan in enumerate(plans.tolist())
    )


BestPlan = Callable[[Chain], Array]  # the most probable plan of a chain of one window: (T,)


def cheapest_change(
    plans: Array,
    names: Sequence[str],
    chain: Chain,
    addends: Mapping[str, Array],
    *,
    sources: Sequence[str] = EVIDENCE,
    best: BestPlan = lambda chain: chain.best_paths()[0][0],
) -> Change | None:
    """The smallest change of one source with which another plan than the first becomes the most probable one.

    If a source counts `factor` times, at all steps or at one, a plan loses (1 - factor) times what the source adds to
    it there. The normaliser is the same for all plans of one length, so another plan overtakes the first one at

        1 - factor = (log p(first) - log p(other)) / (addend of first - addend of other)

    Of all sources, places and given plans, the factors nearest to 1 are tried: the chain is computed with them, so the
    plan does change there. For a chain, no other change that leads to a given plan is smaller. In a rescored chain,
    what a rescored plan gains depends on all of them, so the formula is only near, and bisection finds the factor.

    Args:
        plans: action ids (n, T), the recommended plan first.
        names: of the actions.
        chain: of one window.
        addends: as for `explain_plans`.
        sources: which may change.
        best: how the recommended plan is chosen; under conditions, among the plans that satisfy them.

    Returns:
        The change; None if none is found, whether a source is left out or counted twice.

    Example:
        >>> chain = Chain.of(np.array([[[0.6, 0.4]]]), np.ones((2, 2)))
        >>> addends = {"start": np.log([[0.2, 0.8]]), "goal": chain.log_emissions[0] - np.log([[0.2, 0.8]])}
        >>> print(cheapest_change(np.array([[0], [1]]), ("boil", "pour"), chain, addends).to_text())
        If the goal counted 23 % less at step 1, the plan would be: pour.
    """
    _check_addends(chain, addends)
    logs = chain.log_probability(plans, np.zeros(len(plans), dtype=np.int64))
    if not np.isfinite(logs[0]):
        raise PlanError("The first plan is impossible, so nothing can change it: pass the recommended plan first.")
    plans, logs = plans[np.isfinite(logs)], logs[np.isfinite(logs)]
    used = [source for source in sources if source in addends]
    found = [trial for source in used for trial in _trials(source, addends[source], plans, logs)]
    cheapest, least = None, np.inf
    for trial in sorted(found, key=lambda trial: trial.size)[:_MAX_TRIALS]:
        size = _size_of_change(trial, plans[0], chain, best) if trial.size < least else None
        if size is not None and size < least:
            cheapest, least = trial, size
    if cheapest is None:
        return None
    plan = best(cheapest.apply(chain, least))
    nats = logs[0] - chain.log_probability(plan[None], np.zeros(1, dtype=np.int64))[0]
    words = tuple(names[action] for action in plan.tolist())
    return Change(cheapest.source, cheapest.step, 1 - cheapest.sign * least, max(0.0, float(nats)), words)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A change that may lead to another plan."""

    source: str
    step: int | None  # position from 1; None: all steps
    sign: int  # 1: the source counts less, -1: more
    size: float  # of the change that should be enough
    part: Array  # (T, A): what counts less or more

    def apply(self, chain: Chain, size: float) -> Chain:
        return chain.with_emissions(chain.log_emissions - self.sign * size * self.part)


def _trials(source: str, addend: Array, plans: Array, logs: Array) -> list[_Trial]:
    """The changes of one source, at each step and then at all steps: where only one step differs, it is named."""
    horizon = plans.shape[1]
    own = addend[np.arange(horizon), plans]  # (n, T)
    margins, finite = np.maximum(logs[0] - logs[1:], 0.0), np.where(np.isfinite(addend), addend, 0.0)
    trials = []
    for step in (*range(1, horizon + 1), None):
        is_changed = np.array([step is None or place + 1 == step for place in range(horizon)])
        more = (own[0] - own[1:])[:, is_changed].sum(axis=1)  # that the source adds to the first plan
        for sign in (1, -1):
            is_one = sign * more > 0
            with np.errstate(over="ignore"):  # of a tiny difference
                size = (margins[is_one] / np.abs(more[is_one])).min(initial=np.inf)
            if size < 2:  # the formula is near, so 1 may be enough
                trials.append(_Trial(source, step, sign, float(size), np.where(is_changed[:, None], finite, 0.0)))
    return trials


def _size_of_change(trial: _Trial, first: Array, chain: Chain, best: BestPlan) -> float | None:
    """The size at which the recommended plan changes, near that of a trial; None if it does not."""

    def has_changed(size: float) -> bool:
        return bool((best(trial.apply(chain, size)) != first).any())

    low, high = trial.size - _PRECISION / 3, trial.size + _PRECISION / 3
    ends = [min(end, _MAX_CHANGE) for end in (high, 1.5 * trial.size + 0.01, 1.0)]
    high = next((end for end in ends if has_changed(end)), 0.0)
    low = 0.0 if not 0 < low < high or has_changed(low) else low
    while high - low > _PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if has_changed(middle) else (middle, high)
    return high or None


def _check_addends(chain: Chain, addends: Mapping[str, Array]) -> None:
    """Refuse addends that do not belong to this chain."""
    known = SOURCES[:-2]  # transitions and effects are those of the chain
    if unknown := [source for source in addends if source not in known]:
        raise PlanError(f"Addends of {shown(unknown[0])}, but a source must be {one_of(unknown[0], known)}")
    emissions = chain.log_emissions
    if len(emissions) != 1 or any(addend.shape != emissions.shape[1:] for addend in addends.values()):
        raise PlanError(
            f"The chain is {emissions.shape}, so every addend must be {emissions.shape[1:]}, and of one window."
        )
    with np.errstate(invalid="ignore"):
        total = np.add.reduce(list(addends.values())) if addends else np.zeros_like(emissions[0])
    if not np.allclose(total, emissions[0], rtol=1e-6, atol=_TOLERANCE):
        raise PlanError("The addends must sum to the log emissions of the chain.")


def _at_positions(pairs: Array) -> Array:
    """Log of the weight of all plans with an action at a position: (T - 1, A, A) -> (T, A)."""
    return np.concatenate((log_sum(pairs[:1]), log_sum(pairs.swapaxes(1, 2))))


def _compare_steps(addend: Array, plans: Array, singles: Array) -> Array:
    """The addends (T, A) of the steps of plans (n, T) against those of other actions: (n, T)."""
    own = addend[np.arange(plans.shape[1]), plans]
    weights = np.broadcast_to(singles, (len(plans), *singles.shape))
    return _against(own[..., None], addend, _without_own(weights, plans))


def _compare_transitions(log_transitions: Array, plans: Array, pairs: Array) -> Array:
    """The transitions into the steps of plans (n, T) against other transitions there: (n, T), 0 for the first step.

    The other transitions from the same action one by one, those from each other action together, which needs less
    memory than all pairs for every plan.
    """
    place, before, after = np.arange(len(pairs)), plans[:, :-1], plans[:, 1:]
    own = log_transitions[before, after][..., None]  # (n, T - 1, 1)
    rows = np.broadcast_to(log_sum(pairs), (len(plans), *pairs.shape[:2]))  # (n, T - 1, A)
    means = -_against(np.zeros((1, 1, 1)), np.broadcast_to(log_transitions, pairs.shape), pairs)  # (T - 1, A)
    values = np.concatenate((np.broadcast_to(means, rows.shape), log_transitions[before]), axis=2)
    weights = np.concatenate((_without_own(rows, before), _without_own(pairs[place, before], after)), axis=2)
    return np.concatenate((np.zeros((len(plans), 1)), _against(own, values, weights)), axis=1)


def _compare_effects(chain: RescoredChain, plans: Array) -> Array:
    """What the steps of plans (n, T) add to their fit, against rescored plans with another step there: (n, T).

    The fit of a plan is the sum over its steps of c_t = each(a_t) - sum_s both(a_t, a_s); 0 if it is not rescored.
    """
    listed, logs = (part[0] for part in chain.rescored_plans())
    listed, logs = listed[logs > -np.inf], logs[logs > -np.inf]  # (m, T), (m,)
    own, values = (
        chain.log_each[0, each] - chain.log_both[each[:, :, None], each[:, None]].sum(axis=2)
        for each in (plans, listed)
    )
    is_other = plans[:, :, None] != listed.T  # (n, T, m)
    compared = _against(own[..., None], values.T, np.where(is_other, logs, -np.inf))
    is_rescored = (~is_other).all(axis=1).any(axis=1)
    return np.where(is_rescored[:, None], compared, 0.0)


def _without_own(log_weights: Array, plans: Array) -> Array:
    """Log weights (n, T, A) of the actions that are not those of the plans (n, T)."""
    others = log_weights.copy()
    np.put_along_axis(others, plans[..., None], -np.inf, axis=2)
    return others


def _against(own: Array, values: Array, log_weights: Array) -> Array:
    """The mean of own (..., 1) minus each value (..., A), with weights (..., A): (...); 0 if all weights are zero."""
    most = np.maximum(log_weights.max(axis=-1, keepdims=True, initial=-np.inf), np.finfo(np.float64).min)
    shares = np.exp(log_weights - most)
    differences = np.subtract(own, values, out=np.zeros_like(shares), where=shares > 0)
    return (shares * differences).sum(axis=-1) / np.maximum(shares.sum(axis=-1), 1.0)


def _reasons_of(names: list[str], addends: dict[str, list[float]], sums: tuple[float, float, float]) -> PlanReasons:
    """The reasons of one plan; `sums` are the addends of length and conditions, and the log probability."""
    steps = [
        StepReasons(name, {source: values[place] for source, values in addends.items()})
        for place, name in enumerate(names)
    ]
    length, conditions, log_probability = sums
    found = [value for values in addends.values() for value in values]
    normaliser = math.fsum((log_probability, -length, -conditions, *(-value for value in found)))
    return PlanReasons(tuple(steps), length, conditions, normaliser, log_probability)
