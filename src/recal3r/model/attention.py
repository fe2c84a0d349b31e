"""Self and cross attention.

B batch · H heads · T tokens that ask · U tokens that are seen · d = width / H
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from recal3r.model.onednn import WORTHWHILE, can_pack, heads_at_once, products
from recal3r.model.rope import Rope


class KeysValues(NamedTuple):
    """What tokens look like to those that attend to them."""

    keys: Tensor  # [B, H, U, d], turned to their positions
    values: Tensor  # [B, H, U, d]


Attend = Callable[[Tensor, KeysValues], Tensor]
"""queries [B, H, T, d], what is seen -> [B, H, T, d]."""


TILE_ELEMENTS = 2**20
"""How many logits may exist at once on a CPU: 4 MB in float32, whatever the size of network and picture."""


def split_heads(x: Tensor, heads: int) -> Tensor:  # [B, T, H*d] -> [B, H, T, d]
    return x.view(*x.shape[:2], heads, -1).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:  # [B, H, T, d] -> [B, T, H*d]
    return x.transpose(1, 2).flatten(2)


def heads_transposed(x: Tensor) -> Tensor:  # [B, H, U, d] -> [B, H, d, U], contiguous
    """Head by head: across merged heads, rows lie a power of two apart and push each other out of the cache."""
    return x.contiguous().transpose(-2, -1).contiguous()


def attend(queries: Tensor, seen: KeysValues) -> Tensor:
    """softmax(q kᵀ / √d) v, by the fastest kernel that is right for the occasion."""
    if queries.requires_grad and queries.device.type == "cpu":  # the fused kernel's backward is 8x slower there
        logits = queries @ seen.keys.transpose(-2, -1) * queries.shape[-1] ** -0.5
        return logits.softmax(dim=-1) @ seen.values
    return F.scaled_dot_product_attention(queries, seen.keys, seen.values)


def attend_by_heads(queries: Tensor, seen: KeysValues) -> Tensor:
    """`attend` by the products that layers use: on a CPU faster than its fused kernel, which uses others.

    As many heads' logits exist at a time as are fastest, and of one head's no more than `TILE_ELEMENTS`.
    """
    tokens, others = queries.shape[-2], seen.keys.shape[-2]
    if torch.compiler.is_compiling() or queries.device.type != "cpu" or not can_pack(queries.dtype):
        return attend(queries, seen)
    if queries.requires_grad or tokens * others < WORTHWHILE:
        return attend(queries, seen)
    batch, heads, _, size = queries.shape
    scaled = torch.mul(queries, size**-0.5, out=queries.new_empty(queries.shape)).flatten(0, 1)  # [B*H, T, d]
    keys = seen.keys.contiguous().flatten(0, 1)
    values = heads_transposed(seen.values).flatten(0, 1)  # [B*H, d, U]
    out = queries.new_empty(batch, tokens, heads, size)  # as `merge_heads` wants it
    rows = max(1, TILE_ELEMENTS // others)
    step = math.gcd(heads, heads_at_once(queries.dtype, min(rows, tokens) * others))
    for head in range(0, batch * heads, step):
        some = slice(head, head + step)
        merged = out[head // heads, :, head % heads : head % heads + step].transpose(0, 1)  # [step, T, d]
        for first in range(0, tokens, rows):
            weights = products(scaled[some, first : first + rows], keys[some])
            torch.softmax(weights, dim=-1, out=weights)
            merged[:, first : first + rows] = products(weights, values[some])
    return out.transpose(1, 2)


def attend_with_logsumexp(queries: Tensor, seen: KeysValues, scale: float) -> tuple[Tensor, Tensor]:
    """`attend` at another scale, and the log of each softmax's denominator [B, H, T], which fused kernels know anyway.

    PyTorch gives the latter to its own backward pass only, hence the operators by their inner names.
    """
    keys, values = seen
    if queries.device.type in ("cpu", "meta"):
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(queries, keys, values, scale=scale)
    if queries.device.type == "cuda":
        out, logsumexp, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
            queries, keys, values, None, True, scale=scale
        )
        return out, logsumexp[..., : queries.shape[-2]]  # the kernel pads to a multiple of 32
    logits = (queries @ keys.transpose(-2, -1)).float() * scale
    return logits.softmax(dim=-1).to(values.dtype) @ values, logits.logsumexp(dim=-1)


class SelfAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor, rope: Rope | None) -> Tensor:  # [B, T, width] -> the same
        queries, keys, values = (split_heads(part, self.heads) for part in self.qkv(x).chunk(3, dim=-1))
        if rope is not None:
            queries, keys = rope(queries), rope(keys)
        return self.proj(merge_heads(attend(queries, KeysValues(keys, values))))


class CrossAttention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projq = nn.Linear(width, width)
        self.projk = nn.Linear(width, width)
        self.projv = nn.Linear(width, width)
        self.proj = nn.Linear(width, width)

    def look_at(self, y: Tensor, rope: Rope | None) -> KeysValues:  # y: [B, U, width]
        keys = split_heads(self.projk(y), self.heads)
        return KeysValues(rope(keys) if rope is not None else keys, split_heads(self.projv(y), self.heads))

    def forward(self, x: Tensor, seen: KeysValues, rope: Rope | None, attend: Attend = attend) -> Tensor:
        queries = split_heads(self.projq(x), self.heads)
        if rope is not None:
            queries = rope(queries)
        return self.proj(merge_heads(attend(queries, seen)))
