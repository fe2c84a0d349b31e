"""Rows of numbers that are computed once and read many times: in memory while they are few, else in a file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

_PIECE = 1 << 20  # rows
_IN_MEMORY = 1 << 28  # bytes


class Spool:
    """float32 rows of so many columns. Changes while it is written; the file goes with the `with` block."""

    def __init__(self, columns: int) -> None:
        self.columns = columns
        self.rows = 0
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115  # closed by the `with` block this is

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def write(self, *parts: NDArray[np.floating]) -> None:
        """Columns beside each other: each part [K] or [K, c]."""
        rows = np.column_stack(parts).astype(np.float32)
        self._file.seek(0, 2)
        self._file.write(rows.tobytes())
        self.rows += len(rows)

    def pieces(self) -> Iterator[NDArray[np.float32]]:
        """[K, columns] each, in the order they were written. Readings may be interleaved."""
        size, at = 4 * self.columns * _PIECE, 0
        while True:
            self._file.seek(at)
            data = self._file.read(size)
            if not data:
                return
            at += len(data)
            yield np.frombuffer(data, np.float32).reshape(-1, self.columns)
