"""What a sink is: a context manager that predictions are written to, one by one."""

from __future__ import annotations

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from recal3r.errors import OutputError
from recal3r.types import Array, Image, Prediction


class Sink(Protocol):
    """Opens its file on entering, writes as data arrives, and leaves a whole file behind however the block ends."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        """Takes one prediction, and the picture it was made from as it came in."""
        ...


class Tee:
    """Several sinks as one. All are closed, in reverse order, even where one of them fails."""

    def __init__(self, *sinks: Sink) -> None:
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


def asked_for(value: Array | None, output: str, sink: object) -> Array:
    """The part of a prediction that a sink cannot do without."""
    if value is None:
        raise OutputError(
            f"{type(sink).__name__} needs {output!r}, which the reconstructor was not asked for; add it to outputs."
        )
    return value
