"""Colours for numbers: one scale, from dark violet through green to yellow, that the eye reads as even (viridis)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recal3r.types import Array, Image

_ANCHORS = np.array(
    [
        *[(68, 1, 84), (72, 40, 120), (62, 74, 137), (49, 104, 142), (38, 130, 142), (31, 158, 137)],
        *[(53, 183, 121), (109, 205, 89), (180, 222, 44), (253, 231, 37)],
    ],
    np.float64,
)


def shade(values: Array) -> Image:
    """Numbers in [0, 1], of any shape, as RGB; what is not finite is grey."""
    known = np.isfinite(values)
    place = np.clip(np.where(known, values, 0.0), 0, 1) * (len(_ANCHORS) - 1)
    before = np.minimum(place.astype(np.int64), len(_ANCHORS) - 2)
    share = (place - before)[..., None]
    colours = np.rint((1 - share) * _ANCHORS[before] + share * _ANCHORS[before + 1]).astype(np.uint8)
    colours[~known] = 128
    return colours


def stretched(values: Array, low: float = 2, high: float = 98) -> Array:
    """To [0, 1] between two percentiles of what is finite."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return np.full(values.shape, np.nan)
    first, last = np.percentile(finite, (low, high))
    return np.clip((values - first) / max(last - first, 1e-12), 0, 1)


def hexadecimal(colour: NDArray[np.uint8]) -> str:
    return "#" + bytes(colour.tolist()).hex()


def linear(colours: Image) -> NDArray[np.float64]:
    """sRGB bytes as light, in [0, 1]."""
    srgb = colours / 255.0
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
