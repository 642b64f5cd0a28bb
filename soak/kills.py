"""Kills of every command that writes, before each of its changes of a file and at random times.

After a kill, every file is the old one or a complete new one, readers refuse what is neither, and the same command
succeeds and leaves exactly what it leaves undisturbed.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from soak.processes import Change, Command, Ended, Hook, KillAt, run_p3iv
from soak.report import Failure, Part
from soak.scenarios import (
    EMPTY,
    Scenario,
    Tree,
    copy_folder,
    differences,
    digest,
    must,
    read_rows,
    read_tree,
    scenarios,
)

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SIGNAL_SHARE = 0.2  # of the disturbances; the others are kills before a change of a file


@dataclass(frozen=True)
class Recorder:
    """Writes the changes of files, and the content of whatever is moved into place, to a file elsewhere."""

    folder: Path
    record: Path

    def __call__(self, change: Change) -> None:
        moved = dict(self._versions(change.path, change.destination)) if change.destination else {}
        with self.record.open("a", encoding="utf-8") as file:
            file.write(json.dumps([change.event, str(change.path), moved]) + "\n")

    def _versions(self, path: Path, final: Path) -> Iterator[tuple[str, str]]:
        for file in [path] if path.is_file() else path.rglob("*"):
            if file.is_file():
                place = final.absolute() / file.relative_to(path)
                yield str(place.relative_to(self.folder)), digest(file, place)


@dataclass
class Trials:
    """One command: the folder before it, the folder after it, and what to expect in between."""

    scenario: Scenario
    work: Path
    num_changes: int = 0
    seconds: float = 0.0
    versions: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    before: Tree = field(default_factory=dict)
    after: Tree = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Run the command undisturbed, twice: two runs must leave the same."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.scenario.prepare(self.folder)
        shutil.copytree(self.folder, self._before, symlinks=True)
        self.before = read_tree(self._before)
        record = self.work / "record"
        must(run_p3iv(self.folder, *self.scenario.words, hook=Recorder(self.folder, record)))
        lines = [json.loads(line) for line in record.read_text().splitlines()]
        self.num_changes = len(lines)
        self.after = read_tree(self.folder)
        shutil.copytree(self.folder, self.work / "after", symlinks=True)
        for tree in (self.before, self.after, *(moved for _, _, moved in lines)):
            for name, version in tree.items():
                self.versions[name].add(version)
        began = time.monotonic()
        must(run_p3iv(self.renew(), *self.scenario.words))
        self.seconds = time.monotonic() - began
        if found := list(differences(read_tree(self.folder), self.after)):
            raise RuntimeError(f"{self.scenario.name}: two undisturbed runs differ: {found}")

    @property
    def _before(self) -> Path:
        return self.work / "before"

    @property
    def folder(self) -> Path:
        return self.work / "folder"

    def renew(self) -> Path:
        """The folder in which the command runs, as before it; always at the same place, since files name it."""
        copy_folder(self._before, self.folder)
        return self.folder

    def disturb(self, *, hook: Hook | None = None, sent: signal.Signals | None = None, after_s: float = 0) -> Ended:
        """Run the command in a new copy of the folder, with a hook or until a signal ends it."""
        command = Command(self.renew(), *self.scenario.words, hook=hook)
        if sent is not None:
            time.sleep(after_s)
            command.send(sent)
        return command.end()

    def problems(self, ended: Ended) -> Iterator[str]:
        """What is wrong after a disturbance."""
        if ended.problem:
            yield ended.problem
        yield from self._lost_or_damaged(ended_early=ended.exit_code > 0)
        words = self.scenario.words
        again = run_p3iv(self.folder, *words, *self.scenario.resumed)
        if again.exit_code == 1 and not again.problem and self._is_complete():
            again = run_p3iv(self.folder, *words, "--overwrite")  # it was killed after its last change
        if again.exit_code != 0:
            yield f"cannot be run again, exit code {again.exit_code}: {again.stderr[-1000:]}"
            return
        yield from (f"after running it again, {what}" for what in differences(read_tree(self.folder), self.after))

    def _is_complete(self) -> bool:
        return _visible(read_tree(self.folder)) == _visible(self.after)

    def _lost_or_damaged(self, *, ended_early: bool) -> Iterator[str]:
        """After Ctrl-C or an error, a command writes tables and a model card of what it has, as no other run does."""
        found = _visible(read_tree(self.folder))
        for name, version in () if ended_early else found.items():
            if version not in (*self.versions[name], EMPTY) and not self._is_part_of_table(name):
                yield f"{name} is neither the old nor a new one"
        lost = [name for name in self.before if name in self.after and name not in found and not self._is_aside(name)]
        if lost:
            yield f"lost: {', '.join(lost[:5])}"
        if found not in (_visible(self.before), _visible(self.after)) and (problem := self.scenario.check(self.folder)):
            yield problem

    def _is_part_of_table(self, name: str) -> bool:
        """metrics.csv gets a row per epoch."""
        path, whole = self.folder / name, self.work / "after" / name
        if path.name != "metrics.csv" or not whole.exists():
            return False
        rows = read_rows(path)[:-1]  # the last one may be incomplete, which its reader knows
        return rows == read_rows(whole)[: len(rows)]

    def _is_aside(self, name: str) -> bool:
        """Whether a file is in a folder that is just being replaced: the old one is aside, or the new one there."""
        path = self.folder / name
        for folder in list(path.parents)[: len(Path(name).parts) - 1]:
            hidden = folder.parent.glob(f".{folder.name}.*.old/was")
            if any(digest(old / path.relative_to(folder), path) == self.before[name] for old in hidden):
                return True
        return self.scenario.replaces and (self.folder / Path(name).parts[0]).exists()


def _visible(tree: Tree) -> Tree:
    return {name: version for name, version in tree.items() if not any(p.startswith(".") for p in Path(name).parts)}


def make_trials(part: Part, work: Path, names: Sequence[str] = ()) -> list[Trials]:
    """Run every command undisturbed, or those with the given names; one that fails then is a failure of the part."""
    trials = []
    for number, scenario in enumerate(scenarios()):
        if not names or scenario.name in names:
            try:
                trials.append(Trials(scenario, work / str(number)))
            except RuntimeError as error:
                part.fail(Failure(scenario.name, str(error), {}))
    return trials


def run_kills(part: Part, trials: Sequence[Trials]) -> None:
    """Kill commands before each change of a file, in a random order; each at the same share of its changes."""
    rng = random.Random(part.seed)
    points: dict[str, list[int]] = {one.scenario.name: [] for one in trials}
    done = dict.fromkeys(points, 0)
    for one in trials:
        part.count(one.scenario.name, changes=one.num_changes)
    while not part.is_over:
        left = [one for one in trials if done[one.scenario.name] < part.size]
        if not left:
            return
        next_one = min(left, key=lambda one: done[one.scenario.name] / one.num_changes)
        _kill_once(part, next_one, rng, points[next_one.scenario.name])
        done[next_one.scenario.name] += 1


def _kill_once(part: Part, trials: Trials, rng: random.Random, points: list[int]) -> None:
    if rng.random() < SIGNAL_SHARE:
        sent, after_s = rng.choice(SIGNALS), rng.uniform(0, trials.seconds)
        what: dict[str, object] = {"signal": sent.name, "after_s": round(after_s, 3)}
        ended = trials.disturb(sent=sent, after_s=after_s)
        is_killed, kind = ended.exit_code != 0, "kills at a time" if sent == signal.SIGKILL else "signals"
    else:
        number = next_point(rng, points, trials.num_changes)
        what = {"change": number}
        ended = trials.disturb(hook=KillAt(trials.folder, number))
        is_killed, kind = ended.exit_code == -signal.SIGKILL, "kills"
    part.count(trials.scenario.name, **{kind if is_killed else "ended before": 1})
    for problem in trials.problems(ended):
        part.fail(Failure(trials.scenario.name, problem, what))


def next_point(rng: random.Random, points: list[int], number: int) -> int:
    """Take one of the numbers 1 to `number`; each is taken once before any is taken again."""
    if not points:
        points += rng.sample(range(1, number + 1), number)
    return points.pop()
