"""What is read out of a decoded frame: its pose, points seen from two frames of reference, colours.

B batch · P = h·w patches · H = 16h, W = 16w pixels · C decoder width
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from recal3r.geometry.vector import lengths
from recal3r.model.blocks import ConditionedBlock, Mlp, stack
from recal3r.model.config import Cut3rConfig
from recal3r.model.decoder import Decoded
from recal3r.model.dpt import DptHead
from recal3r.model.rope import grid_positions, rope

TINY = 1e-8


class Head(enum.Enum):
    """A part of the read-out. One that was not asked for does not run."""

    POSE = "pose"
    CAMERA = "points in this frame's camera"
    WORLD = "points in the first camera"
    RGB = "colours"


class Points(NamedTuple):
    points: Tensor  # [B, H, W, 3]
    confidence: Tensor  # [B, H, W], at least 1


class ReadOut(NamedTuple):
    pose: Tensor | None = None  # [B, 7]: translation, quaternion wxyz; camera to world
    camera: Points | None = None
    world: Points | None = None
    rgb: Tensor | None = None  # [B, H, W, 3] in [-1, 1]


def stretched(x: Tensor) -> Tensor:
    """x / |x| · (exp |x| - 1), over the last axis: near things finely, far things at all."""
    norm = lengths(x, keepdim=True)
    return x * (torch.expm1(norm) / norm.clamp_min(TINY))


def points_of(raw: Tensor) -> Points:  # [B, 4, H, W]
    raw = raw.movedim(1, -1)
    return Points(stretched(raw[..., :3]), 1 + raw[..., 3].exp())


def colours_of(raw: Tensor) -> Tensor:  # [B, 3, H, W] -> [B, H, W, 3]
    return 2 * (raw.movedim(1, -1).sigmoid() * (1 - 2e-6) + 1e-6) - 1


def pose_of(raw: Tensor) -> Tensor:  # [B, 7]
    translation, quaternion = raw[:, :3], raw[:, 3:]
    quaternion = F.normalize(quaternion, dim=-1, eps=TINY)
    quaternion = torch.where(quaternion[:, :1] < 0, -quaternion, quaternion)
    return torch.cat((stretched(translation), quaternion), dim=-1)


class PixelMlp(nn.Module):
    """An MLP per token whose outputs are the pixels of its patch."""

    def __init__(self, config: Cut3rConfig, channels: int) -> None:
        super().__init__()
        self.patch_size = config.patch_size
        width = config.decoder_width
        self.mlp = Mlp(width, config.mlp_ratio * width, channels * config.patch_size**2)

    def forward(self, tokens: Tensor, grid: tuple[int, int]) -> Tensor:  # [B, P, C] -> [B, channels, H, W]
        pixels: Tensor = self.mlp(tokens)
        return F.pixel_shuffle(pixels.transpose(1, 2).reshape(len(tokens), -1, *grid), self.patch_size)


class Heads(nn.Module):
    """Poses, points and colours come from float32 or better, whatever the trunk works in. The dense heads' maps are of
    the trunk's precision."""

    def __init__(self, config: Cut3rConfig) -> None:
        super().__init__()
        self.config = config
        width = config.decoder_width
        self.pose = Mlp(width, config.mlp_ratio * width, 7)
        self.to_world = stack(ConditionedBlock(width, config.image_heads, config.mlp_ratio) for _ in range(2))
        self.camera: nn.Module
        self.world: nn.Module
        self.rgb: nn.Module
        if config.head == "dpt":
            self.camera, self.world, self.rgb = DptHead(config, 4), DptHead(config, 4), DptHead(config, 3)
        else:
            self.camera, self.world, self.rgb = PixelMlp(config, 4), PixelMlp(config, 4), PixelMlp(config, 3)

    def working_in(self, dtype: torch.dtype) -> None:
        self.to(torch.promote_types(dtype, torch.float32))
        for head in (self.camera, self.world, self.rgb):
            if isinstance(head, DptHead):
                head.working_in(dtype)

    def forward(
        self, tokens: Tensor, decoded: Decoded, grid: tuple[int, int], wanted: frozenset[Head]
    ) -> ReadOut:  # tokens F [B, P, E]
        precision = self.pose.fc1.weight.dtype
        final, pose = decoded.final.to(precision), decoded.pose[:, 0].to(precision)
        levels = (tokens, decoded.early, decoded.late)

        def pixels(head: nn.Module, last: Tensor) -> Tensor:
            return head([*levels, last], grid) if self.config.head == "dpt" else head(last, grid)

        return ReadOut(
            pose=pose_of(self.pose(pose)) if Head.POSE in wanted else None,
            camera=self._camera_points(pixels(self.camera, final)) if Head.CAMERA in wanted else None,
            world=points_of(pixels(self.world, self._in_world(final, pose, grid))) if Head.WORLD in wanted else None,
            rgb=colours_of(pixels(self.rgb, final)) if Head.RGB in wanted else None,
        )

    def _camera_points(self, raw: Tensor) -> Points:  # [B, 4, H, W]
        if self.config.head == "linear":  # nothing lies behind the camera: x·sign(z) has a z of at least 0
            raw = torch.cat((raw[:, :3] * raw[:, 2:3].sign(), raw[:, 3:]), dim=1)
        return points_of(raw)

    def _in_world(self, final: Tensor, pose: Tensor, grid: tuple[int, int]) -> Tensor:
        """The image tokens, told by the pose token where their camera stands."""
        turn = rope(
            grid_positions(*grid, final.device),
            self.config.decoder_width // self.config.image_heads,
            self.config.rope_base,
            final.dtype,
        )
        for block in self.to_world:
            final = block(final, pose, turn)
        return final
