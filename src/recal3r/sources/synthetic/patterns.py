"""What boxes wear. Each pattern changes the colours of a batch of faces of one texture size, in place.

n faces, h × w texels; s [w] and t [h] run over [0, 1]; `dice` holds each face's own random numbers.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recal3r.sources.synthetic.scene import Surface

Array = NDArray[np.float32]


@dataclass(frozen=True)
class FaceBatch:
    albedo: Array  # [n, h, w, 3]
    s: Array  # [w]
    t: Array  # [h]
    extent: Array  # [n, 2] metres along s, along t
    dice: Array  # [n, 12, 12, 3] standard normal


def dress(batch: FaceBatch, surface: NDArray[np.intp]) -> None:
    """Put each face's pattern (a Surface number, [n]) on it."""
    for kind, pattern in _PATTERNS.items():
        chosen = np.flatnonzero(surface == kind)
        if len(chosen):
            part = FaceBatch(batch.albedo[chosen], batch.s, batch.t, batch.extent[chosen], batch.dice[chosen])
            pattern(part)
            batch.albedo[chosen] = part.albedo


def _along(extent: Array, axis: Array) -> Array:
    """Metres along an edge: [n, len(axis)]."""
    return extent[:, None] * axis[None, :]


def _wood(batch: FaceBatch) -> None:
    """Grain along the longer edge, drawn as waves across it."""
    across = _along(batch.extent[:, 1], batch.t)[:, :, None] * 9.0
    sway = np.sin(_along(batch.extent[:, 0], batch.s) * 4.0 + batch.dice[:, :1, 0, 0])[:, None, :] * 0.4
    batch.albedo[...] *= (0.86 + 0.14 * np.sin(2 * np.pi * (across + sway)))[..., None]


def _plaid(batch: FaceBatch) -> None:
    """Dark stripes one way, coloured ones the other."""
    cell = 0.16 + 0.05 * np.abs(batch.dice[:, 0, 0, 1:2])
    upright = (_along(batch.extent[:, 0], batch.s) / cell) % 1.0 < 0.4
    level = (_along(batch.extent[:, 1], batch.t) / cell) % 1.0 < 0.4
    batch.albedo[...] *= np.where(upright, 0.55, 1.0).astype(np.float32)[:, None, :, None]
    tint = np.clip(1.0 + 0.5 * batch.dice[:, 1, 1], 0.4, 1.6)[:, None, :]
    batch.albedo[...] *= np.where(level[..., None], tint, 1.0).astype(np.float32)[:, :, None, :]


def _drawers(batch: FaceBatch) -> None:
    """Three or four drawers one above the other, each with a handle."""
    rows = np.where(batch.dice[:, 0, 0, 0] > 0, 4.0, 3.0)[:, None]
    inside = (rows * batch.t[None, :]) % 1.0
    gap = (inside < 0.07)[:, :, None] | (np.minimum(batch.s, 1 - batch.s) < 0.03)[None, None, :]
    handle = (np.abs(inside - 0.45) < 0.09)[:, :, None] & (np.abs(batch.s - 0.5) < 0.11)[None, None, :]
    _darken(batch.albedo, gap, 0.45)
    _darken(batch.albedo, handle, 0.25)


def _doors(batch: FaceBatch) -> None:
    """Two doors with sunk panels and knobs where they meet."""
    half = np.abs(batch.s - 0.5)
    gap = np.broadcast_to(half < 0.015, (len(batch.t), len(batch.s)))
    panel = ((half > 0.09) & (half < 0.41))[None, :] & (np.abs(batch.t - 0.5) < 0.4)[:, None]
    knob = ((half > 0.03) & (half < 0.075))[None, :] & (np.abs(batch.t - 0.5) < 0.05)[:, None]
    for mask, factor in ((gap, 0.3), (panel, 0.78), (knob, 0.2)):
        _darken(batch.albedo, mask[None], factor)


def _books(batch: FaceBatch) -> None:
    """Spines side by side, each of its own colour, with a dark joint and a pale title."""
    spine = np.minimum((batch.s * 12).astype(np.intp), 11)
    colour = np.clip(0.45 + 0.28 * batch.dice[:, 0], 0.05, 0.95)[:, spine]  # [n, w, 3]
    batch.albedo[...] = colour[:, None]
    joint = ((batch.s * 12) % 1.0 < 0.14)[None, None, :]
    top = 0.15 + 0.1 * np.abs(batch.dice[:, 1, :, 0])[:, spine]  # [n, w]
    title = (batch.t[None, :, None] > top[:, None, :]) & (batch.t[None, :, None] < top[:, None, :] + 0.16)
    batch.albedo[title] = 0.5 * batch.albedo[title] + 0.45
    _darken(batch.albedo, joint, 0.4)


def _darken(albedo: Array, mask: NDArray[np.bool_], factor: float) -> None:
    albedo *= np.where(mask, np.float32(factor), np.float32(1.0))[..., None]


_PATTERNS: dict[Surface, Callable[[FaceBatch], None]] = {
    Surface.WOOD: _wood,
    Surface.DRAWERS: _drawers,
    Surface.DOORS: _doors,
    Surface.BOOKS: _books,
    Surface.PLAID: _plaid,
}
