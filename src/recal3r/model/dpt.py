"""The dense prediction head: tokens of four depths, fused from coarse to fine.

B batch · h, w patches down and across · F = 256 fused channels
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from recal3r.model.blocks import stack
from recal3r.model.config import Cut3rConfig

LEVEL_WIDTHS = (96, 192, 384, 768)
FUSED_WIDTH = 256
HEAD_WIDTH = 128


def conv3(inputs: int, outputs: int, stride: int = 1, *, bias: bool = True) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=bias)


def doubled(x: Tensor) -> Tensor:
    return functional.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True)


class ResidualUnit(nn.Module):
    """x + conv2(relu(conv1(relu x)))."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = conv3(FUSED_WIDTH, FUSED_WIDTH)
        self.conv2 = conv3(FUSED_WIDTH, FUSED_WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        inner: Tensor = self.conv2(functional.relu_(self.conv1(functional.relu(x))))
        return inner.add_(x)  # in place: maps of this size cost more to allocate than to add


class Fusion(nn.Module):
    """Adds a finer level to what is there, and doubles the size."""

    def __init__(self) -> None:
        super().__init__()
        self.skip = ResidualUnit()  # exists in the coarsest level's checkpoint too, unused
        self.merge = ResidualUnit()
        self.out = nn.Conv2d(FUSED_WIDTH, FUSED_WIDTH, 1)

    def forward(self, x: Tensor, finer: Tensor | None) -> Tensor:  # [B, F, h, w] -> [B, F, 2h, 2w]
        if finer is not None:
            x = self.skip(finer).add_(x)
        # The definition doubles first. A 1x1 convolution commutes with means of pixels, and here has a quarter of them.
        return doubled(self.out(self.merge(x)))


class DptHead(nn.Module):
    def __init__(self, config: Cut3rConfig, channels: int) -> None:
        super().__init__()
        widths_in = (config.encoder_width, *[config.decoder_width] * 3)
        one, two, _, four = LEVEL_WIDTHS
        resize: tuple[list[nn.Module], ...] = (
            [nn.ConvTranspose2d(one, one, 4, 4)],
            [nn.ConvTranspose2d(two, two, 2, 2)],
            [],
            [conv3(four, four, stride=2)],
        )
        self.reassemble = stack(
            nn.Sequential(nn.Conv2d(width_in, width, 1), *change)
            for width_in, width, change in zip(widths_in, LEVEL_WIDTHS, resize, strict=True)
        )
        self.narrow = stack(conv3(width, FUSED_WIDTH, bias=False) for width in LEVEL_WIDTHS)
        self.fusion = stack(Fusion() for _ in LEVEL_WIDTHS)  # fine to coarse
        self.head = stack(
            (conv3(FUSED_WIDTH, HEAD_WIDTH), conv3(HEAD_WIDTH, HEAD_WIDTH), nn.Conv2d(HEAD_WIDTH, channels, 1))
        )

    def working_in(self, dtype: torch.dtype) -> None:
        """Maps are of `dtype`. What is made of the last one will be exponents, so it is float32 or better."""
        self.to(dtype)
        self.head[-1].to(torch.promote_types(dtype, torch.float32))

    def forward(self, levels: Sequence[Tensor], grid: tuple[int, int]) -> Tensor:
        """Four levels of tokens [B, h·w, E or C] -> [B, channels, 16h, 16w]."""
        widen, refine, project = self.head
        levels = [tokens.to(widen.weight.dtype) for tokens in levels]
        maps = [
            narrow(reassemble(tokens.transpose(1, 2).unflatten(2, grid)))
            for tokens, reassemble, narrow in zip(levels, self.reassemble, self.narrow, strict=True)
        ]  # sides 4h, 2h, h, ⌈h/2⌉
        x: Tensor = self.fusion[3](maps[3], None)
        x = x[:, :, : maps[2].shape[2], : maps[2].shape[3]]  # odd h: twice ⌈h/2⌉ is one too many
        for level in (2, 1, 0):
            x = self.fusion[level](x, maps[level])

        x = doubled(widen(x))  # 100 MB at 512x384; what it was made of is let go before the next of that size
        return project(functional.relu_(refine(x)).to(project.weight.dtype))
