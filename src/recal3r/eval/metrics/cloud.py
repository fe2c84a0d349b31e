"""Errors of point clouds [K, 3]. Needs scipy (the extra `eval`)."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from recal3r.eval.extra import evaluation_package

Cloud = NDArray[np.floating]
_AT_ONCE = 50_000  # points whose neighbourhoods are held in memory together


class CloudError(NamedTuple):
    accuracy: float
    """Mean distance from an estimated point to the nearest true one."""
    completeness: float
    """Mean distance from a true point to the nearest estimated one."""


class SurfaceError(NamedTuple):
    acc: float
    comp: float
    nc: float
    """Normal consistency: |n · n'| of nearest points, mean of both ways."""
    acc_median: float
    comp_median: float
    nc_median: float


def tree_of(points: Cloud) -> Any:
    return evaluation_package("scipy.spatial").cKDTree(points)


def nearest(points: Cloud, targets: Cloud) -> NDArray[np.float64]:
    """The distance of each point to the nearest target."""
    return cast("NDArray[np.float64]", tree_of(targets).query(points)[0])


def finite(cloud: Cloud) -> Cloud:
    return cloud[np.isfinite(cloud).all(1)]


def cloud_error(estimate: Cloud, truth: Cloud) -> CloudError:
    """Accuracy and completeness over finite points; NaN where a side has none."""
    estimate, truth = finite(estimate), finite(truth)
    if not len(estimate) or not len(truth):
        return CloudError(float("nan"), float("nan"))
    return CloudError(float(nearest(estimate, truth).mean()), float(nearest(truth, estimate).mean()))


def normals(points: Cloud, neighbours: int = 30) -> NDArray[np.float64]:
    """Of each point, the direction in which it and its nearest neighbours (so many in all) spread least; no sign."""
    tree, found = tree_of(points), np.empty((len(points), 3))
    count = min(neighbours, len(points))
    for start in range(0, len(points), _AT_ONCE):
        piece = slice(start, start + _AT_ONCE)
        around = points[tree.query(points[piece], count)[1].reshape(-1, count)]  # [k, neighbours, 3]
        around = around - around.mean(1, keepdims=True)
        found[piece] = np.linalg.eigh(np.swapaxes(around, 1, 2) @ around)[1][:, :, 0]
    return found


def surface_error(estimate: Cloud, truth: Cloud, neighbours: int = 30) -> SurfaceError:
    """Acc, Comp and NC over finite points; NaN where a side has none."""
    estimate, truth = (finite(cloud).astype(np.float64) for cloud in (estimate, truth))
    if not len(estimate) or not len(truth):
        return SurfaceError(*[float("nan")] * 6)
    accuracy, true_of_estimate = tree_of(truth).query(estimate)
    completeness, estimate_of_true = tree_of(estimate).query(truth)
    n_estimate, n_truth = normals(estimate, neighbours), normals(truth, neighbours)
    forth = np.abs((n_estimate * n_truth[true_of_estimate]).sum(1))
    back = np.abs((n_truth * n_estimate[estimate_of_true]).sum(1))
    return SurfaceError(
        acc=float(accuracy.mean()),
        comp=float(completeness.mean()),
        nc=float((forth.mean() + back.mean()) / 2),
        acc_median=float(np.median(accuracy)),
        comp_median=float(np.median(completeness)),
        nc_median=float((np.median(forth) + np.median(back)) / 2),
    )
