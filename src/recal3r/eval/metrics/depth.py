"""Errors of depth maps [..., H, W] in metres, as they are: alignment is the caller's."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Depth = NDArray[np.floating]


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
