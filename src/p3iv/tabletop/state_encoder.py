"""The oracle encoder: features and step embeddings that need no network.

A second of video becomes the symbolic state of the table, noisy and mixed by one fixed random projection; a step's text
becomes a hashed bag of its words. It shows what a planner does when perception is not the bottleneck.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from p3iv.tabletop.tasks import PROCEDURES, RULES
from p3iv.tabletop.world import Execution

FEATURE_WIDTH = 128
LANGUAGE_WIDTH = 128
# Lengths of the noise, where one fact moves a row by about 1. The look of a video (light, view, table) moves all of its
# rows along a few directions, and further than the facts do: as with real features, what looks alike is not what is
# alike, so that a planner has to learn what to ignore.
LOOK_NOISE, SECOND_NOISE = 4.0, 0.5
LOOK_RANK = 3
_STOP_WORDS = {"a", "an", "the", "of", "its"}

FACTS: tuple[str, ...] = tuple(
    sorted(
        {fact for rule in RULES.values() for fact in rule.adds | rule.needs}
        | {fact for procedure in PROCEDURES for start in procedure.starts for fact in start}
    )
)


def encode_states(
    execution: Execution, times: Sequence[tuple[float, float]], length_s: float, rng: np.random.Generator
) -> NDArray[np.float16]:
    """One row per second: the table at the middle of that second, a step in progress being half done half-way."""
    facts = np.array([[fact in state for fact in FACTS] for state in execution.states], dtype=np.float64)  # (N+1, X)
    seconds = np.arange(int(np.ceil(length_s))) + 0.5
    shown = np.repeat(facts[:1], len(seconds), axis=0)
    for step, (start_s, end_s) in enumerate(times):
        progress = np.clip((seconds - start_s) / (end_s - start_s), 0.0, 1.0)[:, None]
        shown += progress * (facts[step + 1] - facts[step])
    facts_to_rows, look_to_rows = _projections()
    look = LOOK_NOISE / np.sqrt(LOOK_RANK) * rng.normal(size=LOOK_RANK) @ look_to_rows
    noise = SECOND_NOISE / np.sqrt(FEATURE_WIDTH) * rng.normal(size=(len(seconds), FEATURE_WIDTH))
    return np.asarray(shown @ facts_to_rows + look + noise, dtype=np.float16)  # (seconds, F)


def embed_text(text: str) -> NDArray[np.float32]:
    """A hashed bag of words: every word adds four signed ones at places that its hash chooses; unit length."""
    embedding = np.zeros(LANGUAGE_WIDTH)
    for word in text.lower().split():
        if word not in _STOP_WORDS:
            digest = hashlib.sha256(word.encode()).digest()
            for place, sign in zip(digest[0:4], digest[4:8], strict=True):
                embedding[place % LANGUAGE_WIDTH] += 1.0 if sign % 2 else -1.0
    length = max(float(np.linalg.norm(embedding)), 1e-9)
    return np.asarray(embedding / length, dtype=np.float32)


def _projections() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How facts and looks move a row; the same for every dataset, each row of about unit length."""
    rng = np.random.default_rng(2022)
    mixed = rng.normal(size=(len(FACTS) + LOOK_RANK, FEATURE_WIDTH)) / np.sqrt(FEATURE_WIDTH)
    return mixed[: len(FACTS)], mixed[len(FACTS) :]
