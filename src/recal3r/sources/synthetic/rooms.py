"""Drawing a room from a seed: its size, the look of its sides, furniture, lamps, and boxes that move."""

import math

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from recal3r.errors import ConfigError
from recal3r.sources.synthetic.chance import draw_colour
from recal3r.sources.synthetic.furniture import furnish
from recal3r.sources.synthetic.scene import (
    Box,
    Colour,
    Lamp,
    Motif,
    Mover,
    Poster,
    RoomConfig,
    SceneSpec,
    Surface,
    Vec3,
    Wall,
    wall_extent,
)

_MOVER_LANE = 0.60  # metres of width that moving boxes have to themselves
_MOVER_REACH = 0.225  # metres from a mover's axis to its farthest edge, at most


def draw_scene(seed: int, config: RoomConfig | None = None, movers: int = 0) -> SceneSpec:
    """The room of a seed. `movers` adds boxes that move in a lane of their own, out of the camera's way."""
    config = config or RoomConfig()
    if movers not in (0, 1, 2):
        raise ConfigError(f"movers={movers}: their lane has room for 0, 1 or 2.")
    rng = np.random.default_rng([seed, 1])
    lane = _MOVER_LANE if movers else 0.0
    sides = rng.uniform(*config.side, 2)
    sides[0] = max(sides[0], config.side[0] + lane)
    room = (float(sides[0]), float(sides[1]), float(rng.uniform(*config.height)))
    walls = tuple(_draw_wall(rng, side, room, config) for side in range(6))
    furniture = furnish(rng, room, config, lane)
    inset = furniture.depths
    free_low = (inset[0] + config.margin, inset[2] + config.margin, 1.0)
    free_high = (
        room[0] - inset[1] - config.margin - lane,
        room[1] - inset[3] - config.margin,
        min(1.9, room[2] - 0.4),
    )
    part = (free_high[1] - free_low[1]) / max(movers, 1)
    moving = tuple(
        _draw_mover(rng, free_high[0] + 0.25 + _MOVER_REACH, free_low[1] + (k + 0.5) * part, part)
        for k in range(movers)
    )
    return SceneSpec(seed, room, walls, furniture.boxes, _draw_lamps(rng, room), free_low, free_high, moving)


def _draw_wall(rng: Generator, side: int, room: Vec3, config: RoomConfig) -> Wall:
    bright = ((0.45, 0.95), (0.2, 0.6), (0.65, 1.0))[max(0, side - 3)]
    base = np.array(draw_colour(rng, *bright, saturation=0.6))
    corners = tuple(_tint(rng, base) for _ in range(4))
    width, height = wall_extent(side, room)
    if side == 4:
        posters = _rugs(rng, width, height)
    elif side == 5:
        posters = _ceiling_lights(rng, width, height)
    else:
        posters = _hang_posters(rng, width, height, config)
    return Wall((corners[0], corners[1], corners[2], corners[3]), posters)


def _tint(rng: Generator, base: NDArray[np.float64]) -> Colour:
    rgb = np.clip(base + rng.uniform(-0.22, 0.22, 3), 0.05, 1.0)
    return (float(rgb[0]), float(rgb[1]), float(rgb[2]))


def _hang_posters(rng: Generator, width: float, height: float, config: RoomConfig) -> tuple[Poster, ...]:
    """Posters that do not overlap: a wall is cut into columns, each column holds one."""
    low, high = config.posters
    count = min(int(rng.integers(low, high + 1)), max(1, int(width / 0.55))) if high else 0
    if count == 0:
        return ()
    edges = np.linspace(0.08, width - 0.08, count + 1)
    return tuple(_poster_between(rng, float(edges[k]), float(edges[k + 1]), height) for k in range(count))


def _poster_between(rng: Generator, left: float, right: float, height: float) -> Poster:
    room = right - left
    motif = Motif(int(rng.choice(8, p=[0.13, 0.13, 0.14, 0.2, 0.12, 0.08, 0.12, 0.08])))
    seed = int(rng.integers(1 << 32))
    if motif is Motif.DOOR:
        wide = min(room - 0.06, float(rng.uniform(0.75, 0.95)))
        return Poster(motif, left + 0.5 * (room - wide), height - 2.0, wide, 2.0, seed)
    limit = 1.5 if motif is Motif.WINDOW else 1.0
    wide = min(room - 0.06, float(rng.uniform(0.4, limit)))
    tall = float(rng.uniform(0.45, 1.1))
    slack = room - wide
    top = float(rng.uniform(0.25, max(0.3, height - tall - 0.7)))
    return Poster(motif, left + float(rng.uniform(0.1, 0.9)) * slack, top, wide, tall, seed)


def _rugs(rng: Generator, width: float, height: float) -> tuple[Poster, ...]:
    wide, tall = width * float(rng.uniform(0.3, 0.6)), height * float(rng.uniform(0.3, 0.6))
    motif = (Motif.STRIPES, Motif.CHECKS, Motif.RINGS, Motif.DISCS)[int(rng.integers(4))]
    left, top = float(rng.uniform(0.2, 0.8)) * (width - wide), float(rng.uniform(0.2, 0.8)) * (height - tall)
    return (Poster(motif, left, top, wide, tall, int(rng.integers(1 << 32))),)


def _ceiling_lights(rng: Generator, width: float, height: float) -> tuple[Poster, ...]:
    count = int(rng.integers(1, 4))
    size = float(rng.uniform(0.3, 0.6))
    return tuple(
        Poster(
            Motif.LIGHT,
            width * (k + 0.5) / count - 0.5 * size,
            float(rng.uniform(0.25, 0.75)) * height - 0.5 * size,
            size,
            size * float(rng.uniform(0.6, 1.0)),
            int(rng.integers(1 << 32)),
        )
        for k in range(count)
    )


def _draw_lamps(rng: Generator, room: Vec3) -> tuple[Lamp, ...]:
    count = int(rng.integers(1, 3))
    return tuple(
        Lamp(
            (float(rng.uniform(0.2, 0.8)) * room[0], float(rng.uniform(0.2, 0.8)) * room[1], room[2] - 0.25),
            float(rng.uniform(0.9, 1.35)) / count,
        )
        for _ in range(count)
    )


def _draw_mover(rng: Generator, x: float, y: float, part: float) -> Mover:
    """One box around (x, y) in a part of the lane. Half its diagonal is below _MOVER_REACH, so it may turn."""
    width, depth = float(rng.uniform(0.22, 0.31)), float(rng.uniform(0.22, 0.31))
    tall = float(rng.uniform(0.9, 1.7))
    box = Box(
        (x, y, 0.5 * tall),
        (width, depth, tall),
        draw_colour(rng, 0.2, 0.9, saturation=1.0),
        Surface(int(rng.choice([Surface.PLAID, Surface.BOOKS]))),
    )
    return Mover(
        box,
        swing=max(0.0, 0.5 * part - 0.25),
        period=float(rng.uniform(60.0, 160.0)),
        phase=float(rng.uniform(0.0, 2.0 * math.pi)),
        spin=float(rng.uniform(-0.02, 0.02)),
    )
