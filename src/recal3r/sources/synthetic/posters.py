"""The pictures on the walls. Each is a function of (s, t) in [0, 1], left to right and top to bottom.

They are large, simple and different from each other: a frame of 64×48 pixels has to be told from its neighbour by them.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recal3r.sources.synthetic.scene import Motif

Picture = NDArray[np.float32]  # [h, w, 3]
Axis = NDArray[np.float32]  # [w] or [h]
_FRAME = 0.045  # of a picture's smaller side


def paint(motif: Motif, seed: int, s: Axis, t: Axis) -> Picture:
    """The picture at the texel centres s [w] and t [h]."""
    rng = np.random.default_rng(seed)
    picture = _PAINTERS[motif](rng, s, t)
    if motif not in (Motif.WINDOW, Motif.DOOR, Motif.LIGHT):
        rim = np.float32(rng.choice([0.08, 0.95]))
        picture[_near_rim(s, t, _FRAME)] = rim
    return picture


def _palette(rng: Generator, count: int) -> NDArray[np.float32]:
    """Colours with strong contrast from one to the next: [count, 3]."""
    colours = rng.uniform(0.0, 1.0, (count, 3))
    bright = np.where(np.arange(count) % 2 == int(rng.integers(2)), 0.85, 0.25)
    return (0.5 * colours + 0.5 * bright[:, None]).astype(np.float32)


def _near_rim(s: Axis, t: Axis, width: float) -> NDArray[np.bool_]:
    return (np.minimum(s, 1 - s) < width)[None, :] | (np.minimum(t, 1 - t) < width)[:, None]


def _stripes(rng: Generator, s: Axis, t: Axis) -> Picture:
    count = float(rng.integers(3, 7))
    slope = float(rng.choice([0.0, 1.0, -1.0]))
    upright = float(rng.integers(2)) if slope == 0.0 else 1.0
    phase = count * (upright * s[None, :] + (slope if slope else 1.0 - upright) * t[:, None])
    return _palette(rng, 3)[np.floor(phase).astype(np.intp) % 3]


def _checks(rng: Generator, s: Axis, t: Axis) -> Picture:
    columns, rows = rng.integers(2, 6, 2)
    cells = np.floor(s * columns).astype(np.intp)[None, :] + np.floor(t * rows).astype(np.intp)[:, None]
    return _palette(rng, 2)[cells % 2]


def _discs(rng: Generator, s: Axis, t: Axis) -> Picture:
    count = int(rng.integers(2, 6))
    colours = _palette(rng, count + 1)
    index = np.zeros((len(t), len(s)), np.intp)
    for k in range(1, count + 1):
        x, y, r = rng.uniform(0.15, 0.85), rng.uniform(0.15, 0.85), rng.uniform(0.12, 0.3)
        index[((s - np.float32(x)) ** 2)[None, :] + ((t - np.float32(y)) ** 2)[:, None] < r * r] = k
    return colours[index]


def _rings(rng: Generator, s: Axis, t: Axis) -> Picture:
    x, y = rng.uniform(0.35, 0.65, 2)
    radius = np.sqrt(((s - np.float32(x)) ** 2)[None, :] + ((t - np.float32(y)) ** 2)[:, None])
    return _palette(rng, 3)[np.floor(radius * rng.uniform(4, 9)).astype(np.intp) % 3]


def _letters(rng: Generator, s: Axis, t: Axis) -> Picture:
    """Lines of block glyphs, three cells by five, with a cell of paper between them."""
    columns, lines = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    ink = np.zeros((6 * lines + 1, 4 * columns + 1), np.intp)
    for line in range(lines):
        for column in range(columns):
            glyph = rng.random((5, 3)) < 0.5
            glyph[:, int(rng.choice([0, 2]))] = True  # a stem makes it look like a letter
            ink[6 * line + 1 : 6 * line + 6, 4 * column + 1 : 4 * column + 4] = glyph
    rows = np.minimum((t * ink.shape[0]).astype(np.intp), ink.shape[0] - 1)
    cells = np.minimum((s * ink.shape[1]).astype(np.intp), ink.shape[1] - 1)
    return _palette(rng, 2)[ink[rows[:, None], cells[None, :]]]


def _landscape(rng: Generator, s: Axis, t: Axis) -> Picture:
    """A sky that fades, a sun, a skyline of mountains, a meadow."""
    blend = t[:, None, None]
    sky = np.broadcast_to(
        (1 - blend) * np.array([0.35, 0.6, 0.95]) + blend * rng.uniform(0.6, 1.0, 3), (len(t), len(s), 3)
    )
    picture = sky.astype(np.float32)
    x, y = rng.uniform(0.2, 0.8), rng.uniform(0.15, 0.4)
    sun = ((s - np.float32(x)) ** 2)[None, :] + ((t - np.float32(y)) ** 2)[:, None] < 0.012
    picture[sun] = (1.0, 0.85, 0.3)
    skyline = np.interp(s, np.linspace(0, 1, 7), rng.uniform(0.35, 0.7, 7))
    picture[t[:, None] > skyline[None, :]] = rng.uniform(0.15, 0.45, 3)
    meadow = rng.uniform(0.7, 0.82)
    picture[t > meadow] = (0.25, float(rng.uniform(0.4, 0.7)), 0.2)
    return picture


def _window(rng: Generator, s: Axis, t: Axis) -> Picture:
    """Bright sky over dark trees behind a white cross of bars."""
    horizon = np.interp(s, np.linspace(0, 1, 9), rng.uniform(0.5, 0.8, 9))
    trees = np.array([0.2, float(rng.uniform(0.3, 0.5)), 0.22], np.float32)
    sky = np.array([0.75, 0.88, 1.0], np.float32) * np.float32(rng.uniform(0.65, 0.95))
    picture = np.where((t[:, None] > horizon[None, :])[..., None], trees, sky).astype(np.float32)
    bars = (np.abs(s - 0.5) < 0.03)[None, :] | (np.abs(t - 0.45) < 0.025)[:, None] | _near_rim(s, t, 0.06)
    picture[bars] = 0.9
    picture[_near_rim(s, t, 0.02)] = 0.2
    return picture


def _door(rng: Generator, s: Axis, t: Axis) -> Picture:
    """A leaf with two sunk panels, a knob, and a frame."""
    tone = rng.uniform(0.3, 0.8)
    leaf = np.array([tone, tone * rng.uniform(0.6, 0.95), tone * rng.uniform(0.35, 0.9)], np.float32)
    picture = np.broadcast_to(leaf, (len(t), len(s), 3)).astype(np.float32)
    inner = (np.abs(s - 0.5) < 0.3)[None, :]
    panels = inner & ((np.abs(t - 0.27) < 0.17) | (np.abs(t - 0.74) < 0.18))[:, None]
    picture[panels] = leaf * np.float32(0.7)
    side = 0.12 if rng.random() < 0.5 else 0.88
    picture[(np.abs(s - side) < 0.035)[None, :] & (np.abs(t - 0.52) < 0.02)[:, None]] = (0.95, 0.8, 0.3)
    picture[(np.minimum(s, 1 - s) < 0.05)[None, :] | (t < 0.03)[:, None]] = leaf * np.float32(0.4)
    return picture


def _light(rng: Generator, s: Axis, t: Axis) -> Picture:
    """A panel of light in a dark rim."""
    glow = np.array([1.6, 1.55, rng.uniform(1.2, 1.6)], np.float32)
    picture = np.broadcast_to(glow, (len(t), len(s), 3)).astype(np.float32)
    picture[_near_rim(s, t, 0.1)] = 0.3
    return picture


_PAINTERS: dict[Motif, Callable[[Generator, Axis, Axis], Picture]] = {
    Motif.STRIPES: _stripes,
    Motif.CHECKS: _checks,
    Motif.DISCS: _discs,
    Motif.LETTERS: _letters,
    Motif.LANDSCAPE: _landscape,
    Motif.RINGS: _rings,
    Motif.WINDOW: _window,
    Motif.DOOR: _door,
    Motif.LIGHT: _light,
}
