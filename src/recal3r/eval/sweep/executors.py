"""Where jobs run: in this process, in others on this machine (one for each device), or on a cluster through Ray.

A job is one sequence under one contestant. A worker that dies costs its job, which is tried again on another; a job
that kills every worker becomes a result that says so.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from typing import Any, Protocol

from recal3r.errors import EvalError
from recal3r.eval.score import Done, Job

Run = Callable[[Job], Done]
Outcome = tuple[Job, Done | None]
"""None: the workers that had the job all died."""


class Executor(Protocol):
    def run(self, work: Run, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Every job once, in the order in which they are finished."""
        ...


@dataclass(frozen=True)
class ThisProcess:
    device: str = "cpu"

    def run(self, work: Run, jobs: Sequence[Job]) -> Iterator[Outcome]:
        for job in jobs:
            yield job, work(replace(job, device=self.device))


@dataclass(frozen=True)
class Processes:
    """One worker process for each device named; name one twice for two workers on it."""

    devices: tuple[str, ...]
    retries: int = 1

    def run(self, work: Run, jobs: Sequence[Job]) -> Iterator[Outcome]:
        free: queue.Queue[_Worker] = queue.Queue()
        workers = [_Worker(device) for device in self.devices]
        for worker in workers:
            free.put(worker)

        def one(job: Job) -> Outcome:
            worker = free.get()
            try:
                return job, worker.run(work, job, self.retries)
            finally:
                free.put(worker)

        with ThreadPoolExecutor(len(workers)) as threads:
            waiting = [threads.submit(one, job) for job in jobs]
            try:
                for finished in as_completed(waiting):
                    yield finished.result()
            finally:  # also where whoever asked has gone: what has not begun does not begin
                for future in waiting:
                    future.cancel()
                for worker in workers:
                    worker.close()


class _Worker:
    """A process that is started again when it dies. Changes with every death."""

    def __init__(self, device: str) -> None:
        self.device = device
        self._pool = _pool()

    def run(self, work: Run, job: Job, retries: int) -> Done | None:
        for _ in range(retries + 1):
            try:
                return self._pool.submit(work, replace(job, device=self.device)).result()
            except BrokenProcessPool:
                self._pool.shutdown(wait=False)
                self._pool = _pool()
        return None

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)


def _pool() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


@dataclass(frozen=True)
class OnRay:
    """A Ray cluster at `address`, or one of `workers` workers on this machine. Needs the extra `ray`.

    Workers read the data and weights, and keep predictions, under the same paths as here; results come back by Ray.
    """

    workers: int = 2
    address: str | None = None
    gpus: float = 0.0
    """The share of a GPU that a job takes."""
    retries: int = 3

    def run(self, work: Run, jobs: Sequence[Job]) -> Iterator[Outcome]:
        with _cluster(self) as ray:
            died = (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError)
            device = "cuda" if self.gpus else "cpu"
            remote: Any = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=self.retries)(work)
            waiting = {remote.remote(replace(job, device=device)): job for job in jobs}
            while waiting:
                finished, _ = ray.wait(list(waiting), num_returns=1)
                job = waiting.pop(finished[0])
                try:
                    yield job, ray.get(finished[0])
                except died:
                    yield job, None


@contextmanager
def _cluster(wanted: OnRay) -> Generator[Any]:
    try:
        import ray  # noqa: PLC0415  # an extra, and heavy
    except ImportError as error:
        raise EvalError("Ray is not installed; `pip install recal3r[ray]` would bring it.") from error
    settings: dict[str, Any] = {"address": wanted.address} if wanted.address else {"num_cpus": wanted.workers}
    if not wanted.address:
        settings["include_dashboard"] = False
        if wanted.gpus:
            settings["num_gpus"] = max(1, round(wanted.workers * wanted.gpus))
    ray.init(log_to_driver=False, configure_logging=False, **settings)  # pyright: ignore
    try:
        yield ray
    finally:
        ray.shutdown()
