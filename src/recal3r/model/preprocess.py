"""From a picture of any size to what the network reads, with a record of how.

Three plans: keep the picture (`FitLongSide`), the square that square networks were trained on (`CentralSquare`), or
as it comes (`AsItComes`). The original programs also cut square pictures to 4:3: `size="paper"`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np
import torch
from PIL import Image as PillowImage
from torch import Tensor

from recal3r.errors import ImageError
from recal3r.model.config import Cut3rConfig
from recal3r.types import Crop, Image

Size = Literal["auto", "paper"] | int | None


class Window(NamedTuple):
    """The part of a picture that the network reads."""

    crop: Crop
    width: int
    height: int


class Plan(Protocol):
    def window(self, width: int, height: int) -> Window:
        """The window of an original picture of this size."""
        ...


def _scaled(width: int, height: int, side: int, reference: int) -> tuple[int, int]:
    return max(1, round(width * side / reference)), max(1, round(height * side / reference))


def _central(original: tuple[int, int], resized: tuple[int, int], width: int, height: int) -> Window:
    left, top = resized[0] // 2 - width // 2, resized[1] // 2 - height // 2
    return Window(Crop(original, resized, left, top), width, height)


@dataclass(frozen=True)
class FitLongSide:
    """Long side to `side`, then the largest central window of whole patches."""

    side: int
    patch: int
    square_to_4_3: bool = False

    def window(self, width: int, height: int) -> Window:
        resized = _scaled(width, height, self.side, max(width, height))
        cut_width, cut_height = (2 * (side // 2) // self.patch * self.patch for side in resized)
        if self.square_to_4_3 and cut_width == cut_height:
            cut_height = 3 * cut_width // 4 // self.patch * self.patch
        if not cut_width or not cut_height:
            raise ImageError(
                f"A picture of {width}x{height} is too thin: with its long side at {self.side} pixels "
                f"the other is less than one patch of {self.patch}; cut it to below {self.side // self.patch}:1."
            )
        return _central((width, height), resized, cut_width, cut_height)


@dataclass(frozen=True)
class CentralSquare:
    """Short side to `side`, then the central square."""

    side: int

    def window(self, width: int, height: int) -> Window:
        if max(width, height) > 64 * min(width, height):
            raise ImageError(f"A picture of {width}x{height} is too thin for a central square; cut it below 64:1.")
        resized = _scaled(width, height, self.side, min(width, height))
        return _central((width, height), resized, self.side, self.side)


@dataclass(frozen=True)
class AsItComes:
    def window(self, width: int, height: int) -> Window:
        return Window(Crop((width, height), (width, height)), width, height)


def plan_for(size: Size, config: Cut3rConfig) -> Plan:
    """`auto`: the size the network was trained for, nothing thrown away that need not be; `paper`: as the original
    programs cut; a number: that long side; None: as it comes."""
    if size is None:
        return AsItComes()
    if size in ("auto", "paper"):
        if config.square:
            return CentralSquare(config.image_size)
        return FitLongSide(config.image_size, config.patch_size, square_to_4_3=size == "paper")
    if type(size) is int and size >= config.patch_size:
        return FitLongSide(size, config.patch_size)
    raise ImageError(
        f"size={size!r} is no size; use 'auto', 'paper', None, or a long side of at least {config.patch_size} pixels."
    )


def checked(image: object) -> Image:
    """The array behind `image`, or what is wrong with it."""
    array = np.asarray(image)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise ImageError(f"An image is {array.dtype} {list(array.shape)}, but must be uint8 [height, width, 3].")
    if not array.size:
        raise ImageError(f"An image of shape {list(array.shape)} has no pixels.")
    return array


def cut(image: Image, window: Window) -> Image:
    """The window's pixels [H, W, 3]. Shrinks with Lanczos, grows bicubically."""
    crop = window.crop
    if crop.resized != crop.original:
        shrinks = max(crop.resized) < max(crop.original)
        filter_ = PillowImage.Resampling.LANCZOS if shrinks else PillowImage.Resampling.BICUBIC
        image = np.asarray(PillowImage.fromarray(image).resize(crop.resized, filter_))
    return image[crop.top : crop.top + window.height, crop.left : crop.left + window.width]


def normalised(images: list[Image], dtype: torch.dtype, device: torch.device) -> Tensor:
    """uint8 [H, W, 3] each -> [B, 3, H, W] in [-1, 1]."""
    pixels = torch.from_numpy(np.stack(images)).to(device)
    return ((pixels.to(dtype) / 255 - 0.5) / 0.5).permute(0, 3, 1, 2)
