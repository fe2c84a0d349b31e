"""State and image look at each other, layer by layer.

B batch · N state tokens · P patches · E encoder width · C decoder width
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from recal3r.model.attention import KeysValues, attend
from recal3r.model.blocks import DecoderBlock, layer_norm, stack
from recal3r.model.config import Cut3rConfig
from recal3r.model.probe import Probe
from recal3r.model.rope import Rope, grid_positions, rope, state_positions, with_pose_position


class Decoded(NamedTuple):
    candidate: Tensor  # Ŝ [B, N, C]
    pose: Tensor  # [B, 1, C]
    early: Tensor  # [B, P, C], image stream after half of the layers
    late: Tensor  # [B, P, C], after three quarters
    final: Tensor  # [B, P, C], after all, normed
    embedding: Tensor  # E(F) [B, P, C], the image stream before the first layer
    reading: Reading


class Reading(NamedTuple):
    """How the image side looked at the state in the last layer: whence each patch was read."""

    queries: Tensor  # [B, H, 1 + P, d]
    keys: Tensor  # [B, H, N, d]

    def of(self, values: Tensor) -> Tensor:  # [B, N] -> [B, P]
        """What the tokens that a patch looked at have of `values`, on average over heads."""
        queries, keys = (x.to(values.dtype) for x in (self.queries[:, :, 1:], self.keys))
        seen = values[:, None, :, None].expand(-1, keys.shape[1], -1, queries.shape[-1])
        return attend(queries, KeysValues(keys, seen))[..., 0].mean(1)


class Decoder(nn.Module):
    def __init__(self, config: Cut3rConfig) -> None:
        super().__init__()
        self.config = config
        width, depth = config.decoder_width, config.decoder_depth
        self.register_tokens = nn.Embedding(config.state_tokens, config.encoder_width)
        self.embed_state = nn.Linear(config.encoder_width, width)
        self.embed_image = nn.Linear(config.encoder_width, width)
        self.state_blocks = stack(DecoderBlock(width, config.state_heads, config.mlp_ratio) for _ in range(depth))
        self.image_blocks = stack(DecoderBlock(width, config.image_heads, config.mlp_ratio) for _ in range(depth))
        self.state_norm = layer_norm(width)
        self.image_norm = layer_norm(width)

    def initial_state(self) -> Tensor:  # S_0 [1, N, C]
        return self.embed_state(self.register_tokens.weight)[None]

    def forward(
        self, tokens: Tensor, grid: tuple[int, int], state: Tensor, pose_token: Tensor, probe: Probe | None
    ) -> Decoded:  # tokens F [B, P, E], state [B, N, C], pose_token [B, 1, C]
        config = self.config
        embedding = self.embed_image(tokens)
        image = torch.cat((pose_token.to(embedding.dtype), embedding), dim=1)  # [B, 1 + P, C]
        state = state.to(embedding.dtype)

        positions_image = with_pose_position(grid_positions(*grid, tokens.device))
        positions_state = state_positions(config.state_tokens, tokens.device)
        image_head_dim = config.decoder_width // config.image_heads
        state_head_dim = config.decoder_width // config.state_heads

        def turn(positions: Tensor, head_dim: int) -> Rope:
            return rope(positions, head_dim, config.rope_base, embedding.dtype)

        # A token turns by the head size of the block it meets: its own block's, or the other stream's.
        state_in_state, image_in_state = turn(positions_state, state_head_dim), turn(positions_image, state_head_dim)
        image_in_image, state_in_image = turn(positions_image, image_head_dim), turn(positions_state, image_head_dim)

        reading: list[Reading] = []

        def attend_and_remember(queries: Tensor, seen: KeysValues) -> Tensor:
            reading[:] = [Reading(queries, seen.keys)]
            return self.image_blocks[-1].attends(queries, seen)

        streams: list[Tensor] = []
        for state_block, image_block in zip(self.state_blocks, self.image_blocks, strict=True):
            seen_image = state_block.look_at(image, image_in_state)
            seen_state = image_block.look_at(state, state_in_image)
            looking = state_block.attends if probe is None else probe.watch(seen_state.values)
            state, image = (
                state_block(state, seen_image, state_in_state, looking),
                image_block(image, seen_state, image_in_image, attend_and_remember),
            )
            streams.append(image)

        depth = config.decoder_depth
        image = self.image_norm(image)
        return Decoded(
            candidate=self.state_norm(state),
            pose=image[:, :1],
            early=streams[depth * 2 // 4 - 1][:, 1:],
            late=streams[depth * 3 // 4 - 1][:, 1:],
            final=image[:, 1:],
            embedding=embedding,
            reading=reading[0],
        )
