"""Errors of trajectories, T poses [T, 4, 4], camera to world."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recal3r.geometry.align import umeyama
from recal3r.geometry.pose import inverse

Poses = NDArray[np.floating]


def angle(rotation: Poses) -> NDArray[np.float64]:
    """Radians of rotations [..., 3, 3], by the chord: exact near 0, where the arc cosine is not."""
    chord = np.linalg.norm(rotation - np.eye(3), axis=(-2, -1)) / np.sqrt(8.0)
    return 2.0 * np.arcsin(np.clip(chord, 0.0, 1.0))


def spread(truth: Poses) -> float:
    """Root mean square distance of the camera centres from their mean: the ATE of a camera that never moved."""
    centres = truth[:, :3, 3]
    return float(np.sqrt(np.square(centres - centres.mean(0)).sum(1).mean()))


def ate(estimate: Poses, truth: Poses) -> float:
    """Absolute trajectory error: root mean square distance of camera centres after Sim(3) alignment of all poses."""
    if not np.isfinite(estimate).all():
        return float("nan")
    centres, true_centres = estimate[:, :3, 3], truth[:, :3, 3]
    distance = np.linalg.norm(umeyama(centres, true_centres)(centres) - true_centres, axis=1)
    return float(np.sqrt(np.square(distance).mean()))


def rotation_drift(estimate: Poses, truth: Poses) -> float:
    """Degrees by which the last camera is turned wrongly against the first."""
    turned = inverse(estimate[:1]) @ estimate[-1:]
    true_turned = inverse(truth[:1]) @ truth[-1:]
    return float(np.degrees(angle(inverse(true_turned)[0, :3, :3] @ turned[0, :3, :3])))


def rpe(estimate: Poses, truth: Poses) -> tuple[float, float]:
    """Relative pose error from each frame to the next after Sim(3) alignment: RMSE in metres, and in degrees."""
    if not np.isfinite(estimate).all() or len(estimate) < 2:
        return float("nan"), float("nan")
    scale = umeyama(estimate[:, :3, 3], truth[:, :3, 3]).scale
    aligned = estimate.copy()
    aligned[:, :3, 3] *= scale  # a rotation and a shift of the world do not change what happens between two frames
    step = inverse(aligned[:-1]) @ aligned[1:]
    true_step = inverse(truth[:-1]) @ truth[1:]
    error = inverse(true_step) @ step
    shift = np.linalg.norm(error[:, :3, 3], axis=1)
    turn = np.degrees(angle(error[:, :3, :3]))
    return float(np.sqrt(np.square(shift).mean())), float(np.sqrt(np.square(turn).mean()))


def straight_line(count: int) -> Poses:
    """A camera that walks straight on at one speed: what ATE makes of having no idea but the order of frames."""
    line = np.tile(np.eye(4), (count, 1, 1))
    line[:, 0, 3] = np.arange(count)
    return line
