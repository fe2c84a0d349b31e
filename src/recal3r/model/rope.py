"""Two-dimensional rotary positions.

B batch · H heads · T tokens · D = head_dim / 2 (channels that turn with one coordinate)
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import torch
from torch import Tensor


class Rope(NamedTuple):
    """The turn of every token: one angle per coordinate (row, column) and frequency."""

    cos: Tensor  # [T, 2, D/2]
    sin: Tensor  # [T, 2, D/2]

    def __call__(self, x: Tensor) -> Tensor:  # [B, H, T, 2D] -> the same
        """Turns the channel pairs (c, c + D/2) of each half of the head."""
        halves = x.to(self.cos.dtype).view(*x.shape[:-1], 2, 2, -1)
        first, second = halves[..., 0, :], halves[..., 1, :]  # each [B, H, T, 2, D/2]
        turned = (first * self.cos - second * self.sin, second * self.cos + first * self.sin)
        return torch.stack(turned, dim=-2).flatten(-3).to(x.dtype)


def rope(positions: Tensor, head_dim: int, base: float, dtype: torch.dtype) -> Rope:
    """The tables for integer `positions` [T, 2] (row, column), of either sign, in float32 or better."""
    precision = torch.promote_types(dtype, torch.float32)
    half = head_dim // 2
    exponents = torch.arange(0, half, 2, dtype=precision, device=positions.device) / half
    angles = positions.to(precision)[..., None] * base**-exponents  # [T, 2, D/2]
    return Rope(angles.cos(), angles.sin())


@functools.lru_cache(maxsize=32)
def grid_positions(rows: int, columns: int, device: torch.device) -> Tensor:
    """(row, column) of each patch, row-major: [rows * columns, 2]."""
    row, column = torch.meshgrid(torch.arange(rows, device=device), torch.arange(columns, device=device), indexing="ij")
    return torch.stack((row, column), dim=-1).reshape(-1, 2)


def with_pose_position(positions: Tensor) -> Tensor:
    """The pose token goes before the patches and sits at (-1, -1)."""
    return torch.cat((positions.new_full((1, 2), -1), positions))


def state_positions(count: int, device: torch.device) -> Tensor:
    """State token i sits at (i // w, i % w) with w = floor(sqrt(count)), made even."""
    width = int(count**0.5)
    width += width % 2
    index = torch.arange(count, device=device)
    return torch.stack((index // width, index % width), dim=-1)
