"""What a sink is: a context manager that predictions are written to, one by one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from numpy.typing import NDArray

from recal3r.errors import OutputError
from recal3r.types import Array, Camera, Image, Prediction


@dataclass(frozen=True)
class Mark:
    """Where a sink stood: enough to go on from there, whatever was written after it."""

    numbers: Mapping[str, Any] = field(default_factory=dict[str, Any])  # plain JSON: lengths of files, counts
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict[str, NDArray[Any]])  # what is held in memory

    @classmethod
    def beside(cls, parts: Mapping[str, Mark]) -> Mark:
        """Several marks as one, each under its name."""
        return cls(
            {f"{name}/{key}": value for name, part in parts.items() for key, value in part.numbers.items()},
            {f"{name}/{key}": value for name, part in parts.items() for key, value in part.arrays.items()},
        )

    def inside(self, name: str) -> Mark:
        """The part that `beside` has put under a name."""
        return Mark(_below(self.numbers, f"{name}/"), _below(self.arrays, f"{name}/"))


T = TypeVar("T")


def _below(items: Mapping[str, T], prefix: str) -> dict[str, T]:
    return {key.removeprefix(prefix): value for key, value in items.items() if key.startswith(prefix)}


class Sink(Protocol):
    """Opens its file on entering, writes as data arrives, and leaves a whole file behind however the block ends.

    A run that was killed goes on: `mark` says where the sink stands, `resume(mark)`, called before the block is
    entered, makes entering open what is there, cut back to the mark, instead of beginning anew. Written on from there,
    the files are byte for byte those of a run that was never interrupted.
    """

    @property
    def needs(self) -> frozenset[str]:
        """The outputs of the reconstructor that it works with. A class attribute where it is always the same."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        """Takes one prediction, and the picture it was made from as it came in."""
        ...

    def mark(self) -> Mark:
        """Where it stands, after what was written has safely reached the disk. What follows does not change it."""
        ...

    def resume(self, mark: Mark) -> None:
        """Before the block: enter where `mark` was taken."""
        ...


class Tee:
    """Several sinks as one. All are closed, in reverse order, even where one of them fails."""

    def __init__(self, *sinks: Sink) -> None:
        self.needs = frozenset[str]().union(*(sink.needs for sink in sinks))
        self._sinks = sinks
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            for sink in self._sinks:
                opened.enter_context(sink)
            self._opened = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        for sink in self._sinks:
            sink.write(prediction, image)

    def mark(self) -> Mark:
        return Mark.beside({str(place): sink.mark() for place, sink in enumerate(self._sinks)})

    def resume(self, mark: Mark) -> None:
        for place, sink in enumerate(self._sinks):
            sink.resume(mark.inside(str(place)))


class Guest:
    """A sink that somebody else has opened, and will close. `wants`: outputs that it shows where there are any."""

    def __init__(self, sink: Sink, wants: frozenset[str] = frozenset()) -> None:
        self.needs = sink.needs | wants
        self.write, self.mark, self.resume = sink.write, sink.mark, sink.resume

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def not_open(path: Path) -> OutputError:
    return OutputError(f"{path} is not open; write inside a `with` block.")


A = TypeVar("A", Array, Camera)


def asked_for(value: A | None, output: str, sink: object) -> A:
    """The part of a prediction that a sink cannot do without."""
    if value is None:
        raise OutputError(
            f"{type(sink).__name__} needs {output!r}, which the reconstructor was not asked for; add it to outputs."
        )
    return value
