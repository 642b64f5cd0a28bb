"""Evidence of many queries as tensors: what is seen or said, and which of it is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from p3iv.data.tensors import WindowTensors
from p3iv.planners.header import PlannerShape
from p3iv.plans.evidence import EVIDENCE, HISTORY, PROCEDURE, WORDS, Evidence

MIN_WORDS = 1e-6  # probability of a last step that the words do not mean


@dataclass(frozen=True)
class QueryTensors:
    """The evidence of B queries; what is absent is zero and is not read."""

    start: Tensor  # (B, F)
    goal: Tensor  # (B, F)
    history: Tensor  # (B, F)
    last_step: Tensor  # (B, A): probabilities of the last step, from words
    procedure: Tensor  # (B, P): probabilities of the procedure
    has: Tensor  # (B, 5): 1 where a piece of evidence is there, in the order of EVIDENCE

    def __len__(self) -> int:
        return len(self.has)

    def mask(self, number: int) -> Tensor:
        """Whether one piece of evidence is there: (B, 1, 1)."""
        return self.has[:, number, None, None]

    def word_scores(self) -> Tensor:
        """What words say about the last action: (B, A)."""
        return self.has[:, WORDS, None] * self.last_step.clamp_min(MIN_WORDS).log()

    def split(self, size: int) -> list[QueryTensors]:
        """Some queries at a time."""
        parts = [getattr(self, field.name).split(size) for field in fields(self)]
        return [QueryTensors(*part) for part in zip(*parts, strict=True)]

    def with_has(self, has: Tensor) -> QueryTensors:
        """The first query, once for every row of `has` (n, 5)."""
        rows = {field.name: getattr(self, field.name)[:1].expand(len(has), -1) for field in fields(self)}
        return QueryTensors(**{**rows, "has": has})


def query_of(evidence: Evidence, shape: PlannerShape, like: Tensor) -> QueryTensors:
    """The evidence of queries on the device and in the precision of a tensor."""
    filled = evidence.filled(shape.evidence_widths)
    return QueryTensors(**{name: torch.as_tensor(part).to(like) for name, part in filled.items()})


def query_of_windows(
    windows: WindowTensors, shape: PlannerShape, like: Tensor, wanted: Sequence[str] = ("start", "goal")
) -> QueryTensors:
    """The queries whose answers windows of one length are: with the wanted pieces of evidence, where a window has them.

    The words are the name of the last step, the procedure is the task of the video.
    """
    number = len(windows)
    if windows.history is None or windows.has_history is None or windows.task_ids is None:
        raise AssertionError("queries need windows with history and tasks")
    has = torch.tensor([name in wanted for name in EVIDENCE]).to(like).repeat(number, 1)
    last = windows.action_ids.gather(1, windows.lengths[:, None] - 1)
    has[:, HISTORY] *= windows.has_history.to(like)
    has[:, PROCEDURE] *= (windows.task_ids < shape.num_procedures).to(like)
    return QueryTensors(
        start=windows.start.to(like),
        goal=windows.goal.to(like),
        history=windows.history.to(like),
        last_step=torch.nn.functional.one_hot(last[:, 0], shape.num_actions).to(like),
        procedure=torch.nn.functional.one_hot(windows.task_ids, shape.num_procedures).to(like),
        has=has,
    )
