"""The three transformer blocks of the trunk and the heads.

B batch · T tokens · U tokens that are seen · W width
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from recal3r.model.attention import Attend, CrossAttention, KeysValues, SelfAttention, attend
from recal3r.model.rope import Rope

LAYER_NORM_EPS = 1e-6


Block = TypeVar("Block", bound=nn.Module)


def stack(blocks: Iterable[Block]) -> Sequence[Block]:
    """A ModuleList that still knows what it holds."""
    return cast("Sequence[Block]", nn.ModuleList(blocks))


def small_random(*shape: int) -> nn.Parameter:
    """A token before training."""
    return nn.Parameter(torch.empty(shape).normal_(std=0.02))


def layer_norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=LAYER_NORM_EPS)


class Mlp(nn.Module):
    def __init__(self, width: int, hidden: int, out: int | None = None) -> None:
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, out or width)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x)))


class EncoderBlock(nn.Module):
    """x += attn(norm1 x); x += mlp(norm2 x)."""

    def __init__(self, width: int, heads: int, mlp_ratio: int) -> None:
        super().__init__()
        self.norm1 = layer_norm(width)
        self.attn = SelfAttention(width, heads)
        self.norm2 = layer_norm(width)
        self.mlp = Mlp(width, mlp_ratio * width)

    def forward(self, x: Tensor, rope: Rope) -> Tensor:
        x = x + self.attn(self.norm1(x), rope)
        return x + self.mlp(self.norm2(x))


class DecoderBlock(nn.Module):
    """x += attn(norm1 x); x += cross(norm2 x, norm_y y); x += mlp(norm3 x)."""

    attends = staticmethod(attend)

    def __init__(self, width: int, heads: int, mlp_ratio: int) -> None:
        super().__init__()
        self.norm1 = layer_norm(width)
        self.attn = SelfAttention(width, heads)
        self.cross_attn = CrossAttention(width, heads)
        self.norm2 = layer_norm(width)
        self.norm3 = layer_norm(width)
        self.mlp = Mlp(width, mlp_ratio * width)
        self.norm_y = layer_norm(width)

    def look_at(self, y: Tensor, rope: Rope | None) -> KeysValues:
        return self.cross_attn.look_at(self.norm_y(y), rope)

    def forward(self, x: Tensor, seen: KeysValues, rope: Rope | None, attend: Attend = attend) -> Tensor:
        x = x + self.attn(self.norm1(x), rope)
        x = x + self.cross_attn(self.norm2(x), seen, rope, attend)
        return x + self.mlp(self.norm3(x))


class ConditionedNorm(nn.Module):
    """norm(x) · (1 + scale) + shift, where [shift, scale] = Linear(SiLU(condition))."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = layer_norm(width)
        self.mlp = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:  # [B, T, W], [B, W]
        shift, scale = self.mlp(condition)[:, None].chunk(2, dim=-1)
        return self.norm(x) * (1 + scale) + shift


class ConditionedBlock(nn.Module):
    """An encoder block whose normalisations a condition (the pose token) modulates."""

    def __init__(self, width: int, heads: int, mlp_ratio: int) -> None:
        super().__init__()
        self.norm1 = ConditionedNorm(width)
        self.attn = SelfAttention(width, heads)
        self.norm2 = ConditionedNorm(width)
        self.mlp = Mlp(width, mlp_ratio * width)

    def forward(self, x: Tensor, condition: Tensor, rope: Rope) -> Tensor:
        x = x + self.attn(self.norm1(x, condition), rope)
        return x + self.mlp(self.norm2(x, condition))
