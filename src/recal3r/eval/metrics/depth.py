"""Errors of depth in metres, and the alignments that come before them.

A sequence has more pixels than fit in memory, so its valid ones come in pieces (`Pairs`); sums are float64 throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from recal3r.eval.metrics.median import median

Depth = NDArray[np.floating]
Pairs = Callable[[], Iterator[tuple[Depth, Depth]]]
"""Every call begins anew: pieces of (estimated, true) depth [K] of the valid pixels of a sequence."""

_SMALLEST_SCALE = 1e-3
_SMALLEST_DEPTH = 1e-5


def abs_rel(estimate: Depth, truth: Depth, valid: NDArray[np.bool_] | None = None) -> float:
    """mean |d - d*| / d* over valid pixels; NaN where there are none."""
    mask = truth > 0 if valid is None else valid & (truth > 0)
    return float((np.abs(estimate[mask] - truth[mask]) / truth[mask]).mean()) if mask.any() else float("nan")


def inliers(estimate: Depth, truth: Depth, valid: NDArray[np.bool_] | None = None, threshold: float = 1.25) -> float:
    """The share of pixels with max(d/d*, d*/d) below the threshold; a depth of 0 or less is not."""
    mask = truth > 0 if valid is None else valid & (truth > 0)
    if not mask.any():
        return float("nan")
    found, true = estimate[mask], truth[mask]
    ratio = np.where(found > 0, np.maximum(found / true, true / np.maximum(found, 1e-12)), np.inf)
    return float((ratio < threshold).mean())


def in_one_piece(estimate: Depth, truth: Depth) -> Pairs:
    """Arrays that fit in memory, as pairs."""
    return lambda: iter([(estimate.ravel(), truth.ravel())])


# -- alignment: d -> scale · d + shift -------------------------------------------------------------------------------


class Line(NamedTuple):
    scale: float = 1.0
    shift: float = 0.0


class Alignment(Protocol):
    def line(self, pairs: Pairs) -> Line:
        """What to apply to the estimates of a whole sequence."""
        ...


@dataclass(frozen=True)
class Metric:
    """None: metres are metres."""

    def line(self, pairs: Pairs) -> Line:
        del pairs
        return Line()


@dataclass(frozen=True)
class Scale:
    """min Σ |s p − g| over s, by iteratively reweighted least squares from the ratio of the means."""

    steps: int = 10

    def line(self, pairs: Pairs) -> Line:
        estimate, truth = _sums(pairs, lambda p, g: (p, g))
        scale = truth / estimate
        for _ in range(self.steps):
            across, square = _sums(pairs, _weighted(scale))
            scale = across / square
        return Line(float(max(scale, _SMALLEST_SCALE)))


def _weighted(scale: float) -> Callable[[Depth, Depth], tuple[Depth, ...]]:
    def terms(p: Depth, g: Depth) -> tuple[Depth, ...]:
        weight = 1 / (np.abs(scale * p - g) + 1e-8)
        return weight * p * g, weight * p * p

    return terms


@dataclass(frozen=True)
class ScaleAndShift:
    """min Σ |s p + t − g| over s and t, exactly.

    For a given s the best t is the median of g − s p. What is left is convex in s, and its slope is
    Σ p · sign(s p + t − g): the bracket around its change of sign is halved until it is a rounding error wide.
    """

    halvings: int = 60

    def line(self, pairs: Pairs) -> Line:
        low, high = 0.0, 1.0
        while self._slope(pairs, high) < 0 and high < 1e6:
            low, high = high, 2 * high
        for _ in range(self.halvings):
            middle = 0.5 * (low + high)
            if middle in (low, high):
                break
            low, high = (middle, high) if self._slope(pairs, middle) < 0 else (low, middle)
        scale = max(0.5 * (low + high), _SMALLEST_SCALE)
        return Line(scale, self._shift(pairs, scale))

    @staticmethod
    def _shift(pairs: Pairs, scale: float) -> float:
        return median(lambda: (g - scale * p for p, g in _float64(pairs)))

    def _slope(self, pairs: Pairs, scale: float) -> float:
        """Of the least sum over t; pixels on the line itself share what keeps the signs in balance."""
        shift = self._shift(pairs, scale)

        def terms(p: Depth, g: Depth) -> tuple[Depth, ...]:
            sign = np.sign(shift - (g - scale * p))  # rounded as the median was: 0 on the line
            return p * sign, sign, p * (sign == 0), (sign == 0).astype(np.float64)

        slope, signs, on_line, count = _sums(pairs, terms)
        return float(slope - (signs * on_line / count if count else 0.0))


@dataclass(frozen=True)
class OriginalScaleAndShift:
    """What the research programs do: Adam on Σ |s p + t − g| from s = median g / median p, t = 0.

    At this rate it can move s and t by about `steps · rate`, so it barely leaves where it started. Kept so that
    published numbers can be met; `ScaleAndShift` is what they mean.
    """

    steps: int = 1000
    rate: float = 1e-4

    def line(self, pairs: Pairs) -> Line:
        start = median(lambda: (g for _, g in _float64(pairs))) / median(lambda: (p for p, _ in _float64(pairs)))
        at, mean, square = np.array([start, 0.0]), np.zeros(2), np.zeros(2)
        for step in range(1, self.steps + 1):
            gradient = np.array(_sums(pairs, _signs(at)))
            mean = 0.9 * mean + 0.1 * gradient
            square = 0.999 * square + 0.001 * gradient**2
            at = at - self.rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
        return Line(float(at[0]), float(at[1]))


def _signs(at: NDArray[np.floating]) -> Callable[[Depth, Depth], tuple[Depth, ...]]:
    def terms(p: Depth, g: Depth) -> tuple[Depth, ...]:
        sign = np.sign(at[0] * p + at[1] - g)
        return p * sign, sign

    return terms


def _float64(pairs: Pairs) -> Iterator[tuple[Depth, Depth]]:
    for estimate, truth in pairs():
        yield estimate.astype(np.float64), truth.astype(np.float64)


def _sums(pairs: Pairs, terms: Callable[[Depth, Depth], tuple[Depth, ...]]) -> tuple[float, ...]:
    totals = [[float(term.sum()) for term in terms(p, g)] for p, g in _float64(pairs)]
    return tuple(sum(column) for column in zip(*totals, strict=True))


# -- errors ----------------------------------------------------------------------------------------------------------


class DepthError(NamedTuple):
    abs_rel: float
    sq_rel: float
    rmse: float
    log_rmse: float
    delta_1_25: float
    delta_1_25_2: float
    delta_1_25_3: float


def depth_error(pairs: Pairs, line: Line = Line()) -> tuple[DepthError, int]:  # noqa: B008  # a value that never changes
    """Errors over all pixels of a sequence, and how many they were; NaN where there are none."""

    def terms(p: Depth, g: Depth) -> tuple[Depth, ...]:
        p = line.scale * p + line.shift
        off, positive = p - g, np.maximum(p, _SMALLEST_DEPTH)
        ratio = np.maximum(positive / g, g / positive)
        close = [(ratio < 1.25**power).astype(np.float64) for power in (1, 2, 3)]
        logs = np.log(positive) - np.log(g)
        return np.ones_like(g), np.abs(off) / g, off**2 / g, off**2, logs**2, *close

    count, *totals = _sums(pairs, terms) or (0.0,) * 8
    if not count:
        return DepthError(*[float("nan")] * 7), 0
    relative, square, squared, logs, *close = (total / count for total in totals)
    return DepthError(relative, square, float(np.sqrt(squared)), float(np.sqrt(logs)), *close), int(count)
