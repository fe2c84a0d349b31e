"""Pixels to tokens: the same encoder reads images (3 channels) and ray maps (6 channels).

B batch · h, w patches down and across · P = h·w · E encoder width
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recal3r.model.blocks import EncoderBlock, layer_norm, stack
from recal3r.model.config import Cut3rConfig
from recal3r.model.rope import grid_positions, rope


class Encoder(nn.Module):
    def __init__(self, config: Cut3rConfig, channels: int, depth: int, heads: int) -> None:
        super().__init__()
        width = config.encoder_width
        self.head_dim = width // heads
        self.rope_base = config.rope_base
        self.patches = nn.Conv2d(channels, width, config.patch_size, config.patch_size)
        self.blocks = stack(EncoderBlock(width, heads, config.mlp_ratio) for _ in range(depth))
        self.norm = layer_norm(width)

    def forward(self, pixels: Tensor) -> Tensor:  # [B, channels, 16h, 16w] -> [B, P, E]
        patches: Tensor = self.patches(pixels.to(self.patches.weight.dtype))  # [B, E, h, w]
        positions = grid_positions(patches.shape[-2], patches.shape[-1], pixels.device)
        turn = rope(positions, self.head_dim, self.rope_base, patches.dtype)
        tokens = patches.flatten(2).transpose(1, 2)
        for block in self.blocks:
            tokens = block(tokens, turn)
        return self.norm(tokens)


def sum_of_views(image: Tensor | None, rays: Tensor | None) -> Tensor:
    """A view's tokens: of its image, of its rays, or the sum of both."""
    given = [tokens for tokens in (image, rays) if tokens is not None]
    return given[0] if len(given) == 1 else torch.add(*given)
