"""p3iv plans procedures from video: two moments in, the plausible plans between them out.

from p3iv import Planner

planner = Planner.from_pretrained("runs/first")
print(planner.plan("kitchen.mp4@12.5", "kitchen.mp4@71").to_json())
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from p3iv.planner import Planner as Planner
else:

    def __getattr__(name: str) -> type:
        """Import `Planner`, and with it torch, only when it is used."""
        if name != "Planner":
            raise AttributeError(f"module 'p3iv' has no attribute {name!r}")
        from p3iv.planner import Planner

        return Planner
