"""The plans between two moments as an SVG file of its own."""

from __future__ import annotations

from importlib.resources import files

from p3iv.plans.distribution import PlanDistribution
from p3iv.report.graph import merge_plans
from p3iv.report.graph_drawing import LYING, draw_graph
from p3iv.report.markup import Markup, tag
from p3iv.report.windows import WindowPlans


def draw_distribution(distribution: PlanDistribution) -> str:
    """All sampled plans merged into one graph: width = frequency, solid = the plan to follow."""
    plans = WindowPlans(
        window="",
        video="",
        task="",
        start_s=None,
        goal_s=None,
        prediction=distribution.words(distribution.plan),
        probability=distribution.plan_probability,
        reference=(),
        samples=tuple(
            (distribution.words(plan), count)
            for plan, count in zip(distribution.plans, distribution.counts, strict=True)
        ),
    )
    return standalone(draw_graph(merge_plans(plans), LYING))


def standalone(graph: Markup, *, title: str = "", about: str = "") -> str:
    """A picture of a page as a file of its own, with what there is to say of it inside."""
    style = files("p3iv.report").joinpath("style.css").read_text(encoding="utf-8")
    opening, rest = str(graph).split(">", 1)
    said = "".join(tag(name, text) for name, text in (("title", title), ("desc", about)) if text)
    # Escaped by construction; the style knows no `]]>`.
    return f'{opening} xmlns="http://www.w3.org/2000/svg">{said}<style><![CDATA[{style}]]></style>{rest}\n'
