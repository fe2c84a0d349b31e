"""The values that travel through everything: what comes in, what goes out.

Arrays are NumPy. H, W: the network's picture; pixel (column, row) has its centre at integers.
Cameras look along +z, x to the right, y down. `T_world_camera` takes camera coordinates to the world's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
Image = NDArray[np.uint8]


@dataclass(frozen=True)
class Frame:
    """One picture of a stream."""

    image: Image  # [H, W, 3], of any size
    timestamp: float | None = None  # seconds
    intrinsics: Array | None = None  # K [3, 3] of this picture, where it is known


@dataclass(frozen=True)
class Crop:
    """How a picture became the network's: resized to `resized`, then cut to the window at (left, top)."""

    original: tuple[int, int]  # (width, height)
    resized: tuple[int, int]  # (width, height)
    left: int = 0
    top: int = 0

    @property
    def scale(self) -> tuple[float, float]:
        """Network pixels per original pixel, (x, y)."""
        return self.resized[0] / self.original[0], self.resized[1] / self.original[1]

    @property
    def to_original(self) -> Array:
        """From the network's pixels to those of the original picture [3, 3]."""
        sx, sy = self.scale
        # Pixel edges, not centres, scale: (x + ½) = s (x_original + ½) - left.
        return np.array(
            [
                [1 / sx, 0, (self.left + 0.5) / sx - 0.5],
                [0, 1 / sy, (self.top + 0.5) / sy - 0.5],
                [0, 0, 1],
            ]
        )


@dataclass(frozen=True)
class Camera:
    """A pinhole camera that stands somewhere."""

    intrinsics: Array  # K [3, 3]
    width: int
    height: int
    T_world_camera: Array = field(default_factory=lambda: np.eye(4))  # [4, 4]
    crop: Crop | None = None
    """How this camera's picture was cut from the original one; None where there is no other."""

    @property
    def original(self) -> Camera:
        """The same camera at the resolution the picture came in."""
        if self.crop is None:
            return self
        width, height = self.crop.original
        return replace(self, intrinsics=self.crop.to_original @ self.intrinsics, width=width, height=height, crop=None)


@dataclass(frozen=True)
class Alarm:
    """Something about a stream that people should know, said when it begins."""

    kind: str  # "drift", "jump", ...
    sentence: str


@dataclass(frozen=True)
class Health:
    """How a stream was at one frame."""

    finite: bool = True
    """False: numbers of the network's were NaN or infinite. Such numbers are never written into the state."""
    unwell: tuple[str, ...] = ()
    """The kinds of what is beyond its limit."""
    alarms: tuple[Alarm, ...] = ()
    """What began with this frame."""
    vitals: Mapping[str, float] = field(default_factory=dict[str, float])
    """What was measured; the limits of `engine.health` say what it means."""


@dataclass(frozen=True)
class Prediction:
    """What is known of one frame. A field that was not asked for is None: it was not computed."""

    index: int  # of the frame in its stream, from 0
    timestamp: float | None = None
    T_world_camera: Array | None = None  # [4, 4] float64
    camera: Camera | None = None
    points_camera: Array | None = None  # [H, W, 3]
    depth: Array | None = None  # [H, W]
    confidence_camera: Array | None = None  # [H, W], at least 1
    points_world: Array | None = None  # [H, W, 3]
    confidence_world: Array | None = None  # [H, W], at least 1
    rgb: Array | None = None  # [H, W, 3] in [-1, 1], as the network paints it
    reliability: Array | None = None  # [H, W] in [0, 1]: of the state tokens that each pixel was read from
    learning_rate: Array | None = None  # β [N]; None also where no rule was asked
    signals: Mapping[str, Array] = field(default_factory=dict[str, Array])
    """What the rule saw on its way to β: per token [N], or [1]."""
    health: Health = field(default_factory=Health)
