"""The one table of planners: a name, and the class under `p3iv.planners` that implements it.

A class is imported only when it is needed, so that loading one planner does not import the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from p3iv.errors import ConfigError, one_of

if TYPE_CHECKING:  # `p3iv train --help` reads this table and must not wait for torch
    from p3iv.config import Config
    from p3iv.planners.base import BasePlanner

PLANNERS = {
    "p3iv": "p3iv.planner:P3IV",
    "p3iv-plus": "plus.planner:P3IVPlus",
    "random": "baselines.random:RandomPlanner",
    "retrieval": "baselines.retrieval:Retrieval",
    "majority": "baselines.majority:Majority",
    "graph": "baselines.graph:Graph",
    "wltdo": "baselines.wltdo:Wltdo",
    "uaaa": "baselines.uaaa:Uaaa",
    "upn": "baselines.upn:Upn",
    "ddn": "baselines.ddn:Ddn",
    "plate": "baselines.plate:Plate",
    "ext-gail": "baselines.ext_gail:ExtGail",
    "ext-gail-no-aug": "baselines.ext_gail:ExtGailWithoutAugmentation",
    "schema": "successors.schema:Schema",
    "viterbi-plan-net": "successors.viterbi_plan_net:ViterbiPlanNet",
}


FOR_LENGTHS = {"p3iv-plus": "queries.planner:QueryPlanner", "graph": "baselines.graph:GraphOfLengths"}


def class_of(config: Config) -> type[BasePlanner]:
    """The class of a planner with these settings.

    Raises:
        ConfigError: there is no such planner, or it plans for one length only.
    """
    name, data = config.planner, config.data
    if not data.has_lengths or name not in PLANNERS:
        return planner_class(name)
    if name not in FOR_LENGTHS:
        raise ConfigError(
            f"horizon={data.min_horizon}-{data.horizon}, but planner={name} plans for one length: pass one number, or "
            f"--planner {' or '.join(FOR_LENGTHS)}."
        )
    return _import(FOR_LENGTHS[name])


def planner_class(name: str) -> type[BasePlanner]:
    """The class of a planner for plans of one length.

    Raises:
        ConfigError: if there is no planner of this name; the message lists all names.
    """
    if name not in PLANNERS:
        raise ConfigError(f"planner={name!r:.60}, but it must be {one_of(name, PLANNERS)}")
    return _import(PLANNERS[name])


def _import(place: str) -> type[BasePlanner]:
    module, _, class_name = place.partition(":")
    return cast("type[BasePlanner]", getattr(import_module(f"p3iv.planners.{module}"), class_name))
