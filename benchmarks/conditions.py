"""What conditions cost: the best plans and samples of a chain under three conditions, as a multiple of those without.

usage: OMP_NUM_THREADS=1 python -m benchmarks.conditions [--plans N] [--repeats N]

CPU time; with more than one thread, that of all of them. Each call is one query: new emissions, the same transitions.
The time with conditions includes reading them. The chains are random: log emissions with a standard deviation of 1.5,
as those of a trained P3IV+ have; transitions of which few are probable. "rescored" chains rescore their 50 best plans,
as P3IV+ does. The conditions are about steps of probable plans: a step is left out, one must occur, one comes before
another; or three of a kind.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import numpy as np

from benchmarks.timing import Work, make_parser, median_cpu_ms
from p3iv.plans.chain import Chain, RescoredChain
from p3iv.plans.conditioned import ConditionedChain
from p3iv.plans.conditions import Conditions, restrict_chains

SIZES = ((105, 3), (105, 6), (350, 3), (350, 6))  # actions, horizon
BEST, SAMPLES = "best plans", "samples"
MIXED = "without, with, before"


def make_chain(num_actions: int, horizon: int, *, is_rescored: bool) -> Chain:
    generator = np.random.default_rng(0)
    emissions = 1.5 * generator.standard_normal((1, horizon, num_actions))
    transitions = generator.dirichlet(np.full(num_actions, 0.1), size=num_actions).clip(min=1e-6)
    chain = Chain(emissions, np.log(transitions))
    if not is_rescored:
        return chain
    both = 0.2 * generator.standard_normal((num_actions, num_actions))
    return RescoredChain.over(chain, generator.standard_normal((1, num_actions)), both + both.T)


def three_conditions(chain: Chain, names: Sequence[str]) -> dict[str, Conditions]:
    plans = chain.best_plans(100)[0][0]
    steps = [names[action] for action in dict.fromkeys(plans.ravel().tolist())][:6]
    pairs = list(zip(steps[::2], steps[1::2], strict=True))
    return {
        MIXED: Conditions(without=steps[:1], including=steps[1:2], before=[(steps[2], steps[3])]),
        "with, with, with": Conditions(including=steps[:3]),
        "before, before, before": Conditions(before=pairs),
    }


def make_tasks(chain: Chain, number: int) -> dict[str, Work]:
    """The queries to time, by name."""
    _, horizon, num_actions = chain.log_emissions.shape
    names = [f"step {number}" for number in range(num_actions)]
    uniforms = np.random.default_rng(1).random((number, horizon + 1))

    def query() -> Chain:
        return chain.with_emissions(chain.log_emissions)

    def under(conditions: Conditions) -> ConditionedChain:
        return restrict_chains([query()], conditions, names)[0]

    tasks: dict[str, Work] = {BEST: lambda: query().best_plans(number), SAMPLES: lambda: query().draw(uniforms)}
    for title, conditions in three_conditions(chain, names).items():
        tasks[f"{BEST}, {title}"] = partial(lambda given: under(given).best_plans(number), conditions)
        tasks[f"{SAMPLES}, {title}"] = partial(lambda given: under(given).draw(uniforms), conditions)
    return tasks


def ratios_of(chain: Chain, title: str, number: int, repeats: int) -> dict[str, float]:
    """The time of each query with conditions over that of the same query without."""
    times = median_cpu_ms(make_tasks(chain, number), repeats)
    found: dict[str, float] = {}
    for kind in (BEST, SAMPLES):
        ratios = {name: times[name] / times[kind] for name in times if name.startswith(f"{kind}, ")}
        shown = "; ".join(f"{name.removeprefix(f'{kind}, ')} {ratio:.2f}" for name, ratio in ratios.items())
        print(f"{title}, {number} {kind}: {times[kind]:.2f} ms; under conditions times {shown}", flush=True)
        found |= {f"{title}, {name}": ratio for name, ratio in ratios.items()}
    return found


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--plans", type=int, default=1500)
    parser.add_argument("--repeats", type=int, default=20)
    args = parser.parse_args()
    found: dict[str, float] = {}
    for num_actions, horizon in SIZES:
        for is_rescored in (False, True):
            title = f"A={num_actions}, T={horizon}{', rescored' if is_rescored else ''}"
            chain = make_chain(num_actions, horizon, is_rescored=is_rescored)
            found |= ratios_of(chain, title, args.plans, args.repeats)
    worst = max(found, key=found.__getitem__)
    mixed = max(ratio for name, ratio in found.items() if name.endswith(MIXED))
    print(json.dumps({"highest_ratio": round(found[worst], 2), "of": worst, "highest_mixed": round(mixed, 2)}))


if __name__ == "__main__":
    main()
