"""What helps training and is no part of the network: small heads of its own, and looks inside.

B pictures · P patches · N state tokens · E encoder width · C decoder width
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from recal3r.model.attention import KeysValues, split_heads
from recal3r.model.config import Cut3rConfig
from recal3r.model.cut3r import Cut3r
from recal3r.model.decoder import Decoded
from recal3r.train.losses import choice_loss

SUPERVISED_HEADS = 2
_MATCH_WIDTH = 96


class HelperHeads(nn.Module):
    """They learn beside the network and are thrown away."""

    def __init__(self, config: Cut3rConfig) -> None:
        super().__init__()
        pixels = config.patch_size**2
        self.patch_size = config.patch_size
        self.log_depth = nn.Linear(config.encoder_width, pixels)
        self.match_query = nn.Linear(config.encoder_width, _MATCH_WIDTH)
        self.match_key = nn.Linear(config.encoder_width, _MATCH_WIDTH)
        self.flow = nn.Linear(config.decoder_width, 5 * pixels)

    def depth(self, tokens: Tensor, grid: tuple[int, int]) -> Tensor:  # [B, P, E] -> [B, H, W], log metres
        return self._pixels(self.log_depth(tokens), grid)[:, 0]

    def matches(self, second: Tensor, first: Tensor) -> Tensor:
        """How well each patch of the second picture fits each of the first: [B, P, E] twice -> [B, P, P]."""
        query, key = self.match_query(second), self.match_key(first)
        return query @ key.transpose(1, 2) * _MATCH_WIDTH**-0.5

    def flows(self, tokens: Tensor, grid: tuple[int, int]) -> tuple[Tensor, Tensor]:
        """Optical flow [B, H, W, 2] in picture widths, scene flow [B, H, W, 3] in metres."""
        flow = self._pixels(self.flow(tokens), grid).movedim(1, -1)
        return flow[..., :2], flow[..., 2:]

    def _pixels(self, values: Tensor, grid: tuple[int, int]) -> Tensor:  # [B, P, c·p²] -> [B, c, H, W]
        return F.pixel_shuffle(values.float().transpose(1, 2).reshape(len(values), -1, *grid), self.patch_size)


@dataclass
class Seen:
    """What happened inside the decoder the last time it ran."""

    attention: list[Tensor] = field(default_factory=list[Tensor])  # logits [B, heads, P, N] of the middle layers
    decoded: Decoded | None = None


@contextmanager
def watching(model: Cut3r) -> Generator[Seen]:
    """Records the middle image layers' cross-attention logits (of two heads) and the decoder's result."""
    seen = Seen()
    depth = model.config.decoder_depth

    def before(_module: nn.Module, _arguments: tuple[Any, ...]) -> None:
        seen.attention.clear()

    def after(_module: nn.Module, _arguments: tuple[Any, ...], result: Decoded) -> None:
        seen.decoded = result

    def look(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        seen.attention.append(_logits(module, *arguments[:3]))

    handles = [model.decoder.register_forward_pre_hook(before), model.decoder.register_forward_hook(after)]
    for block in list(model.decoder.image_blocks)[depth // 4 : depth - max(1, depth // 4)]:
        handles.append(block.cross_attn.register_forward_pre_hook(look))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def _logits(module: Any, x: Tensor, keys_values: KeysValues, rope: Any) -> Tensor:
    queries = rope(split_heads(module.projq(x), module.heads))[:, :SUPERVISED_HEADS, 1:]  # the pose token asks freely
    keys = keys_values.keys[:, :SUPERVISED_HEADS]
    return queries @ keys.transpose(-2, -1) * queries.shape[-1] ** -0.5


def attention_loss(seen: Seen, target: Tensor, valid: Tensor) -> Tensor:
    """The supervised heads look from each patch [B, P] at the state token that stands for the place it shows."""
    losses = [
        choice_loss(logits, target[:, None].expand(logits.shape[:-1]), valid[:, None].expand(logits.shape[:-1]))
        for logits in seen.attention
    ]
    return torch.stack(losses).mean()
