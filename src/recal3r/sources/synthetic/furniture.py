"""Furniture made of boxes. A piece is designed with its back to y=0 and is then turned to the wall it stands at."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from numpy.random import Generator

from recal3r.sources.synthetic.chance import draw_colour
from recal3r.sources.synthetic.scene import SMALLEST_FREE_SIDE, Box, Colour, RoomConfig, Surface, Vec3

_TRIES = 12  # places that are tried for a piece before it is left out
_GAP = 0.04  # metres between two pieces
_OFF_WALL = 0.01

Rectangle = tuple[float, float, float, float]  # x low, x high, y low, y high


@dataclass(frozen=True)
class Furniture:
    boxes: tuple[Box, ...]
    depths: tuple[float, float, float, float]  # how far furniture reaches from x=0, x=high, y=0, y=high


@dataclass(frozen=True)
class Piece:
    """Boxes that stand on the floor between x=0..width and y=0..depth, front towards +y."""

    width: float
    depth: float
    boxes: tuple[Box, ...]


def furnish(rng: Generator, room: Vec3, config: RoomConfig, lane: float) -> Furniture:
    """Stand one to six pieces at the walls. Depth is limited so that the middle of the room stays free."""
    low, high = config.furniture
    boxes: list[Box] = []
    taken: list[Rectangle] = []
    depths = [0.0, 0.0, 0.0, 0.0]
    for _ in range(int(rng.integers(low, high + 1))):
        for _ in range(_TRIES):
            wall = int(rng.integers(4))
            across = room[0] - lane if wall < 2 else room[1]
            limit = 0.5 * (across - SMALLEST_FREE_SIDE) - config.margin
            along = room[1] if wall < 2 else room[0]
            piece = _draw_piece(rng, limit - _OFF_WALL, room[2])
            if piece is None or piece.width > along - 0.2:
                continue
            place = float(rng.uniform(0.05, along - piece.width - 0.05))
            footprint = _footprint(wall, place, piece, room)
            if any(_overlap(footprint, other) for other in taken):
                continue
            taken.append(footprint)
            boxes.extend(_stand_at_wall(box, wall, place, room) for box in piece.boxes)
            depths[wall] = max(depths[wall], piece.depth + _OFF_WALL)
            break
    return Furniture(tuple(boxes), (depths[0], depths[1], depths[2], depths[3]))


def _draw_piece(rng: Generator, depth_limit: float, ceiling: float) -> Piece | None:
    maker, shallowest = _MAKERS[int(rng.integers(len(_MAKERS)))]
    if depth_limit < shallowest:
        return None
    return maker(rng, depth_limit, ceiling)


def _footprint(wall: int, place: float, piece: Piece, room: Vec3) -> Rectangle:
    deep = piece.depth + _OFF_WALL
    end = place + piece.width
    return (
        (0.0, deep, place, end),
        (room[0] - deep, room[0], place, end),
        (place, end, 0.0, deep),
        (place, end, room[1] - deep, room[1]),
    )[wall]


def _overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[1] + _GAP and b[0] < a[1] + _GAP and a[2] < b[3] + _GAP and b[2] < a[3] + _GAP


def _stand_at_wall(box: Box, wall: int, place: float, room: Vec3) -> Box:
    along, deep, z = box.centre
    along, deep = along + place, deep + _OFF_WALL
    wide, thick, tall = box.size
    front = (0, 0) if box.front == (0, 0) else ((1, 0), (-1, 0), (0, 1), (0, -1))[wall]
    centre = ((deep, along, z), (room[0] - deep, along, z), (along, deep, z), (along, room[1] - deep, z))[wall]
    size = (thick, wide, tall) if wall < 2 else (wide, thick, tall)
    return replace(box, centre=centre, size=size, front=front)


def _block(
    low: Vec3, high: Vec3, colour: Colour, surface: Surface = Surface.PLAIN, front: tuple[int, int] = (0, 0)
) -> Box:
    centre = (0.5 * (low[0] + high[0]), 0.5 * (low[1] + high[1]), 0.5 * (low[2] + high[2]))
    return Box(centre, (high[0] - low[0], high[1] - low[1], high[2] - low[2]), colour, surface, front)


def _wood(rng: Generator) -> Colour:
    tone = float(rng.uniform(0.25, 0.9))
    return (tone, tone * float(rng.uniform(0.6, 0.85)), tone * float(rng.uniform(0.3, 0.6)))


def _cabinet(rng: Generator, limit: float, ceiling: float) -> Piece:
    wide, deep = float(rng.uniform(0.5, 1.4)), min(limit, float(rng.uniform(0.32, 0.55)))
    tall = min(ceiling - 0.15, float(rng.choice([rng.uniform(0.6, 1.1), rng.uniform(1.6, 2.1)])))
    surface = Surface.DOORS if tall > 1.4 or rng.random() < 0.3 else Surface.DRAWERS
    colour = _wood(rng) if rng.random() < 0.6 else draw_colour(rng, 0.3, 0.95)
    body = _block((0, 0, 0.06), (wide, deep, tall), colour, surface, front=(0, 1))
    plinth = _block((0.03, 0, 0), (wide - 0.03, deep - 0.04, 0.06), (0.08, 0.08, 0.08))
    return Piece(wide, deep, (body, plinth, *_things_on_top(rng, wide, deep, tall)) if tall < 1.2 else (body, plinth))


def _table(rng: Generator, limit: float, _ceiling: float) -> Piece:
    wide, deep, tall = float(rng.uniform(0.8, 1.5)), min(limit, float(rng.uniform(0.45, 0.8))), 0.74
    colour = _wood(rng)
    dark = (colour[0] * 0.6, colour[1] * 0.6, colour[2] * 0.6)
    leg, top = 0.06, 0.05
    legs = tuple(
        _block((x, y, 0), (x + leg, y + leg, tall - top), dark)
        for x in (0.02, wide - leg - 0.02)
        for y in (0.02, deep - leg - 0.02)
    )
    plate = _block((0, 0, tall - top), (wide, deep, tall), colour, Surface.WOOD)
    return Piece(wide, deep, (plate, *legs, *_things_on_top(rng, wide, deep, tall)))


def _shelf(rng: Generator, limit: float, ceiling: float) -> Piece:
    wide, deep = float(rng.uniform(0.6, 1.2)), min(limit, float(rng.uniform(0.24, 0.34)))
    tall = min(ceiling - 0.2, float(rng.uniform(1.1, 2.0)))
    colour, thick = _wood(rng), 0.04
    sides = tuple(_block((x, 0, 0), (x + thick, deep, tall), colour) for x in (0.0, wide - thick))
    count = max(2, round(tall / 0.45))
    levels = [0.06 + (tall - 0.06 - thick) * k / count for k in range(count + 1)]
    boards = tuple(_block((thick, 0, z), (wide - thick, deep - 0.01, z + thick), colour, Surface.WOOD) for z in levels)
    books: list[Box] = []
    for z in levels[:-1]:
        length = (wide - 2 * thick) * float(rng.uniform(0.45, 0.98))
        high = z + thick + float(rng.uniform(0.18, 0.28))
        start = thick if rng.random() < 0.6 else wide - thick - length
        books.append(
            _block(
                (start, 0.02, z + thick), (start + length, deep - 0.05, high), draw_colour(rng), Surface.BOOKS, (0, 1)
            )
        )
    return Piece(wide, deep, (*sides, *boards, *books))


def _sofa(rng: Generator, limit: float, _ceiling: float) -> Piece:
    wide, deep = float(rng.uniform(1.2, 2.0)), min(limit, float(rng.uniform(0.7, 0.85)))
    colour = draw_colour(rng, 0.15, 0.85, saturation=1.0)
    surface = Surface.PLAID if rng.random() < 0.5 else Surface.PLAIN
    back, arm = 0.2, 0.16
    return Piece(
        wide,
        deep,
        (
            _block((arm, back, 0.05), (wide - arm, deep - 0.02, 0.42), colour, surface),
            _block((arm, 0, 0.05), (wide - arm, back, 0.82), colour, surface),
            _block((0, 0, 0), (arm, deep, 0.6), colour),
            _block((wide - arm, 0, 0), (wide, deep, 0.6), colour),
            _block((arm + 0.1, back, 0.42), (arm + 0.5, back + 0.14, 0.72), draw_colour(rng, 0.2, 0.9), Surface.PLAID),
        ),
    )


def _bed(rng: Generator, limit: float, _ceiling: float) -> Piece:
    wide, deep = float(rng.uniform(1.8, 2.05)), min(limit, float(rng.uniform(0.8, 1.0)))
    wood, cover = _wood(rng), draw_colour(rng, 0.3, 0.95, saturation=1.0)
    return Piece(
        wide,
        deep,
        (
            _block((0, 0, 0), (0.06, deep, 0.9), wood, Surface.WOOD),
            _block((0.06, 0, 0.1), (wide, deep, 0.3), wood, Surface.WOOD),
            _block((0.08, 0.02, 0.3), (wide - 0.02, deep - 0.02, 0.5), cover, Surface.PLAID),
            _block((0.1, 0.1, 0.5), (0.5, deep - 0.1, 0.6), (0.95, 0.95, 0.92)),
        ),
    )


def _things_on_top(rng: Generator, wide: float, deep: float, z: float) -> tuple[Box, ...]:
    """Up to two small things (a screen, a pile of books), one in either half, so that they do not touch."""
    things: list[Box] = []
    for half in range(2):
        if rng.random() < 0.4:
            continue
        w, d, h = (float(rng.uniform(*r)) for r in ((0.15, 0.32 * wide), (0.08, 0.22), (0.08, 0.35)))
        x = 0.5 * wide * half + 0.04 + float(rng.uniform(0, 0.5 * wide - w - 0.08 if 0.5 * wide > w + 0.08 else 0))
        surface = Surface(int(rng.choice([Surface.PLAIN, Surface.BOOKS, Surface.PLAID])))
        colour = draw_colour(rng, 0.1, 0.95, saturation=1.0)
        things.append(_block((x, 0.05, z), (min(x + w, wide), min(0.05 + d, deep), z + h), colour, surface))
    return tuple(things)


_MAKERS: tuple[tuple[Callable[[Generator, float, float], Piece], float], ...] = (
    # maker, the shallowest depth at which the piece still looks like itself
    (_cabinet, 0.28),
    (_table, 0.38),
    (_table, 0.38),
    (_shelf, 0.22),
    (_shelf, 0.22),
    (_sofa, 0.62),
    (_bed, 0.70),
)
