"""What a run leaves for people to read: metrics.csv always, TensorBoard if it is installed."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from p3iv.atomic import write_text
from p3iv.errors import TrainingError


class MetricsTable:
    """`metrics.csv`, one row per epoch; a resumed run goes on after the last epoch that was saved."""

    def __init__(self, run: Path, *, finished_epochs: int) -> None:
        self._path = run / "metrics.csv"
        self._rows = [row for row in _read_rows(self._path) if int(row["epoch"]) <= finished_epochs]
        if self._rows or self._path.exists():
            self._rewrite()
        self._board = _open_board(run, finished_epochs)

    def add(self, row: Mapping[str, float]) -> None:
        """Append one epoch."""
        is_new = not self._path.exists()
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(row), lineterminator="\n")
            if is_new:
                writer.writeheader()
            writer.writerow(row)
        if self._board is not None:
            for name, value in row.items():
                self._board.add_scalar(name, value, int(row["epoch"]))

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def _rewrite(self) -> None:
        if not self._rows:
            self._path.unlink()
            return
        lines = [",".join(self._rows[0]), *(",".join(row.values()) for row in self._rows)]
        write_text(self._path, "\n".join(lines) + "\n")


def _read_rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    whole = [row for row in rows if None not in row.values() and None not in row]  # a kill may cut the last row short
    if not all((row.get("epoch") or "").isdigit() for row in whole):
        raise TrainingError(f"{path} is damaged. Move it away, then --resume.")
    return whole


def _open_board(run: Path, finished_epochs: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter  # noqa: PLC0415 - an optional dependency
    except ImportError:
        return None
    return SummaryWriter(run / "tensorboard", purge_step=finished_epochs + 1)
