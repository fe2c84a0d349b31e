"""The memory that tells a new frame roughly where it is, before it is decoded.

B batch · E encoder width · C decoder width · M memory slots, each [key C ; pose C]
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from recal3r.model.blocks import DecoderBlock, small_random, stack


class PoseMemory(nn.Module):
    def __init__(self, encoder_width: int, width: int, *, slots: int, heads: int, mlp_ratio: int) -> None:
        super().__init__()
        self.proj_q = nn.Linear(encoder_width, width)
        self.masked_token = small_random(1, 1, width)
        self.initial = small_random(1, slots, 2 * width)
        self.write_blocks = stack(DecoderBlock(2 * width, heads, mlp_ratio) for _ in range(2))
        self.read_blocks = stack(DecoderBlock(2 * width, heads, mlp_ratio) for _ in range(2))

    def read(self, summary: Tensor, memory: Tensor) -> Tensor:  # [B, 1, E], [B, M, 2C] -> [B, 1, C]
        """The pose token of a frame whose image tokens have the mean `summary`."""
        key = self.proj_q(summary)
        memory = memory.to(key.dtype)
        token = torch.cat((key, self.masked_token.expand_as(key)), dim=-1)
        for block in self.read_blocks:
            token = block(token, block.look_at(memory, None), None)
        return token.chunk(2, dim=-1)[1]

    def write(self, summary: Tensor, pose: Tensor, memory: Tensor) -> Tensor:
        """The memory after it has seen the decoded `pose` token [B, 1, C] of that frame."""
        key = self.proj_q(summary)
        feature = torch.cat((key, pose), dim=-1)  # [B, 1, 2C]
        written = memory.to(key.dtype)
        for block in self.write_blocks:
            written = block(written, block.look_at(feature, None), None)
        return written.to(memory.dtype)
