"""Which pixels are worth keeping: pure functions of a prediction and its picture, put together with `&`.

    keep = LeastConfidence(2.0) & DepthRange(far=20.0) & NoEdges() & NoSky()

H, W: the network's picture
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import OutputError
from recal3r.types import Array, Image, Prediction

Mask = NDArray[np.bool_]  # [H, W]: True where a pixel is kept
Confidence = Literal["confidence_world", "confidence_camera"]


class Filter(Protocol):
    """A frozen value that says of every pixel whether it is kept."""

    @property
    def needs(self) -> frozenset[str]:
        """The outputs it looks at."""
        ...

    def __call__(self, prediction: Prediction, image: Image | None) -> Mask: ...


class _Combinable:
    def __and__(self: Filter, other: Filter) -> All:
        return All((self, other))


@dataclass(frozen=True)
class All(_Combinable):
    """What every one of the filters keeps."""

    filters: tuple[Filter, ...]

    @property
    def needs(self) -> frozenset[str]:
        return frozenset[str]().union(*(one.needs for one in self.filters))

    def __call__(self, prediction: Prediction, image: Image | None) -> Mask:
        if not self.filters:
            raise OutputError("All() has no filters to agree; give it one or more, or keep=None for everything.")
        return np.logical_and.reduce([one(prediction, image) for one in self.filters])


@dataclass(frozen=True)
class LeastConfidence(_Combinable):
    """Confidence at or above a threshold; confidence is at least 1 and has no upper end."""

    threshold: float = 1.5
    of: Confidence = "confidence_world"

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.of})

    def __call__(self, prediction: Prediction, image: Image | None) -> Mask:
        del image
        return _output(prediction, self.of, self) >= self.threshold


@dataclass(frozen=True)
class MostConfident(_Combinable):
    """The most confident share of each frame's pixels, whatever the network's scale of confidence."""

    share: float = 0.7
    of: Confidence = "confidence_world"

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise OutputError(f"MostConfident({self.share}) keeps no share of a frame; use one above 0 and up to 1.")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({self.of})

    def __call__(self, prediction: Prediction, image: Image | None) -> Mask:
        del image
        confidence = _output(prediction, self.of, self)
        return confidence >= np.quantile(confidence, 1 - self.share)


@dataclass(frozen=True)
class DepthRange(_Combinable):
    """Depth from `near` to `far`. What is not finite is out of every range."""

    near: float = 0.0
    far: float = np.inf

    def __post_init__(self) -> None:
        if not self.near < self.far:
            raise OutputError(f"DepthRange({self.near}, {self.far}) is empty; its near end must lie before its far.")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"depth"})

    def __call__(self, prediction: Prediction, image: Image | None) -> Mask:
        del image
        depth = _output(prediction, "depth", self)
        return np.isfinite(depth) & (self.near <= depth) & (depth <= self.far)


@dataclass(frozen=True)
class NoEdges(_Combinable):
    """Drops the flying pixels that hang between a near and a far surface.

    At a silhouette a network's depth blends from one surface into the other. On a plane, however slanted, 1/depth is
    linear in the pixel; where it bends from one pixel to the next by more than `jump` of itself, along a row or a
    column, a surface ends. Pixels there and next to it are dropped.
    """

    jump: float = 0.1

    def __post_init__(self) -> None:
        if not self.jump > 0:
            raise OutputError(f"NoEdges({self.jump}) would drop everything; its jump must be above 0.")

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"depth"})

    def __call__(self, prediction: Prediction, image: Image | None) -> Mask:
        del image
        depth = _output(prediction, "depth", self)
        there = np.isfinite(depth) & (depth > 0)
        inverse = 1 / np.where(there, depth, np.inf)
        return there & ~(_widened(_bends(inverse, self.jump)) | _widened(_bends(inverse.T, self.jump)).T)


@dataclass(frozen=True)
class NoSky(_Combinable):
    """Drops the sky, found without a network: a heuristic for pictures taken upright, in the open.

    A pixel may be sky where all of this holds: (a) the picture is smooth, changing by at most `texture` of full
    brightness to the pixels below and to the right; (b) it is as bright as clouds, with its darkest channel at `bright`
    or more, or blue: blue over green over red, and not dark; (c) the prediction is far, at least `far` times the depth
    that a quarter of the frame is nearer than, or unsure, with a confidence below `unsure`, or no finite depth at all.
    Sky is what of these hangs together with the upper border, if that is at least `least` of the picture.

    What it takes for sky without being it: white walls and ceilings far down a hall, water up to the upper border seen
    from above. What it leaves: branches against the sky, dark clouds, sunsets.
    """

    texture: float = 0.06
    bright: float = 0.7
    far: float = 3.0
    unsure: float = 1.5
    least: float = 0.01

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"depth", "confidence_camera"})

    def __call__(self, prediction: Prediction, image: Image | None) -> Mask:
        depth = _output(prediction, "depth", self)
        confidence = _output(prediction, "confidence_camera", self)
        if image is None:
            raise OutputError("NoSky looks at the picture, which was not given; write(prediction, image).")
        colours = colours_of(image, prediction, depth.shape) / 255.0
        sky = connected_to_top(self._smooth(colours) & self._coloured(colours) & self._remote(depth, confidence))
        return ~sky if sky.mean() >= self.least else np.ones_like(sky)

    def _smooth(self, colours: Array) -> Mask:
        down = np.abs(np.diff(colours, axis=0, append=colours[-1:])).max(-1)
        right = np.abs(np.diff(colours, axis=1, append=colours[:, -1:])).max(-1)
        return np.maximum(down, right) <= self.texture

    def _coloured(self, colours: Array) -> Mask:
        red, green, blue = np.moveaxis(colours, -1, 0)
        return (colours.min(-1) >= self.bright) | ((blue >= green) & (green >= red) & (blue >= 0.35))

    def _remote(self, depth: Array, confidence: Array) -> Mask:
        there = np.isfinite(depth)
        near = np.quantile(depth[there], 0.25) if there.any() else 0.0
        return ~there | (depth >= self.far * near) | (confidence < self.unsure)


def colours_of(image: Image | None, prediction: Prediction, shape: tuple[int, ...]) -> Image:
    """The picture's colour at each of the network's pixels; grey where there is no picture."""
    if image is None:
        return np.full((*shape[:2], 3), 128, np.uint8)
    height, width = shape[:2]
    rows, columns = np.arange(height), np.arange(width)
    crop = prediction.camera.crop if prediction.camera is not None else None
    if crop is None:
        y, x = rows * image.shape[0] / height, columns * image.shape[1] / width
    else:
        y, x = (rows + crop.top + 0.5) / crop.scale[1] - 0.5, (columns + crop.left + 0.5) / crop.scale[0] - 0.5
    row, column = y.round().astype(int).clip(0, image.shape[0] - 1), x.round().astype(int).clip(0, image.shape[1] - 1)
    return image[row[:, None], column[None, :]]


def connected_to_top(candidates: Mask) -> Mask:
    """Those that a path of candidates, step by step to one of four neighbours, joins to the upper border."""
    reached = np.zeros_like(candidates)
    reached[0] = candidates[0]
    while True:
        before = reached.sum()
        for rows in (range(1, len(reached)), range(len(reached) - 2, -1, -1)):  # down, then up
            step = 1 if rows.step > 0 else -1
            for row in rows:
                reached[row] = _whole_runs(candidates[row], reached[row] | (reached[row - step] & candidates[row]))
        if reached.sum() == before:
            return reached


def _whole_runs(candidates: NDArray[np.bool_], seeds: NDArray[np.bool_]) -> NDArray[np.bool_]:  # [W]
    """The runs of candidates that hold a seed."""
    starts = candidates & ~np.concatenate(([False], candidates[:-1]))
    run = np.cumsum(starts)
    return candidates & (np.bincount(run[seeds], minlength=run[-1] + 1) > 0)[run]


def _bends(inverse_depth: Array, jump: float) -> Mask:
    """Where, along a row, 1/depth is not what its two neighbours make of a plane."""
    padded = np.pad(inverse_depth, ((0, 0), (1, 1)), mode="reflect", reflect_type="odd")  # on, straight
    bend = padded[:, :-2] - 2 * inverse_depth + padded[:, 2:]
    return np.abs(bend) > jump * np.abs(inverse_depth)


def _widened(mask: Mask) -> Mask:
    """By a pixel to each side of its row."""
    padded = np.pad(mask, ((0, 0), (1, 1)))
    return padded[:, :-2] | mask | padded[:, 2:]


def _output(prediction: Prediction, name: str, asks: object) -> Array:
    value: Array | None = getattr(prediction, name)
    if value is None:
        raise OutputError(f"{type(asks).__name__} needs {name!r}, which was not asked for; add it to outputs.")
    return value
