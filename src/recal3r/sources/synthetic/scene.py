"""What stands in a room: sizes, furniture, posters, lamps. Drawn from a seed; no pixel is made here.

World axes: x and y along the walls from one corner, z up, metres. Every box stands at a wall, so the rectangle in the
middle stays free: `free_low` to `free_high` is where a camera may be, at least `margin` away from everything.
"""

import math
from dataclasses import dataclass, field
from enum import IntEnum

from recal3r.errors import ConfigError

Vec3 = tuple[float, float, float]
Colour = tuple[float, float, float]  # linear red, green, blue in [0, 1]

SMALLEST_FREE_SIDE = 1.10  # metres; a training step of 0.40 m then always fits in some direction


class Surface(IntEnum):
    """The patterns a box can wear."""

    PLAIN = 0
    WOOD = 1
    DRAWERS = 2
    DOORS = 3
    BOOKS = 4
    PLAID = 5


class Motif(IntEnum):
    """What a poster shows."""

    STRIPES = 0
    CHECKS = 1
    DISCS = 2
    LETTERS = 3
    LANDSCAPE = 4
    RINGS = 5
    WINDOW = 6
    DOOR = 7
    LIGHT = 8


@dataclass(frozen=True)
class Box:
    """A box with upright sides. `front` is the horizontal direction its face with the pattern looks to."""

    centre: Vec3
    size: Vec3
    colour: Colour
    surface: Surface = Surface.PLAIN
    front: tuple[int, int] = (0, 0)  # (0, 0): the pattern is on all sides


@dataclass(frozen=True)
class Poster:
    """A picture on a wall: left, top, width, height in metres as seen from inside the room."""

    motif: Motif
    left: float
    top: float
    width: float
    height: float
    seed: int


@dataclass(frozen=True)
class Wall:
    """One of the six sides of the room: four corner colours (their blend is the gradient) and its posters."""

    corners: tuple[Colour, Colour, Colour, Colour]
    posters: tuple[Poster, ...]


@dataclass(frozen=True)
class Lamp:
    position: Vec3
    strength: float


@dataclass(frozen=True)
class Mover:
    """A box that swings along y and turns on itself: everything about it is a function of time."""

    box: Box  # as it stands in the middle of its path
    swing: float  # metres to either side
    period: float  # frames for there and back
    phase: float  # radians
    spin: float  # radians a frame

    def place(self, time: float) -> tuple[Vec3, float]:
        """Centre in the world and yaw in radians at a frame time, which may lie between two frames."""
        x, y, z = self.box.centre
        offset = self.swing * math.sin(self.phase + 2.0 * math.pi * time / self.period)
        return (x, y + offset, z), self.spin * time


@dataclass(frozen=True)
class RoomConfig:
    """The ranges a room is drawn from, in metres."""

    side: tuple[float, float] = (2.5, 5.0)
    height: tuple[float, float] = (2.2, 3.0)
    furniture: tuple[int, int] = (1, 6)
    posters: tuple[int, int] = (1, 5)
    margin: float = 0.35

    def __post_init__(self) -> None:
        if self.margin < 0.25:
            raise ConfigError(f"margin={self.margin} lets the camera touch a wall; use 0.25 m or more.")
        if self.side[0] < SMALLEST_FREE_SIDE + 2 * self.margin + 0.6 or self.side[1] < self.side[0]:
            raise ConfigError(
                f"side={self.side} leaves no room to walk between furniture; use (low, high) with low ≤ high and "
                f"low ≥ {SMALLEST_FREE_SIDE + 2 * self.margin + 0.6:.2f} m."
            )
        if self.height[0] < 2.0 or self.height[1] < self.height[0]:
            raise ConfigError(f"height={self.height} is no room to stand in; use (low, high) with 2.0 ≤ low ≤ high.")
        for name, (low, high) in (("furniture", self.furniture), ("posters", self.posters)):
            if low < 0 or high < low:
                raise ConfigError(f"{name}=({low}, {high}) is no range of counts; use 0 ≤ low ≤ high.")


@dataclass(frozen=True)
class SceneSpec:
    """One room, complete: two equal specs render to equal pixels."""

    seed: int
    room: Vec3
    walls: tuple[Wall, ...]  # x=0, x=high, y=0, y=high, floor, ceiling
    boxes: tuple[Box, ...]
    lamps: tuple[Lamp, ...]
    free_low: Vec3
    free_high: Vec3
    movers: tuple[Mover, ...] = field(default=())


def wall_extent(side: int, room: Vec3) -> tuple[float, float]:
    """Width and height in metres of a side of the room as seen from inside."""
    return ((room[1], room[2]), (room[0], room[2]), (room[0], room[1]))[side // 2]
