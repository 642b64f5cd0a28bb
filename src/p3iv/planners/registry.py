"""The one table of planners: a name, and how the planner of that name is built, fitted, asked and kept."""

from __future__ import annotations

from typing import Any

from p3iv.errors import ConfigError
from p3iv.planners.base import PlannerKind
from p3iv.planners.baselines import ddn, ext_gail, graph, majority, plate, random, retrieval, uaaa, upn, wltdo
from p3iv.planners.p3iv import learner
from p3iv.planners.plus import planner as plus

PLANNERS: dict[str, PlannerKind[Any]] = {
    "p3iv": learner.KIND,
    "p3iv-plus": plus.KIND,
    "random": random.KIND,
    "retrieval": retrieval.KIND,
    "majority": majority.KIND,
    "graph": graph.KIND,
    "wltdo": wltdo.KIND,
    "uaaa": uaaa.KIND,
    "upn": upn.KIND,
    "ddn": ddn.KIND,
    "plate": plate.KIND,
    "ext-gail": ext_gail.KIND,
    "ext-gail-no-aug": ext_gail.KIND_WITHOUT_AUGMENTATION,
}


def kind_of(name: str) -> PlannerKind[Any]:
    """The planner of a name.

    Raises:
        ConfigError: naming those that there are.
    """
    if name not in PLANNERS:
        raise ConfigError(f"planner={name!r}, but it must be one of {', '.join(PLANNERS)}.")
    return PLANNERS[name]
