"""How the pictures of a protocol become the network's, and the truth with them.

H, W: the picture as it lies on the disk · h, w: the network's
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from recal3r.errors import EvalError
from recal3r.model.config import Cut3rConfig
from recal3r.model.preprocess import Size
from recal3r.types import Array, Image

Number = TypeVar("Number", bound="np.generic[Any]")


class Box(NamedTuple):
    left: int
    top: int
    right: int
    bottom: int


class Cut(Protocol):
    @property
    def size(self) -> Size:
        """What the reconstructor does with what it is given."""
        ...

    def image(self, image: Image, intrinsics: Array | None, config: Cut3rConfig) -> Image: ...


@dataclass(frozen=True)
class Cropped:
    """Long side to the network's, then the central window of whole patches, as the original programs cut."""

    @property
    def size(self) -> Size:
        return "paper"

    def image(self, image: Image, intrinsics: Array | None, config: Cut3rConfig) -> Image:
        del intrinsics, config
        return image


@dataclass(frozen=True)
class Squeezed:
    """Long side to the network's, then both sides squeezed to whole patches; nothing is cut off."""

    @property
    def size(self) -> Size:
        return None

    def image(self, image: Image, intrinsics: Array | None, config: Cut3rConfig) -> Image:
        del intrinsics
        height, width = image.shape[:2]
        scale, patch = config.image_size / max(height, width), config.patch_size
        target = tuple(max(patch, 2 * (round(side * scale) // 2) // patch * patch) for side in (width, height))
        return resized(image, (target[0], target[1]), PillowImage.Resampling.LANCZOS)


@dataclass(frozen=True)
class Central:
    """The largest window around the principal point, then to the network's size by Lanczos: 512×384, or its square."""

    @property
    def size(self) -> Size:
        return None

    def image(self, image: Image, intrinsics: Array | None, config: Cut3rConfig) -> Image:
        side = config.image_size
        target = (side, side if config.square else 3 * side // 4)
        box = _around_principal_point((image.shape[1], image.shape[0]), intrinsics, target)
        return resized(image[box.top : box.bottom, box.left : box.right], target, PillowImage.Resampling.LANCZOS)

    def truth(self, depth: Array, intrinsics: Array, size: tuple[int, int]) -> tuple[Array, Array]:
        """Depth [h, w], nearest, and K, at the network's size (width, height)."""
        box = _around_principal_point((depth.shape[1], depth.shape[0]), intrinsics, size)
        depth = depth[box.top : box.bottom, box.left : box.right]
        sx, sy = size[0] / depth.shape[1], size[1] / depth.shape[0]
        # Pixel edges scale, not centres: (x + ½) = s (x_before + ½ - left).
        to_network = np.array([[sx, 0, sx * (0.5 - box.left) - 0.5], [0, sy, sy * (0.5 - box.top) - 0.5], [0, 0, 1]])
        return resized(depth, size, PillowImage.Resampling.NEAREST), to_network @ intrinsics


def _around_principal_point(picture: tuple[int, int], intrinsics: Array | None, target: tuple[int, int]) -> Box:
    """The largest window of the target's shape (width, height) whose middle is the principal point.

    Where that is unknown, it is the middle of the picture.
    """
    width, height = picture
    column, row = (width // 2, height // 2) if intrinsics is None else np.rint(intrinsics[:2, 2]).astype(int).tolist()
    half_width, half_height = min(column, width - column), min(row, height - row)
    half_width = min(half_width, half_height * target[0] // target[1])
    half_height = min(half_height, half_width * target[1] // target[0])
    if half_width < 1 or half_height < 1:
        raise EvalError(
            f"Around the principal point ({column}, {row}) there is nothing of a picture of {width}x{height}."
        )
    return Box(column - half_width, row - half_height, column + half_width, row + half_height)


def resized(array: NDArray[Number], size: tuple[int, int], resampling: PillowImage.Resampling) -> NDArray[Number]:
    """[H, W] float32 or [H, W, 3] uint8, to (width, height)."""
    if (array.shape[1], array.shape[0]) == size:
        return array
    return np.asarray(PillowImage.fromarray(np.ascontiguousarray(array)).resize(size, resampling))
