"""Who does the jobs: this process, several of them, or a Ray cluster that sees the same folders."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence

from p3iv.errors import ConfigError
from p3iv.experiments.measure import Job, Outcome, work
from p3iv.parallel import run_in_pool

ENGINES = ("local", "ray")
_DIED = "the process that ran it died, twice; it may have been out of memory"


def check_engine(engine: str, address: str | None, num_jobs: int) -> None:
    """Refuse an engine that there is not, and options that it has no use for."""
    if engine not in ENGINES:
        raise ConfigError(f"--engine {engine}, but it is one of {', '.join(ENGINES)}.")
    if address is not None and engine != "ray":
        raise ConfigError(f"--address {address} is of a Ray cluster: pass --engine ray.")
    if address is not None and num_jobs != 1:
        raise ConfigError(f"--jobs {num_jobs}, but the cluster at {address} has its own number: pass one of the two.")


def run_jobs(todo: Sequence[Job], *, engine: str, num_jobs: int, address: str | None) -> Iterator[Outcome]:
    """Do all jobs, in whatever order they are done."""
    if engine == "ray":
        return _run_on_cluster(todo, num_jobs, address)
    return map(work, todo) if num_jobs == 1 else _run_in_processes(todo, num_jobs)


def _run_in_processes(todo: Sequence[Job], num_jobs: int) -> Iterator[Outcome]:
    """Over processes of this machine; a job on which a process dies is tried once more, alone."""
    waiting = deque(todo)
    while waiting:
        suspects = yield from _outcomes(run_in_pool(work, waiting, num_jobs, is_patient=False))
        for job in suspects:
            if (yield from _outcomes(run_in_pool(work, deque([job]), 1, is_patient=False))):
                yield Outcome(job.key, "failed", _DIED)


def _outcomes(pool: Generator[tuple[Job, Outcome], None, list[Job]]) -> Generator[Outcome, None, list[Job]]:
    """The outcomes of a pool; returns the jobs that were under way when a process died."""
    try:
        while True:
            try:
                _, outcome = next(pool)
            except StopIteration as end:
                suspects: list[Job] = end.value
                return suspects
            yield outcome
    finally:
        pool.close()


def _run_on_cluster(todo: Sequence[Job], num_jobs: int, address: str | None) -> Iterator[Outcome]:
    from p3iv.parallel import (
        Lost,
        run_on_cluster,
    )

    for job, result in run_on_cluster(work, deque(todo), address=address, jobs=num_jobs):
        if isinstance(result, Lost):
            yield Outcome(job.key, "failed", f"its workers died ({result.why})")
        else:
            yield result
