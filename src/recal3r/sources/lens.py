"""A camera whose lens is known: its pictures straightened, and its intrinsics beside each of them.

H, W pixels
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recal3r.sources.base import Reader, Source, SourceError
from recal3r.types import Array, Frame, Image

_COUNTS = (4, 5, 8)  # of OpenCV's coefficients
_SEARCHED = 4096  # pixels from edge to edge in the search for where a lens folds the picture over


@dataclass(frozen=True)
class Lens:
    """Focal lengths and principal point in pixels of the pictures as they come out of a source, upright and with pixel
    centres at integers; and how the lens bends straight lines, in OpenCV's terms.

    distortion: k1 k2 p1 p2, and where there are more k3, or k3 k4 k5 k6.
    fisheye: k1 k2 k3 k4 of OpenCV's fisheye model.
    """

    fx: float
    fy: float
    cx: float
    cy: float
    distortion: tuple[float, ...] = ()
    fisheye: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        numbers = (self.fx, self.fy, self.cx, self.cy, *self.distortion, *self.fisheye)
        if not np.isfinite(numbers).all() or min(self.fx, self.fy) <= 0:
            raise SourceError(f"Intrinsics of {numbers[:4]} are no camera's; give fx fy cx cy in pixels.")
        if self.distortion and self.fisheye:
            raise SourceError("A lens was given both distortion and fisheye coefficients; give those of one model.")
        if self.distortion and len(self.distortion) not in _COUNTS:
            raise SourceError(f"{len(self.distortion)} numbers are no distortion; give k1 k2 p1 p2, or 5 or 8 of them.")
        if self.fisheye and len(self.fisheye) != 4:
            raise SourceError(f"{len(self.fisheye)} numbers are no fisheye lens; give k1 k2 k3 k4.")

    @property
    def intrinsics(self) -> Array:
        """K [3, 3]."""
        return np.array([[self.fx, 0, self.cx], [0, self.fy, self.cy], [0, 0, 1]], np.float64)

    @property
    def is_straight(self) -> bool:
        return not any(self.distortion) and not self.fisheye

    def seen(self, column: Array, row: Array) -> tuple[Array, Array]:
        """Where in the picture the lens shows what a pinhole camera would show at (column, row)."""
        x, y = (column - self.cx) / self.fx, (row - self.cy) / self.fy
        x, y = _fisheye(x, y, self.fisheye) if self.fisheye else _brown(x, y, self.distortion)
        return x * self.fx + self.cx, y * self.fy + self.cy


def _brown(x: Array, y: Array, coefficients: tuple[float, ...]) -> tuple[Array, Array]:
    """Radial as a ratio of polynomials, and tangential (Brown and Conrady, as OpenCV writes it)."""
    k1, k2, p1, p2, k3, k4, k5, k6 = (*coefficients, *(0.0,) * (8 - len(coefficients)))
    r2 = x * x + y * y
    radial = (1 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))
    return (
        x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x),
        y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y,
    )


def _fisheye(x: Array, y: Array, coefficients: tuple[float, ...]) -> tuple[Array, Array]:
    """The distance from the centre grows with the angle and not with its tangent (Kannala and Brandt)."""
    radius = np.hypot(x, y)
    angle = np.arctan(radius)
    k1, k2, k3, k4 = coefficients
    a2 = angle * angle
    bent = angle * (1 + a2 * (k1 + a2 * (k2 + a2 * (k3 + a2 * k4))))
    scale = np.divide(bent, radius, out=np.ones_like(radius), where=radius > 1e-12)
    return x * scale, y * scale


class Calibrated(Reader):
    """The frames of a source, straightened where the lens bends, each with the intrinsics of its picture.

    A straightened picture keeps size and intrinsics; what the lens did not show is black.
    """

    def __init__(self, source: Source, lens: Lens) -> None:
        super().__init__()
        self.source, self.lens = source, lens
        self.repeatable = source.repeatable

    @property
    def description(self) -> str:
        straightened = "" if self.lens.is_straight else ", straightened"
        return f"{self.source.description}, of a known camera{straightened}"

    @property
    def frames(self) -> int | None:
        return self.source.frames

    @property
    def skipped(self) -> object:
        """What the source left out; None where it never does."""
        return getattr(self.source, "skipped", None)

    @property
    def counters(self) -> object:
        """What became of the source's frames; None where it does not count them."""
        return getattr(self.source, "counters", None)

    def close(self) -> None:
        super().close()
        self.source.close()

    def _read(self) -> Generator[Frame]:
        remap: _Remap | None = None
        for frame in self.source:
            image, size = frame.image, frame.image.shape[:2]
            _require_inside(self.lens, *size)
            if not self.lens.is_straight:
                remap = remap if remap is not None and remap.size == size else _remap(self.lens, *size)
                image = remap.straightened(image)
            yield Frame(image, frame.timestamp, self.lens.intrinsics)


