"""Rigid motions. The one place that knows the order of a quaternion's parts."""

from __future__ import annotations

import numpy as np

from recal3r.types import Array


def pose_from_quaternion(translation: Array, wxyz: Array) -> Array:
    """[..., 3], unit quaternion [..., 4] -> [..., 4, 4] float64."""
    w, x, y, z = np.moveaxis(np.asarray(wxyz, dtype=np.float64), -1, 0)
    rotation = np.stack(
        [
            np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)], axis=-1),
            np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)], axis=-1),
            np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=-1),
        ],
        axis=-2,
    )
    pose = np.zeros((*rotation.shape[:-2], 4, 4))
    pose[..., :3, :3] = rotation
    pose[..., :3, 3] = translation
    pose[..., 3, 3] = 1
    return pose


def quaternion_from_rotation(rotation: Array) -> Array:
    """[..., 3, 3] -> unit quaternion wxyz [..., 4], w >= 0.

    The eigenvector of the largest eigenvalue of a symmetric matrix (Bar-Itzhack): no case by case, good near
    half turns, and the nearest rotation's quaternion where the matrix is not quite one.
    """
    r = np.asarray(rotation, dtype=np.float64)
    xx, xy, xz, yx, yy, yz, zx, zy, zz = (r[..., i, j] for i in range(3) for j in range(3))
    k = np.stack(
        [
            np.stack([xx + yy + zz, zy - yz, xz - zx, yx - xy], axis=-1),
            np.stack([zy - yz, xx - yy - zz, xy + yx, xz + zx], axis=-1),
            np.stack([xz - zx, xy + yx, yy - xx - zz, yz + zy], axis=-1),
            np.stack([yx - xy, xz + zx, yz + zy, zz - xx - yy], axis=-1),
        ],
        axis=-2,
    )
    wxyz = np.linalg.eigh(k)[1][..., -1]
    return np.where(wxyz[..., :1] < 0, -wxyz, wxyz)


def xyzw_from_wxyz(wxyz: Array) -> Array:
    return np.roll(wxyz, -1, axis=-1)


def wxyz_from_xyzw(xyzw: Array) -> Array:
    return np.roll(xyzw, 1, axis=-1)


def inverse(T: Array) -> Array:
    """The inverse of rigid motions [..., 4, 4]."""
    rotation_back = np.swapaxes(T[..., :3, :3], -1, -2)
    result = np.zeros_like(T)
    result[..., :3, :3] = rotation_back
    result[..., :3, 3:] = -rotation_back @ T[..., :3, 3:]
    result[..., 3, 3] = 1
    return result


def apply(T: Array, points: Array) -> Array:
    """[4, 4], [..., 3] -> [..., 3]."""
    return points @ T[:3, :3].T + T[:3, 3]
