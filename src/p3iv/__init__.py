"""p3iv plans procedures from video: two moments in, the plausible plans between them out.

from p3iv import Planner

planner = Planner.from_pretrained("runs/first")
print(planner.plan("kitchen.mp4@12.5", "kitchen.mp4@71").to_json())

The commands are functions, too: `p3iv.train(...)` does what `p3iv train` does.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "Conditions",
    "P3ivError",
    "PlanDistribution",
    "Planner",
    "Progress",
    "align",
    "check",
    "compare",
    "data_enough",
    "embed",
    "evaluate",
    "evaluate_following",
    "export_annotations",
    "export_planner",
    "extract",
    "import_annotations",
    "import_dataset",
    "make_tabletop",
    "repair",
    "score",
    "simulate",
    "stats",
    "train",
    "write_report",
]

if TYPE_CHECKING:
    from p3iv.api.annotations import export_annotations, import_annotations
    from p3iv.api.datasets import check, data_enough, import_dataset, make_tabletop, repair, simulate, stats
    from p3iv.api.exporting import export_planner
    from p3iv.api.features import align, embed, extract
    from p3iv.api.following import evaluate_following
    from p3iv.api.runs import compare, evaluate, score, train, write_report
    from p3iv.errors import P3ivError
    from p3iv.planner import Planner
    from p3iv.plans.conditions import Conditions
    from p3iv.plans.distribution import PlanDistribution
    from p3iv.types import Progress
else:
    _MODULES = {
        "p3iv.api.annotations": ("export_annotations", "import_annotations"),
        "p3iv.api.datasets": ("check", "data_enough", "import_dataset", "make_tabletop", "repair", "simulate", "stats"),
        "p3iv.api.exporting": ("export_planner",),
        "p3iv.api.features": ("align", "embed", "extract"),
        "p3iv.api.following": ("evaluate_following",),
        "p3iv.api.runs": ("compare", "evaluate", "score", "train", "write_report"),
        "p3iv.errors": ("P3ivError",),
        "p3iv.planner": ("Planner",),
        "p3iv.plans.conditions": ("Conditions",),
        "p3iv.plans.distribution": ("PlanDistribution",),
        "p3iv.types": ("Progress",),
    }

    def __getattr__(name: str) -> object:
        """Import a public name, and with it numpy or torch, only when it is used."""
        from importlib import import_module

        for module, names in _MODULES.items():
            if name in names:
                found = globals()[name] = getattr(import_module(module), name)
                return found
        raise AttributeError(f"module 'p3iv' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
