"""Writing in a thread of its own, so that the network does not wait for the disk."""

from __future__ import annotations

from collections.abc import Callable
from queue import Queue
from threading import Event, Thread
from types import TracebackType
from typing import Self

Job = Callable[[], None]


class Writer:
    """Does one job after the other, in the order in which they were given, at most `room` of them behind.

    What ends a job ends all: it is raised where the next one is given, or at the end of the block. A block that is
    left by an error still has its jobs done; one that is interrupted again while it waits for that has not.
    """

    def __init__(self, room: int = 4) -> None:
        self._jobs: Queue[Job | None] = Queue(room)
        self._error: BaseException | None = None
        self._given_up = Event()
        self._thread = Thread(target=self._run, name="recal3r-writer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._jobs.put(None)
            self._thread.join()
        except BaseException:
            self._given_up.set()
            self._thread.join()  # the job at hand
            raise
        if self._error is not None and self._error is not error:
            raise self._error

    def do(self, job: Job) -> None:
        """Takes a job; waits while there is no room."""
        if self._error is not None:
            raise self._error
        self._jobs.put(job)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._error is not None or self._given_up.is_set():
                continue  # makes room, so that nobody waits for ever
            try:
                job()
            except BaseException as error:  # all of them are raised again, where jobs come from
                self._error = error
