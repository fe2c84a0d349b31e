"""The transformer blocks again, packed for inference on a CPU: the same numbers as `blocks.py`, in fewer passes.

B batch · T tokens · U tokens that are seen · H heads · d head size · W width

Linear layers lie in memory as oneDNN wants them, with GELU and the residual sum inside the call. The channels of
queries and keys are put in another order, the same for both, in which the two channels of a rotary pair are
neighbours: a turn is then one product of complex numbers. No scalar product notices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import torch
from torch import Tensor, nn

from recal3r.model.attention import (
    Attend,
    CrossAttention,
    KeysValues,
    SelfAttention,
    attend_by_heads,
    merge_heads,
)
from recal3r.model.blocks import ConditionedBlock, ConditionedNorm, DecoderBlock, EncoderBlock, Mlp
from recal3r.model.onednn import can_pack
from recal3r.model.rope import Rope

_TOKENS_HINT = 768  # what the layout is chosen for; any number of tokens is right


class PackedLinear(nn.Module):
    """x Wᵀ + b. The packed weight cannot be read back; `rows` picks and orders the rows of W before."""

    def __init__(self, linear: nn.Linear, rows: Tensor | None = None) -> None:
        super().__init__()
        weight, bias = linear.weight.detach(), linear.bias.detach()
        if rows is not None:
            weight, bias = weight[rows], bias[rows]
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TOKENS_HINT)
        self.bias = nn.Buffer(bias.clone(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "none", [], "")

    def gelu(self, x: Tensor) -> Tensor:
        return torch.ops.mkldnn._linear_pointwise(x, self.packed, self.bias, "gelu", [], "none")

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual + x Wᵀ + b."""
        return torch.ops.mkldnn._linear_pointwise.binary(x, residual, self.packed, self.bias, "add")


def fast_in_bfloat16(device: torch.device) -> bool:
    """Whether the hardware multiplies bfloat16 much faster than float32: accelerators, and CPUs that have
    instructions for it."""
    if device.type == "cpu":
        return can_pack(torch.bfloat16) and torch.cpu._is_avx512_bf16_supported()  # pyright: ignore[reportPrivateUsage]
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def packable(model: nn.Module) -> list[str]:
    """The transformer blocks inside `model`, by name."""
    modules = cast("Iterator[tuple[str, nn.Module]]", model.named_modules())  # which torch's annotation half knows
    return [name for name, module in modules if type(module) in _PACKED]


def packed(block: nn.Module) -> nn.Module:
    return _PACKED[type(block)](block)


