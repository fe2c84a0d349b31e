"""Pinhole cameras: the focal length a point map implies, and the rays that a camera sends out.

B batch · H, W pixels
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from recal3r.geometry.vector import lengths
from recal3r.types import Array, Camera

FOCAL_ITERATIONS = 10
SMALLEST_RESIDUAL = 1e-8


def focal_of(points: Tensor) -> Tensor:  # [B, H, W, 3] -> [B]
    """The focal length (pixels) with which a camera of centred principal point sees `points` where they are.

    Least squares, then Weiszfeld's iterations towards the least sum of distances.
    """
    _, height, width, _ = points.shape
    column = torch.arange(width, device=points.device, dtype=points.dtype) - width // 2
    row = torch.arange(height, device=points.device, dtype=points.dtype) - height // 2
    pixels = torch.stack(torch.meshgrid(column, row, indexing="xy"), dim=-1).reshape(1, -1, 2)
    points = points.flatten(1, 2)
    rays = torch.nan_to_num(points[..., :2] / points[..., 2:], posinf=0.0, neginf=0.0)  # [B, H*W, 2]

    along, squared = (rays * pixels).sum(-1), rays.square().sum(-1)
    focal = along.mean(-1) / squared.mean(-1)
    for _ in range(FOCAL_ITERATIONS):
        weights = lengths(pixels - focal[:, None, None] * rays).clamp_min(SMALLEST_RESIDUAL).reciprocal()
        focal = (weights * along).mean(-1) / (weights * squared).mean(-1)
    return focal


def intrinsics_of(focal: float, width: int, height: int) -> Array:
    """K with the principal point the network was trained with: (W // 2, H // 2)."""
    return np.array([[focal, 0.0, width // 2], [0.0, focal, height // 2], [0.0, 0.0, 1.0]])


def ray_map(camera: Camera) -> Array:  # [H, W, 6]: origin, direction
    """The rays of a camera as the weights know them.

    The direction is normalize(R K⁻¹ [column, row, 1] + t): the translation is part of what training normalised,
    so these are not the unit rays of geometry.
    """
    column, row = np.meshgrid(np.arange(camera.width), np.arange(camera.height))
    pixels = np.stack((column, row, np.ones_like(row)), axis=-1).astype(np.float64)
    rotation, translation = camera.T_world_camera[:3, :3], camera.T_world_camera[:3, 3]
    ends = pixels @ np.linalg.inv(camera.intrinsics).T @ rotation.T + translation
    directions = ends / np.linalg.norm(ends, axis=-1, keepdims=True).clip(1e-12)
    return np.concatenate((np.broadcast_to(translation, ends.shape), directions), axis=-1)
