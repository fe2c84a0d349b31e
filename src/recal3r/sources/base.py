"""What a source is: frames, one at a time, of something that is opened when the first of them is asked for."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self, runtime_checkable
from weakref import WeakSet

from recal3r.errors import Recal3rError
from recal3r.types import Frame

_SENTENCES_KEPT = 20


class SourceError(Recal3rError):
    """Frames cannot be had from where they were asked for."""


@runtime_checkable
class Source(Protocol):
    """An iterable of frames that holds no more of them than it is handing out.

    Every `iter(source)` is a reading of its own. Leaving the `with` block, or `close`, ends all of them.
    """

    @property
    def description(self) -> str:
        """What was chosen, for people: kind, name, and what is taken of it."""
        ...

    @property
    def frames(self) -> int | None:
        """How many frames there will be; None where nobody knows before the end."""
        ...

    @property
    def repeatable(self) -> bool:
        """Whether another reading gives the same frames. What is live is gone when it was read."""
        ...

    def __iter__(self) -> Iterator[Frame]: ...

    def close(self) -> None:
        """Lets go of all that was opened."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Reader:
    """A source whose readings are generators: `_read` opens, yields, and closes in a `finally` or `with`."""

    repeatable = True

    def __init__(self) -> None:
        self._readings: WeakSet[Generator[Frame]] = WeakSet()

    def __iter__(self) -> Iterator[Frame]:
        reading = self._read()
        self._readings.add(reading)
        return reading

    def _read(self) -> Generator[Frame]:
        raise NotImplementedError

    def close(self) -> None:
        for reading in tuple(self._readings):
            reading.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class Skipped:
    """What was broken and left out, counted; the first few are kept in words. Changes while frames are read."""

    count: int = 0
    sentences: list[str] = field(default_factory=list[str])

    def add(self, error: SourceError) -> None:
        self.count += 1
        if len(self.sentences) < _SENTENCES_KEPT:
            self.sentences.append(str(error))


@dataclass(frozen=True)
class Selection:
    """Of the frames numbered from `start` to before `end`, every `stride`-th, beginning with the first."""

    stride: int = 1
    start: int = 0
    end: int | None = None

    def __post_init__(self) -> None:
        if self.stride < 1 or self.start < 0 or (self.end is not None and self.end <= self.start):
            raise SourceError(
                f"stride={self.stride}, start={self.start}, end={self.end} selects no frames; "
                "use a stride of at least 1, a start of at least 0, and an end above the start (or None)."
            )

    def __contains__(self, number: int) -> bool:
        return number >= self.start and not self.is_past(number) and (number - self.start) % self.stride == 0

    def is_past(self, number: int) -> bool:
        return self.end is not None and number >= self.end

    def count(self, total: int) -> int:
        """How many of `total` frames are selected."""
        return len(range(total)[self.start : self.end : self.stride])

    def __str__(self) -> str:
        """What to append to a description: empty where everything is taken."""
        parts = [f"one in {self.stride}" if self.stride > 1 else ""]
        if self.start or self.end is not None:
            parts.append(f"frames {self.start} to " + ("the end" if self.end is None else f"before {self.end}"))
        return "".join(f", {part}" for part in parts if part)
