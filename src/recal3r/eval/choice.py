"""Which sequences of a dataset, and which frames of a sequence. "N frames" means another thing in every paper.

L frames a sequence has · N frames wanted
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from recal3r.errors import EvalError


class FrameChoice(Protocol):
    @property
    def count(self) -> int | None:
        """N; None for all there are."""
        ...

    def of(self, available: int) -> list[int]:
        """The frames taken of so many, in order: N, or fewer where there are fewer."""
        ...


@dataclass(frozen=True)
class Spread:
    """ReCal3R: the first frame, then every ⌊(L−1)/(N−1)⌋-th of the whole sequence, cut to N."""

    count: int | None = None

    def __post_init__(self) -> None:
        _require_count(self.count)

    def of(self, available: int) -> list[int]:
        stride = 1 if self.count is None or self.count < 2 else max(1, (available - 1) // (self.count - 1))
        return list(range(0, available, stride))[: self.count]


@dataclass(frozen=True)
class First:
    """TTT3R, CUT3R, MeMix: the first N frames at a stride, from `start` on."""

    count: int | None = None
    stride: int = 1
    start: int = 0

    def __post_init__(self) -> None:
        _require_count(self.count)
        if self.stride < 1 or self.start < 0:
            raise EvalError(f"stride={self.stride}, start={self.start} takes no frames; use at least 1, and 0 or more.")

    def of(self, available: int) -> list[int]:
        return list(range(self.start, available, self.stride))[: self.count]


@dataclass(frozen=True)
class FirstSparse:
    """Reconstruction: the first N frames, every second one where N is below `dense_from`."""

    count: int | None = None
    dense_from: int = 500

    def __post_init__(self) -> None:
        _require_count(self.count)

    def of(self, available: int) -> list[int]:
        stride = 2 if self.count is not None and self.count < self.dense_from else 1
        return list(range(0, available, stride))[: self.count]


def _require_count(count: int | None) -> None:
    if count is not None and count < 1:
        raise EvalError(f"count={count} takes no frames; use 1 or more, or None for all.")


class SequenceChoice(Protocol):
    def of(self, names: Sequence[str]) -> list[str]: ...


@dataclass(frozen=True)
class Every:
    def of(self, names: Sequence[str]) -> list[str]:
        return list(names)


@dataclass(frozen=True)
class Evenly:
    """Of n sorted names every ⌊n/count⌋-th, the first `count` of these: how ScanNet-50 was chosen."""

    count: int

    def of(self, names: Sequence[str]) -> list[str]:
        ordered = sorted(names)
        return ordered[:: max(1, len(ordered) // self.count)][: self.count]


@dataclass(frozen=True)
class Named:
    """These. One that is not there is named all the same: it fails, is listed, and the mean says so."""

    names: tuple[str, ...]

    def of(self, names: Sequence[str]) -> list[str]:
        del names
        return list(self.names)
