"""How sure a mean is: bootstrap intervals over scenes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Interval(NamedTuple):
    mean: float
    low: float
    high: float
    scenes: int
    """How many scenes gave a number."""
    of: int
    """How many were asked."""


def bootstrap(
    values: NDArray[np.floating],
    weights: NDArray[np.floating] | None = None,
    *,
    level: float = 0.95,
    draws: int = 2000,
    seed: int = 0,
) -> Interval:
    """The (weighted) mean over scenes and its percentile interval. NaN scenes are left out and counted."""
    known = np.isfinite(values)
    good, weight = values[known], np.ones(int(known.sum())) if weights is None else weights[known]
    if not len(good):
        return Interval(float("nan"), float("nan"), float("nan"), 0, len(values))
    picks = np.random.default_rng(seed).integers(len(good), size=(draws, len(good)))
    means = (good * weight)[picks].sum(1) / weight[picks].sum(1)
    low, high = np.quantile(means, ((1 - level) / 2, (1 + level) / 2))
    return Interval(float(np.average(good, weights=weight)), float(low), float(high), len(good), len(values))
