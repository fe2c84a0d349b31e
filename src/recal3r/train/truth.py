"""What the pictures of a batch really show: point maps, and where the patches of one picture lie in another.

B clips · T frames · H, W pixels · P patches
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recal3r.train.footage import Takes

NEAREST = 0.05  # metres in front of a camera; what is nearer or behind has no place in its picture


class Correspondence(NamedTuple):
    """Where the second picture's pixels lie in the first one."""

    pixels: Tensor  # [B, H, W, 2] (column, row) in the first picture
    seen: Tensor  # [B, H, W] bool: inside that picture and not hidden in it


def camera_points(depth: Tensor, intrinsics: Tensor) -> Tensor:  # [B, T, H, W], [B, 3, 3] -> [B, T, H, W, 3]
    height, width = depth.shape[-2:]
    focal, centre = (part[:, None, None, None] for part in _lens(intrinsics))
    rays = (pixel_grid(height, width, depth.device) - centre) / focal  # [B, 1, H, W, 2]
    return torch.cat((rays * depth[..., None], depth[..., None]), dim=-1)


def world_points(points: Tensor, poses: Tensor) -> Tensor:  # [B, T, H, W, 3], [B, T, 4, 4]
    return torch.einsum("btij,bthwj->bthwi", poses[..., :3, :3], points) + poses[:, :, None, None, :3, 3]


def _lens(intrinsics: Tensor) -> tuple[Tensor, Tensor]:
    """Focal lengths and principal points [B, 2], by views alone: a recorded graph takes no index from the host."""
    return intrinsics.diagonal(dim1=1, dim2=2)[:, :2], intrinsics[:, :2, 2]


def pixel_grid(height: int, width: int, device: torch.device) -> Tensor:  # [H, W, 2] (column, row)
    row, column = torch.meshgrid(torch.arange(height, device=device), torch.arange(width, device=device), indexing="ij")
    return torch.stack((column, row), dim=-1).float()


def correspondence(takes: Takes) -> Correspondence:
    """Of pairs (T = 2): the second picture's pixels in the first, whose camera is the world."""
    height, width = takes.depth.shape[-2:]
    points = world_points(camera_points(takes.depth, takes.intrinsics), takes.poses)[:, 1]  # [B, H, W, 3]
    depth = points[..., 2]
    focal, centre = (part[:, None, None] for part in _lens(takes.intrinsics))
    pixels = points[..., :2] / depth.clamp_min(NEAREST)[..., None] * focal + centre
    column, row = pixels.round().long().unbind(-1)
    inside = (column >= 0) & (column < width) & (row >= 0) & (row < height) & (depth > NEAREST)
    index = row.clamp(0, height - 1) * width + column.clamp(0, width - 1)
    nearest = takes.depth[:, 0].flatten(1).gather(1, index.flatten(1)).view(-1, height, width)
    return Correspondence(pixels, inside & (depth < 1.07 * nearest + 0.03))


def patch_targets(matches: Correspondence, patch: int) -> tuple[Tensor, Tensor]:
    """For each patch of the second picture, by its middle pixel: the first's patch [B, P], and whether there is one."""
    middle = slice(patch // 2, None, patch)
    columns = matches.seen.shape[2] // patch
    column, row = (matches.pixels[:, middle, middle].round().long() // patch).flatten(1, 2).unbind(-1)
    seen = matches.seen[:, middle, middle].flatten(1)
    return torch.where(seen, row * columns + column, 0), seen
