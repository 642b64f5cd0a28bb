"""A plan distribution as a picture of its own."""

from __future__ import annotations

from xml.etree import ElementTree

from p3iv.plans.distribution import PlanDistribution
from p3iv.report.plan_picture import draw_distribution


def test_the_picture_is_whole_xml_with_every_step_in_it() -> None:
    names = ("boil <water>", "pour & stir", "serve")
    picture = draw_distribution(PlanDistribution(names, ((0, 1), (0, 2)), (900, 100), (0, 1), 0.9))
    root = ElementTree.fromstring(picture)  # noqa: S314 - our own
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    words = " ".join(root.itertext())
    for word in ("boil", "pour", "serve", "start", "goal"):
        assert word in words
    assert "reference" not in picture.split("</style>")[1]
