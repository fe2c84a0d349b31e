"""The median of more numbers than fit in memory, exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Pieces = Callable[[], Iterator[NDArray[np.floating]]]
"""Every call begins anew."""

IN_MEMORY = 1 << 24  # numbers
_DIGIT = 16  # bits
_SIGN = np.uint64(1 << 63)


def median(pieces: Pieces, *, in_memory: int = IN_MEMORY) -> float:
    """The lower median: the smallest number that at least half of all do not exceed. NaN where there is none."""
    count = sum(piece.size for piece in pieces())
    if not count:
        return float("nan")
    rank = (count - 1) // 2
    if count <= in_memory:
        numbers = np.concatenate([piece.astype(np.float64).ravel() for piece in pieces()])
        return float(np.partition(numbers, rank)[rank])
    return _select(pieces, rank)


def _select(pieces: Pieces, rank: int) -> float:
    """The number of this rank, 16 bits at a time: each pass counts the next digit among those that agree so far."""
    found, known = 0, 0
    for shift in range(64 - _DIGIT, -1, -_DIGIT):
        counts = np.zeros(1 << _DIGIT, np.int64)
        for piece in pieces():
            keys = _sortable(piece)
            if known:
                keys = keys[keys >> np.uint64(64 - known) == np.uint64(found)]
            digits = (keys >> np.uint64(shift)) & np.uint64((1 << _DIGIT) - 1)
            counts += np.bincount(digits.astype(np.int64), minlength=1 << _DIGIT)
        below = np.cumsum(counts)
        digit = int(np.searchsorted(below, rank, side="right"))
        rank -= int(below[digit - 1]) if digit else 0
        found, known = (found << _DIGIT) | digit, known + _DIGIT
    return _number(found)


def _sortable(numbers: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Integers in the order of the numbers: the bits of a float, negative ones turned around."""
    bits = np.ascontiguousarray(numbers, np.float64).ravel().view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _number(key: int) -> float:
    bits = np.array([key], np.uint64)
    return float(np.where(bits & _SIGN, bits ^ _SIGN, ~bits).view(np.float64)[0])
