"""Camera poses from angles, and back to how far one is from the next."""

import math

import numpy as np
from numpy.typing import NDArray

Pose = NDArray[np.float64]  # [4, 4] T_world_camera: camera-to-world, OpenCV axes (x right, y down, z forward)


def look_along(position: tuple[float, float, float], yaw: float, pitch: float, roll: float) -> Pose:
    """A camera that looks along a heading (radians about z, pitch up, roll about the line of sight)."""
    cy, sy, cp, sp = math.cos(yaw), math.sin(yaw), math.cos(pitch), math.sin(pitch)
    cr, sr = math.cos(roll), math.sin(roll)
    right = (sy, -cy, 0.0)
    down = (cy * sp, sy * sp, -cp)
    return np.array(
        [
            [cr * right[0] + sr * down[0], cr * down[0] - sr * right[0], cp * cy, position[0]],
            [cr * right[1] + sr * down[1], cr * down[1] - sr * right[1], cp * sy, position[1]],
            [cr * right[2] + sr * down[2], cr * down[2] - sr * right[2], sp, position[2]],
            [0.0, 0.0, 0.0, 1.0],
        ]
    )


def rotation_vector(R: NDArray[np.float64]) -> NDArray[np.float64]:
    """Axis times angle of a rotation [3, 3] by less than half a turn: [3]."""
    twice_sine = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]])
    sine = 0.5 * float(np.linalg.norm(twice_sine))
    angle = math.atan2(sine, 0.5 * (float(np.trace(R)) - 1.0))
    factor = 0.5 if sine < 1e-9 else 0.5 * angle / sine
    return factor * twice_sine


def rotation_matrix(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rodrigues' formula: axis times angle [3] to [3, 3]."""
    angle = float(np.linalg.norm(vector))
    x, y, z = vector
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    if angle < 1e-9:
        return np.eye(3) + cross
    half = math.sin(0.5 * angle) / (0.5 * angle)
    return np.eye(3) + (math.sin(angle) / angle) * cross + 0.5 * half * half * (cross @ cross)


def between(first: Pose, second: Pose, share: float) -> Pose:
    """The pose a share of the way from first to second; below 0 or above 1 goes on in the same direction."""
    turn = rotation_vector(first[:3, :3].T @ second[:3, :3])
    pose = np.eye(4)
    pose[:3, :3] = first[:3, :3] @ rotation_matrix(share * turn)
    pose[:3, 3] = first[:3, 3] + share * (second[:3, 3] - first[:3, 3])
    return pose
