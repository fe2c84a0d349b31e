"""Bringing one set of points onto another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recal3r.errors import GeometryError
from recal3r.types import Array


@dataclass(frozen=True)
class Similarity:
    """x -> scale · R x + t."""

    rotation: Array  # [3, 3]
    translation: Array  # [3]
    scale: float

    def __call__(self, points: Array) -> Array:  # [..., 3] -> [..., 3]
        return self.scale * points @ self.rotation.T + self.translation


def umeyama(source: Array, target: Array, *, with_scale: bool = True) -> Similarity:
    """The similarity (or rigid motion) that brings `source` [K, 3] closest to `target` [K, 3].

    Umeyama 1991, equations 38 to 43.
    """
    if source.shape != target.shape or source.ndim != 2 or source.shape[1] != 3 or not len(source):
        raise GeometryError(f"Points of shapes {source.shape} and {target.shape} cannot be aligned; give two [K, 3].")
    centre_source, centre_target = source.mean(0), target.mean(0)  # (34), (35)
    centred_source, centred_target = source - centre_source, target - centre_target
    variance = np.square(centred_source).sum(1).mean()  # (36)
    covariance = centred_target.T @ centred_source / len(source)  # (38)
    u, singular, vt = np.linalg.svd(covariance)
    sign = np.array([1.0, 1.0, np.sign(np.linalg.det(u) * np.linalg.det(vt))])  # (39), (43)
    rotation = u * sign @ vt  # (40)
    scale = float((singular * sign).sum() / variance) if with_scale and variance > 0 else 1.0  # (42)
    return Similarity(rotation, centre_target - scale * rotation @ centre_source, scale)  # (41)


def trajectory_error(estimate: Array, truth: Array) -> float:
    """ATE: the root mean square distance of camera centres [K, 3] after the best similarity."""
    distance = np.linalg.norm(umeyama(estimate, truth)(estimate) - truth, axis=1)
    return float(np.sqrt(np.square(distance).mean()))
