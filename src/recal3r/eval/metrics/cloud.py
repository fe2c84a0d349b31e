"""Errors of point clouds [K, 3]. Needs scipy (the extra `eval`)."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree  # pyright: ignore  # scipy has no stubs of its own

Cloud = NDArray[np.floating]


class CloudError(NamedTuple):
    accuracy: float
    """Mean distance from an estimated point to the nearest true one."""
    completeness: float
    """Mean distance from a true point to the nearest estimated one."""


def nearest(points: Cloud, targets: Cloud) -> NDArray[np.float64]:
    """The distance of each point to the nearest target."""
    tree = cast("Any", cKDTree)(targets)
    return cast("NDArray[np.float64]", tree.query(points)[0])


def cloud_error(estimate: Cloud, truth: Cloud) -> CloudError:
    """Accuracy and completeness over finite points; NaN where a side has none."""
    estimate, truth = (cloud[np.isfinite(cloud).all(1)] for cloud in (estimate, truth))
    if not len(estimate) or not len(truth):
        return CloudError(float("nan"), float("nan"))
    return CloudError(float(nearest(estimate, truth).mean()), float(nearest(truth, estimate).mean()))
