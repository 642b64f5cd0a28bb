"""Ask a planner for several lengths about windows: with the evidence that is wanted, where a window has it.

The words are the name of the last step, and the procedure is that of the video. A window that has no such evidence (no
video before its start, a step or a procedure that the planner does not know) is asked about without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from p3iv.catalogue import PICTURES
from p3iv.data.padding import plan_lengths
from p3iv.data.tensors import WindowTensors
from p3iv.errors import ConfigError, one_of
from p3iv.planners.checkpoint import TrainedPlanner
from p3iv.planners.header import Header
from p3iv.plans.evidence import EVIDENCE, Answers, Evidence
from p3iv.types import Array
from p3iv.validation import shown

_MAX_QUERIES = 1024  # whose evidence is in memory at a time


def check_evidence(wanted: Sequence[str], known: Sequence[str], planner: str) -> None:
    """Refuse evidence that does not exist, or that a planner cannot use.

    Raises:
        ConfigError: naming it.
    """
    given = f"--evidence {','.join(wanted)}"
    if unknown := [name for name in wanted if name not in EVIDENCE]:
        raise ConfigError(f"{given}, but {shown(unknown[0])} must be {one_of(unknown[0], EVIDENCE)}")
    if len(set(wanted)) != len(wanted) or "start" not in wanted:
        raise ConfigError(f"{given}, but it must contain start, and nothing twice.")
    if tuple(known) == PICTURES and set(wanted) != set(PICTURES):
        raise ConfigError(
            f"{given}, but this planner ({planner}) sees start and goal, and nothing else. For others, train one with "
            f"p3iv train DIR --planner p3iv-plus --horizon 1-6."
        )


def in_order(evidence: Collection[str]) -> tuple[str, ...]:
    """Pieces of evidence in the order of `EVIDENCE`."""
    return tuple(name for name in EVIDENCE if name in evidence)


@dataclass(frozen=True, eq=False)
class QueryGroup:
    """Windows that have the same pieces of evidence, with their queries; windows with one start may share a query."""

    pieces: tuple[str, ...]
    rows: Tensor  # (n,): the windows, in the order of their queries
    query: Array  # (n,): the number of the query of each, from 0

    @property
    def asked(self) -> Tensor:
        """A window of every query: (Q,)."""
        return self.rows[torch.from_numpy(np.unique(self.query, return_index=True)[1])]


@dataclass(frozen=True, eq=False)
class AnsweredWindows:
    """Some windows, and the answers to their queries."""

    rows: Tensor  # (n,): the windows
    query: Array  # (n,): which of the answers is for each of them
    answers: Answers


class WindowQueries:
    """The queries whose answers windows are.

    Args:
        windows: of any lengths.
        header: of the planner that is asked.
        procedures: the names of the tasks that the windows are numbered by.
    """

    def __init__(self, windows: WindowTensors, header: Header, procedures: Sequence[str]) -> None:
        if windows.task_ids is None:
            raise AssertionError("the windows have no tasks")
        self.windows = windows
        self._sizes = header.shape.num_actions, header.shape.num_procedures
        number_of = {name: number for number, name in enumerate(header.procedures)}
        known = torch.tensor([number_of.get(name, -1) for name in procedures], dtype=torch.int64)
        self._procedure = known[windows.task_ids]  # (N,), -1 if the planner does not know it
        last = windows.action_ids.gather(1, plan_lengths(windows.action_ids)[:, None] - 1)[:, 0]
        self._last = torch.where(last < header.shape.num_actions, last, -1)  # (N,)

    def has(self, piece: str) -> Tensor:
        """Which windows have a piece of evidence: (N,) bool."""
        if piece == "history":
            there = self.windows.has_history
            return torch.zeros(len(self.windows), dtype=torch.bool) if there is None else there
        found = {"words": self._last, "procedure": self._procedure}.get(piece)
        return torch.ones(len(self.windows), dtype=torch.bool) if found is None else found >= 0

    def count_missing(self, wanted: Sequence[str]) -> dict[str, int]:
        """How many windows lack a piece of evidence, by piece, where there are some."""
        missing = {piece: int((~self.has(piece)).sum()) for piece in wanted}
        return {piece: number for piece, number in missing.items() if number}

    def groups(self, wanted: Sequence[str]) -> list[QueryGroup]:
        """All windows, by the pieces that they have of those that are wanted."""
        there = torch.stack([self.has(piece) for piece in wanted], dim=1)  # (N, pieces)
        found = []
        for has in torch.unique(there, dim=0).flip(0):
            pieces = tuple(piece for piece, one in zip(wanted, has.tolist(), strict=True) if one)
            found.append(self._group(pieces, (there == has).all(dim=1).nonzero()[:, 0]))
        return found

    def evidence(self, pieces: Sequence[str], rows: Tensor) -> Evidence:
        """The evidence of the queries of some windows, which must have all these pieces."""
        observed = {name: getattr(self.windows, name) for name in ("start", "goal", "history") if name in pieces}
        said = {"words": ("last_step", self._last), "procedure": ("procedure", self._procedure)}
        parts = {name: part[rows].numpy() for name, part in observed.items()}
        for piece, size in zip(said, self._sizes, strict=True):
            if piece in pieces:
                name, ids = said[piece]
                parts[name] = torch.nn.functional.one_hot(ids[rows], size).double().numpy()
        return Evidence(**parts)

    def ask(self, trained: TrainedPlanner, group: QueryGroup) -> Iterator[AnsweredWindows]:
        """The answers for the windows of a group, some at a time, in their order."""
        first = 0
        for rows in group.asked.split(_MAX_QUERIES):
            for answers in trained.answers(self.evidence(group.pieces, rows)):
                here = slice(*np.searchsorted(group.query, (first, first + len(answers))).tolist())
                yield AnsweredWindows(group.rows[here], group.query[here] - first, answers)
                first += len(answers)

    def _group(self, pieces: tuple[str, ...], rows: Tensor) -> QueryGroup:
        """Without a picture of the goal, windows of all lengths with the same start and words are one query."""
        if "goal" in pieces:
            return QueryGroup(pieces, rows, np.arange(len(rows)))
        number_of: dict[tuple[object, ...], int] = {}
        query = []
        for row in rows.tolist():
            window, said = self.windows.windows[row], int(self._last[row]) if "words" in pieces else -1
            query.append(number_of.setdefault((window.video, window.first_step, said), len(number_of)))
        order = np.argsort(query, kind="stable")
        return QueryGroup(pieces, rows[torch.from_numpy(order)], np.array(query)[order])