def neighbours(heads: int, size: int) -> Tensor:
    """The order of a projection's rows in which rotary pairs (c, c + D/2) are neighbours, head by head: [H·d]."""
    one_head = torch.arange(size).view(2, 2, size // 4).transpose(1, 2).flatten()  # half, pair, first or second
    return (torch.arange(heads)[:, None] * size + one_head).flatten()


def turned(x: Tensor, rope: Rope | None) -> Tensor:  # [B, T, ..., H, d], pairs side by side
    if rope is None:
        return x
    wide = x.to(rope.cos.dtype).view(*x.shape[:-1], -1, 2)
    turn = torch.complex(rope.cos, rope.sin).flatten(1)  # [T, d/2]
    turn = turn.view(turn.shape[0], *[1] * (x.ndim - 3), turn.shape[1])
    return torch.view_as_real(torch.view_as_complex(wide) * turn).flatten(-2).to(x.dtype)


class PackedSelfAttention(nn.Module):
    def __init__(self, plain: SelfAttention) -> None:
        super().__init__()
        self.heads, width = plain.heads, plain.proj.in_features
        order = neighbours(self.heads, width // self.heads)
        rows = torch.cat((order, width + order, 2 * width + torch.arange(width)))
        self.qkv, self.proj = PackedLinear(plain.qkv, rows), PackedLinear(plain.proj)

    def added_to(self, residual: Tensor, x: Tensor, rope: Rope | None) -> Tensor:
        qkv = self.qkv(x).view(*x.shape[:2], 3, self.heads, -1)  # [B, T, 3, H, d]
        queries, keys = turned(qkv[:, :, :2], rope).transpose(1, 3).unbind(2)  # each [B, H, T, d]
        out = attend_by_heads(queries, KeysValues(keys, qkv[:, :, 2].transpose(1, 2)))
        return self.proj.add_to(residual, merge_heads(out))


class PackedCrossAttention(nn.Module):
    def __init__(self, plain: CrossAttention) -> None:
        super().__init__()
        self.heads = plain.heads
        order = neighbours(self.heads, plain.proj.in_features // self.heads)
        self.projq, self.projk = PackedLinear(plain.projq, order), PackedLinear(plain.projk, order)
        self.projv, self.proj = PackedLinear(plain.projv), PackedLinear(plain.proj)

    def look_at(self, y: Tensor, rope: Rope | None) -> KeysValues:  # y: [B, U, W]
        keys = turned(self._split(self.projk(y)), rope)
        return KeysValues(keys.transpose(1, 2), self._split(self.projv(y)).transpose(1, 2))

    def added_to(self, residual: Tensor, x: Tensor, seen: KeysValues, rope: Rope | None, attend: Attend) -> Tensor:
        queries = turned(self._split(self.projq(x)), rope).transpose(1, 2)
        return self.proj.add_to(residual, merge_heads(attend(queries, seen)))

    def _split(self, x: Tensor) -> Tensor:  # [B, T, W] -> [B, T, H, d]
        return x.view(*x.shape[:2], self.heads, -1)


class PackedMlp(nn.Module):
    def __init__(self, plain: Mlp) -> None:
        super().__init__()
        self.fc1, self.fc2 = PackedLinear(plain.fc1), PackedLinear(plain.fc2)

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        return self.fc2.add_to(residual, self.fc1.gelu(x))


class PackedEncoderBlock(nn.Module):
    def __init__(self, plain: EncoderBlock) -> None:
        super().__init__()
        self.norm1, self.norm2 = plain.norm1, plain.norm2
        self.attn, self.mlp = PackedSelfAttention(plain.attn), PackedMlp(plain.mlp)

    def forward(self, x: Tensor, rope: Rope) -> Tensor:
        x = self.attn.added_to(x, self.norm1(x), rope)
        return self.mlp.added_to(x, self.norm2(x))


class PackedDecoderBlock(nn.Module):
    attends = staticmethod(attend_by_heads)

    def __init__(self, plain: DecoderBlock) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3, self.norm_y = plain.norm1, plain.norm2, plain.norm3, plain.norm_y
        self.attn, self.mlp = PackedSelfAttention(plain.attn), PackedMlp(plain.mlp)
        self.cross_attn = PackedCrossAttention(plain.cross_attn)

    def look_at(self, y: Tensor, rope: Rope | None) -> KeysValues:
        return self.cross_attn.look_at(self.norm_y(y), rope)

    def forward(self, x: Tensor, seen: KeysValues, rope: Rope | None, attend: Attend = attend_by_heads) -> Tensor:
        x = self.attn.added_to(x, self.norm1(x), rope)
        x = self.cross_attn.added_to(x, self.norm2(x), seen, rope, attend)
        return self.mlp.added_to(x, self.norm3(x))


class PackedConditionedBlock(nn.Module):
    def __init__(self, plain: ConditionedBlock) -> None:
        super().__init__()
        self.norm1: ConditionedNorm = plain.norm1
        self.norm2: ConditionedNorm = plain.norm2
        self.attn, self.mlp = PackedSelfAttention(plain.attn), PackedMlp(plain.mlp)

    def forward(self, x: Tensor, condition: Tensor, rope: Rope) -> Tensor:
        x = self.attn.added_to(x, self.norm1(x, condition), rope)
        return self.mlp.added_to(x, self.norm2(x, condition))


_PACKED: dict[type[nn.Module], Callable[[Any], nn.Module]] = {
    EncoderBlock: PackedEncoderBlock,
    DecoderBlock: PackedDecoderBlock,
    ConditionedBlock: PackedConditionedBlock,
}
