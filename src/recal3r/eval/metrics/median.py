"""The median of more numbers than fit in memory, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pieces = Callable[[], Iterator[NDArray[np.floating]]]
"""Every call begins anew; all of one type, float32 or float64."""

IN_MEMORY = 1 << 26  # numbers
_DIGIT = 16  # bits


def median(pieces: Pieces, *, count: int | None = None, in_memory: int = IN_MEMORY) -> float:
    """The lower median: the smallest number that at least half of all do not exceed. NaN where there is none.

    count: how many there are, where that is known; it saves a reading.
    """
    count = sum(piece.size for piece in pieces()) if count is None else count
    if not count:
        return float("nan")
    rank = (count - 1) // 2
    if count <= in_memory:
        return float(np.partition(np.concatenate([piece.ravel() for piece in pieces()]), rank)[rank])
    return _select(pieces, rank)


def _select(pieces: Pieces, rank: int) -> float:
    """The number of this rank, 16 bits at a time: each pass counts the next digit among those that agree so far."""
    kind = next(pieces()).dtype
    bits = 8 * kind.itemsize
    found, known = 0, 0
    while known < bits:
        counts = np.zeros(1 << _DIGIT, np.int64)
        for piece in pieces():
            keys = _sortable(piece)
            if known:
                keys = keys[keys >> (bits - known) == found]
            counts += np.bincount((keys >> (bits - known - _DIGIT)) & ((1 << _DIGIT) - 1), minlength=1 << _DIGIT)
        below = np.cumsum(counts)
        digit = int(np.searchsorted(below, rank, side="right"))
        rank -= int(below[digit - 1]) if digit else 0
        found, known = (found << _DIGIT) | digit, known + _DIGIT
    return _number(found, kind)


def _sortable(numbers: NDArray[np.floating]) -> NDArray[Any]:
    """Unsigned integers in the order of the numbers: the bits of a float, negative ones turned around."""
    bits = np.ascontiguousarray(numbers).ravel().view(f"u{numbers.dtype.itemsize}")
    sign = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    return np.where(bits & sign, ~bits, bits | sign)


def _number(key: int, kind: np.dtype[Any]) -> float:
    bits = np.array([key], f"u{kind.itemsize}")
    sign = bits.dtype.type(1 << (8 * bits.itemsize - 1))
    return float(np.where(bits & sign, bits ^ sign, ~bits).view(kind)[0])
