"""How long a state remembers, read from how far its tokens moved."""

from __future__ import annotations

import numpy as np

from recal3r.types import Array


def memory_horizon(rate: Array) -> float:
    """Frames until half of what the state holds is overwritten, if every frame moved the tokens as far as this one.

    A frame leaves (1 - β_m) of what token m held, n frames leave (1 - β_m)^n, and the horizon solves

        mean_m (1 - β_m)^n = ½

    Where all tokens move alike this is n = ln ½ / ln(1 - β). It is a mean of what is left, not of logarithms: one token
    that is written fully (β = 1) makes the memory shorter by its share, not zero. 0 where at least half of the tokens
    are written fully, infinite where at least half stand still, NaN where β is not known.
    """
    keeps = 1 - np.asarray(rate, np.float64)
    if np.isnan(keeps).any():
        return np.nan

    def left(frames: float) -> float:
        return float(np.power(keeps, frames).mean())

    if (keeps > 0).mean() <= 0.5:
        return 0.0
    if (keeps >= 1).mean() >= 0.5:
        return np.inf
    low, high = 0.0, 1.0
    while left(high) > 0.5:
        low, high = high, 2 * high
    for _ in range(60):  # halving: to the last bits of a float
        middle = (low + high) / 2
        low, high = (middle, high) if left(middle) > 0.5 else (low, middle)
    return (low + high) / 2
