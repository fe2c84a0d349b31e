"""Reading ahead in a thread, so that the network does not wait for the disk."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Semaphore, Thread

from recal3r.sources.base import Reader, Source, SourceError
from recal3r.types import Frame


@dataclass(frozen=True)
class _Ended:
    """The last thing a reading thread hands over; `error` is what ended it, if it was not the last frame."""

    error: BaseException | None = None


class Prefetch(Reader):
    """The same frames in the same order, up to `queue_size` of them read before they are asked for.

    An error of the source arrives where its frame would have. The thread ends with the reading, however that ends;
    a source that waits for its next frame at that moment is waited for.
    """

    def __init__(self, source: Source, queue_size: int = 4) -> None:
        super().__init__()
        if queue_size < 1:
            raise SourceError(f"queue_size={queue_size} leaves no room for a frame; use 1 or more.")
        self.source = source
        self.queue_size = queue_size
        self.repeatable = source.repeatable

    @property
    def description(self) -> str:
        return f"{self.source.description}, read {self.queue_size} ahead"

    @property
    def frames(self) -> int | None:
        return self.source.frames

    def close(self) -> None:
        super().close()
        self.source.close()

    def _read(self) -> Generator[Frame]:
        ahead = _Ahead(iter(self.source), self.queue_size)
        try:
            yield from ahead.frames()
        finally:
            ahead.stop()


class _Ahead:
    """One reading and its thread. Changes as it goes."""

    def __init__(self, frames: Iterator[Frame], room: int) -> None:
        self._frames = frames
        self._room = Semaphore(room)  # taken before a frame is read, so that there are never more than `room`
        self._ready: SimpleQueue[Frame | _Ended] = SimpleQueue()
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="recal3r-prefetch", daemon=True)
        self._thread.start()

    def frames(self) -> Iterator[Frame]:
        while not isinstance(item := self._ready.get(), _Ended):
            self._room.release()
            yield item
        if item.error is not None:
            raise item.error

    def stop(self) -> None:
        self._stopped.set()
        self._room.release()  # wakes the thread where it waits for room
        self._thread.join()

    def _run(self) -> None:
        try:
            self._fill()
        except BaseException as error:  # all of them are raised again, at the consumer
            self._ready.put(_Ended(error))
        else:
            self._ready.put(_Ended())

    def _fill(self) -> None:
        try:
            while self._room.acquire() and not self._stopped.is_set():
                frame = next(self._frames, None)
                if frame is None:
                    return
                self._ready.put(frame)
        finally:
            if isinstance(self._frames, Generator):
                self._frames.close()  # what it opened is closed in the thread that used it
