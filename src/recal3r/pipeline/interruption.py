"""Ctrl-C between frames, where everything is whole."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self


class Interruption:
    """Inside its block, Ctrl-C (and SIGTERM) raises KeyboardInterrupt only while a frame is waited for, or when the
    loop looks; a second one raises it at once. Changes when it is asked.
    """

    def __init__(self) -> None:
        self._asked = False
        self._waiting = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def waiting(self) -> Generator[None]:
        """Around what may take for ever and changes nothing."""
        self._waiting = True
        try:
            self.look()
            yield
        finally:
            self._waiting = False

    def look(self) -> None:
        """Where everything is whole."""
        if self._asked:
            raise KeyboardInterrupt

    def _ask(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        asked_before, self._asked = self._asked, True
        if asked_before or self._waiting:
            raise KeyboardInterrupt
