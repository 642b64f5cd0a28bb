"""What a planner of queries says about a query, in numbers; without torch, as a process asks that has none.

usage: python -m planners.query_facts PLANNER.onnx QUERIES.npz FACTS.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from p3iv.planners.header import Backend
from p3iv.planners.onnx_planner import load_exported
from p3iv.plans.answered import AnsweredQuery, ReadQuery
from p3iv.plans.conditions import Conditions
from p3iv.plans.draws import SampleSettings
from p3iv.plans.evidence import Evidence

SAMPLES = SampleSettings(150)

Facts = dict[str, Any]


def facts_of(backend: Backend, evidence: Evidence) -> Facts:
    """Lengths, emissions, plans of all lengths, of one and under conditions, samples and reasons; as for JSON."""
    names, answer = backend.header.names, backend.answer(evidence)

    def ask(**changes: Any) -> AnsweredQuery:
        return AnsweredQuery.of(answer, ReadQuery(evidence, **changes), names)

    asked = {
        "all": ask(),
        "of two steps": ask(horizon=2),
        "under conditions": ask(conditions=Conditions(without=(names[3],), last=names[5])),
    }
    facts = {
        "log_lengths": answer.log_lengths.tolist(),
        "emissions": [chain.log_emissions.tolist() for chain in answer.chains],
        "best": {key: _parts(query.plans.best_plans(10)) for key, query in asked.items()},
        "samples": [list(plan) for plan in ask().draw(SAMPLES)],
    }
    if answer.addends is None:
        return facts
    addends = [answer.addends(horizon) for horizon in answer.horizons]
    best = [plan for plan, _ in ask().plans.best_plans(3)]
    return {
        **facts,
        "addends": [{name: part.tolist() for name, part in one.items()} for one in addends],
        "reasons": [reasons.to_dict() for reasons in ask().explain(best, names)],
    }


def _parts(plans: Sequence[tuple[tuple[int, ...], float]]) -> Facts:
    return {"plans": [list(plan) for plan, _ in plans], "logs": [log for _, log in plans]}


def save_queries(path: Path, queries: Sequence[Evidence]) -> None:
    """Write queries as arrays."""
    parts = [(number, name, part) for number, query in enumerate(queries) for name, part in vars(query).items()]
    np.savez(path, **{f"{number} {name}": part for number, name, part in parts if part is not None})


def load_queries(path: Path) -> list[Evidence]:
    """What `save_queries` wrote."""
    found: dict[int, dict[str, Any]] = {}
    for key, part in np.load(path).items():
        number, name = key.split()
        found.setdefault(int(number), {})[name] = part
    return [Evidence(**found[number]) for number in sorted(found)]


def main() -> None:
    planner, queries, out = map(Path, sys.argv[1:])
    backend = load_exported([planner])
    out.write_text(json.dumps([facts_of(backend, query) for query in load_queries(queries)]))
    if modules := {"torch", "onnx", "safetensors"} & sys.modules.keys():
        raise SystemExit(f"imported {modules}")


if __name__ == "__main__":
    main()
