"""What of the cloud is shown, and in which colours: pure functions of the points and of what was asked for.

N points
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recal3r.sinks.palette import shade
from recal3r.types import Image
from recal3r.viewer.points import Points

Colours = NDArray[np.uint8]  # [N, 3]

BUDGET = 1_000_000
UNKNOWN = (120, 120, 120)
_SAMPLE = 100_000  # points that a range is taken from

# From cold to warm; between these, straight lines.
_WARM = (
    (48, 18, 59),
    (70, 107, 227),
    (40, 188, 235),
    (50, 242, 152),
    (164, 252, 60),
    (238, 207, 58),
    (251, 126, 33),
    (209, 46, 4),
    (122, 4, 3),
)


@dataclass(frozen=True)
class Look:
    """What people ask for."""

    colouring: str = "picture"
    least_confidence: float = 1.0
    first: int = 0  # the frames whose points are shown
    last: int = np.iinfo(np.int32).max
    budget: int = BUDGET


class Legend(NamedTuple):
    """What the ends of the colours stand for."""

    name: str
    low: float
    high: float
    unit: str

    @property
    def text(self) -> str:
        digits = 0 if self.high - self.low >= 20 else 2
        return f"{self.name}: {self.low:.{digits}f} to {self.high:.{digits}f}{self.unit}"


class Shown(NamedTuple):
    points: Points
    passing: int  # how many passed the filters; `points` is as much of them as the budget allows
    colours: Colours
    legend: Legend | None  # None where colours are the picture's


def show(points: Points, look: Look) -> Shown:
    """As many of the points as the budget allows, in the order they are in, coloured."""
    chosen = points["confidence"] >= look.least_confidence
    if look.first > 0 or look.last < np.iinfo(np.int32).max:
        chosen &= (look.first <= points["frame"]) & (points["frame"] <= look.last)
    places = np.flatnonzero(chosen)
    kept = points[places[: look.budget]]
    if look.colouring == "picture":
        return Shown(kept, len(places), kept["colour"], None)
    values, legend = _COLOURINGS[look.colouring](kept)
    return Shown(kept, len(places), coloured(values, legend.low, legend.high, _MAPS[look.colouring]), legend)


def knows_reliability(points: Points) -> bool:
    return bool(np.isfinite(points["reliability"]).any())


def coloured(values: NDArray[np.floating], low: float, high: float, colour_map: Image) -> Colours:
    """Numbers [...] as colours [..., 3] of a map [256, 3]; grey where a number is none."""
    known = np.isfinite(values)
    share = (np.where(known, values, low).astype(np.float32) - low) / max(high - low, 1e-9)
    colours = colour_map[np.rint(share.clip(0, 1) * 255).astype(np.uint8)]
    colours[~known] = UNKNOWN
    return colours


def depth_picture(depth: NDArray[np.floating]) -> Colours:  # [H, W] -> [H, W, 3]
    """Near is warm."""
    nearness = 1 / np.clip(depth.astype(np.float32), 1e-3, None)
    low, high = _spread(nearness[np.isfinite(depth)])
    return coloured(np.where(np.isfinite(depth), nearness, np.nan), low, high, WARM)


def colour_bar(colouring: str, height: int = 10) -> Image:
    """The colours of a colouring from low to high, [height, 256, 3]."""
    return np.repeat(_MAPS[colouring][None], height, axis=0)


def _spread(values: NDArray[np.floating]) -> tuple[float, float]:
    """From the 2nd to the 98th percentile of those that are finite."""
    sample = values[:: max(1, len(values) // _SAMPLE)].astype(np.float32)
    sample = sample[np.isfinite(sample)]
    if not len(sample):
        return 0.0, 1.0
    low, high = np.percentile(sample, (2, 98)).tolist()
    return low, high


def _depth(points: Points) -> tuple[NDArray[np.floating], Legend]:
    return points["depth"], Legend("depth", *_spread(points["depth"]), " m")


def _confidence(points: Points) -> tuple[NDArray[np.floating], Legend]:
    return points["confidence"], Legend("confidence", *_spread(points["confidence"]), "")


def _time(points: Points) -> tuple[NDArray[np.floating], Legend]:
    frames = points["frame"]
    low, high = (int(frames.min()), int(frames.max())) if len(frames) else (0, 1)
    return frames.astype(np.float32), Legend("frame", low, high, "")


def _reliability(points: Points) -> tuple[NDArray[np.floating], Legend]:
    return points["reliability"], Legend("token reliability", 0.0, 1.0, "")


def _gradient(anchors: tuple[tuple[int, int, int], ...]) -> Image:
    table = np.array(anchors, np.float64)
    at = np.linspace(0, len(table) - 1, 256)
    before = at.astype(int).clip(0, len(table) - 2)
    share = (at - before)[:, None]
    return np.rint((1 - share) * table[before] + share * table[before + 1]).astype(np.uint8)


SEQUENTIAL, WARM = shade(np.linspace(0, 1, 256)), _gradient(_WARM)
_COLOURINGS: MappingProxyType[str, Callable[[Points], tuple[NDArray[np.floating], Legend]]] = MappingProxyType(
    {"depth": _depth, "confidence": _confidence, "time": _time, "reliability": _reliability}
)
_MAPS = MappingProxyType({"depth": WARM[::-1], "confidence": SEQUENTIAL, "time": SEQUENTIAL, "reliability": SEQUENTIAL})
COLOURINGS = ("picture", *_COLOURINGS)
