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


def bootstrap(values: NDArray[np.floating], *, level: float = 0.95, draws: int = 2000, seed: int = 0) -> Interval:
    """The mean over scenes and its percentile interval. Scenes that failed (NaN) are left out and counted."""
    good = values[np.isfinite(values)]
    if not len(good):
        return Interval(float("nan"), float("nan"), float("nan"), 0, len(values))
    picks = np.random.default_rng(seed).integers(len(good), size=(draws, len(good)))
    low, high = np.quantile(good[picks].mean(1), ((1 - level) / 2, (1 + level) / 2))
    return Interval(float(good.mean()), float(low), float(high), len(good), len(values))
