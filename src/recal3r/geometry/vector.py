"""Vectors along the last axis."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor


def lengths(x: Tensor, *, keepdim: bool = False) -> Tensor:
    """|x| over the last axis, with the gradient 0 at 0."""
    return cast("Tensor", torch.linalg.vector_norm(x, dim=-1, keepdim=keepdim))
