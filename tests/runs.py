"""Small settings for training in tests."""

from __future__ import annotations

from typing import Any

from p3iv.config import Config, override, preset_config

_SIZES = {
    "tiny": {"model.width": 32, "loss.latents": 3},
    "p3iv-plus": {"model.width": 32, "model.heads": 4, "model.feed_forward": 64, "model.memory_slots": 8},
}


def quick(planner: str = "p3iv", *, epochs: int = 2, **changes: Any) -> Config:
    """Settings of a small planner that trains for a few epochs on the tabletop's own split.

    A change is written with two underscores for the dot: `quick("ddn", model__width=16)`.
    """
    preset = "p3iv-plus" if planner == "p3iv-plus" else "tiny"
    settings = {"planner": planner, "data.split": "release", "optim.epochs": epochs, **_SIZES[preset]}
    return override(preset_config(preset), settings | {name.replace("__", "."): v for name, v in changes.items()})