class _Remap(NamedTuple):
    """Which pixels of a picture, and how much of each, make the pixels of the straight one."""

    size: tuple[int, int]  # (H, W)
    upper_left: NDArray[np.int64]  # [H·W], in a picture with a black pixel's border
    right: NDArray[np.float32]  # [H·W, 1], in [0, 1)
    down: NDArray[np.float32]  # [H·W, 1]

    def straightened(self, image: Image) -> Image:
        bordered = np.pad(image, ((1, 1), (1, 1), (0, 0))).reshape(-1, 3)
        wide = self.size[1] + 2
        upper = _between(bordered[self.upper_left], bordered[self.upper_left + 1], self.right)
        lower = _between(bordered[self.upper_left + wide], bordered[self.upper_left + wide + 1], self.right)
        return np.rint(_between(upper, lower, self.down)).astype(np.uint8).reshape(*self.size, 3)


def _between(first: NDArray[np.generic], second: NDArray[np.generic], share: NDArray[np.float32]) -> Array:
    start = first.astype(np.float32)
    return start + share * (second.astype(np.float32) - start)


def _require_inside(lens: Lens, height: int, width: int) -> None:
    if not (-0.5 <= lens.cx <= width - 0.5 and -0.5 <= lens.cy <= height - 0.5):
        raise SourceError(
            f"The principal point ({lens.cx:g}, {lens.cy:g}) lies outside of a picture of {width}x{height}; "
            "give the intrinsics of the pictures as they are, upright and at their own size."
        )


def _remap(lens: Lens, height: int, width: int) -> _Remap:
    column, row = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    x, y = lens.seen(column, row)
    folded = _folded(lens, column, row)
    x, y = np.where(folded, -1.0, x).clip(-1, width), np.where(folded, -1.0, y).clip(-1, height)
    left, top = np.minimum(np.floor(x), width - 1), np.minimum(np.floor(y), height - 1)
    upper_left = ((top + 1) * (width + 2) + left + 1).astype(np.int64).ravel()
    return _Remap(
        (height, width),
        upper_left,
        (x - left).astype(np.float32).reshape(-1, 1),
        (y - top).astype(np.float32).reshape(-1, 1),
    )


def _folded(lens: Lens, column: Array, row: Array) -> NDArray[np.bool_]:
    """Beyond some radius a polynomial turns round and shows the picture again, mirrored: no lens does."""
    radius = np.hypot((column - lens.cx) / lens.fx, (row - lens.cy) / lens.fy)
    tried = np.linspace(0.0, float(radius.max()), _SEARCHED)
    across = np.zeros_like(tried)
    bent, _ = _fisheye(tried, across, lens.fisheye) if lens.fisheye else _brown(tried, across, _radial(lens.distortion))
    falls = np.flatnonzero(np.diff(bent) <= 0)
    return radius > (float(tried[falls[0]]) if len(falls) else np.inf)


def _radial(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    return (*coefficients[:2], 0.0, 0.0, *coefficients[4:])
