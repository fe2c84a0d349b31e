"""One atlas for all surfaces of a scene: colours with light and shadow in them, at four sizes each.

A pixel far away covers many texels; it reads a smaller copy of the texture, so posters do not flicker from frame to
frame. Every copy has a rim of one repeated texel, so bilinear lookup needs no clamping.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recal3r.sources.synthetic.faces import FACES_PER_BOX, ROOM_FACES, Faces, box_faces, can_be_seen, join, room_faces
from recal3r.sources.synthetic.lighting import darken_corners, floor_shadow, light_on
from recal3r.sources.synthetic.patterns import FaceBatch, dress
from recal3r.sources.synthetic.posters import paint
from recal3r.sources.synthetic.scene import Box, Poster, SceneSpec, Surface

LEVELS = 4
_COARSEST = 2 ** (LEVELS - 1)  # texture sides are multiples of it, so that halving is exact
_FLOOR = 4

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Atlas:
    """F faces with LEVELS copies each; entry f·LEVELS + l of a table describes copy l of face f."""

    texels: NDArray[np.uint32]  # red, green, blue and one unused byte
    offset: NDArray[np.int32]  # [F·LEVELS] where texel (0, 0) is
    stride: NDArray[np.int32]  # [F·LEVELS] texels from one row to the next
    texels_per_metre: NDArray[np.float64]  # [F, 2] of the largest copy


@dataclass(frozen=True)
class BakedScene:
    """A scene ready to be rendered. Faces of moving boxes come last, as they are at time 0 of their path's middle."""

    spec: SceneSpec
    faces: Faces
    moving: int  # how many of the last faces move
    atlas: Atlas


def bake(spec: SceneSpec, texel: float) -> BakedScene:
    """Make the textures of a scene with texels of about the given size in metres."""
    furniture = box_faces(spec.boxes)
    visible = can_be_seen(furniture, spec)
    movers = [mover.box for mover in spec.movers]
    faces = join([room_faces(spec), furniture.chosen(visible), box_faces(movers)])
    boxes = [spec.boxes[k // FACES_PER_BOX] for k in np.flatnonzero(visible)]
    boxes += [box for box in movers for _ in range(FACES_PER_BOX)]
    return BakedScene(spec, faces, FACES_PER_BOX * len(movers), _bake_atlas(spec, faces, boxes, texel))


def _bake_atlas(spec: SceneSpec, faces: Faces, boxes: list[Box], texel: float) -> Atlas:
    rng = np.random.default_rng([spec.seed, 2])
    dice = rng.standard_normal((len(faces), 12, 12, 3), np.float32)
    fine = rng.standard_normal((ROOM_FACES, 40, 40, 3), np.float32)
    corners = np.array([wall.corners for wall in spec.walls] + [[box.colour] * 4 for box in boxes], np.float32)
    surface = np.array([_surface_of(box, faces.normal[ROOM_FACES + k]) for k, box in enumerate(boxes)], np.intp)
    sizes = _texture_sizes(faces, texel)  # [F, 2] width, height
    packer = _Packer(len(faces))
    for side in range(ROOM_FACES):
        albedo = _side_albedo(corners[side], dice[side], fine[side], (int(sizes[side, 0]), int(sizes[side, 1])))
        only = faces.chosen(np.arange(len(faces)) == side)
        packer.add([side], _bake_side(spec, only, side, albedo))
    for size in sorted({(int(w), int(h)) for w, h in sizes[ROOM_FACES:]}):
        group = ROOM_FACES + np.flatnonzero((sizes[ROOM_FACES:] == size).all(axis=1))
        part = faces.chosen(np.isin(np.arange(len(faces)), group))
        s, t = _centres(size[0]), _centres(size[1])
        batch = FaceBatch(
            _box_albedo(corners[group], dice[group], s, t), s, t, part.extent.astype(np.float32), dice[group]
        )
        dress(batch, surface[group - ROOM_FACES])
        packer.add(group.tolist(), batch.albedo * light_on(part, spec, s, t)[..., None])
    return packer.atlas(sizes / faces.extent)


def _surface_of(box: Box, normal: NDArray[np.float64]) -> Surface:
    """The pattern a face of a box shows: its own on the front, plain elsewhere."""
    if box.front == (0, 0) or (normal[0], normal[1]) == box.front:
        return box.surface
    return Surface.PLAIN


def _texture_sizes(faces: Faces, texel: float) -> NDArray[np.intp]:
    """Multiples of the coarsest copy's step for the room, powers of two for boxes: those share a size and one bake."""
    wanted = np.maximum(faces.extent / texel, 1.0)
    room = _COARSEST * np.ceil(wanted[:ROOM_FACES] / _COARSEST)
    boxes = np.clip(2.0 ** np.ceil(np.log2(wanted[ROOM_FACES:]) - 0.3), _COARSEST, 256)
    return np.concatenate([room, boxes]).astype(np.intp)


def _centres(count: int) -> Array:
    return (np.arange(count, dtype=np.float32) + np.float32(0.5)) / np.float32(count)


def _hat(x: Array, knots: int) -> Array:
    """Weights of linear interpolation from knots at 0..1 to x: [len(x), knots]."""
    distance = np.abs(x[:, None] * (knots - 1) - np.arange(knots, dtype=np.float32))
    return np.maximum(np.float32(1.0) - distance, np.float32(0.0))


def _bake_side(spec: SceneSpec, only: Faces, side: int, albedo: Array) -> Array:
    """Posters and light on a wall, the floor or the ceiling: albedo [h, w, 3] to [1, h, w, 3]."""
    s, t = _centres(albedo.shape[1]), _centres(albedo.shape[0])
    for poster in spec.walls[side].posters:
        _hang(poster, albedo, s * np.float32(only.extent[0, 0]), t * np.float32(only.extent[0, 1]))
    light = light_on(only, spec, s, t)
    darken_corners(light, only.extent)
    if side == _FLOOR:
        light *= floor_shadow(spec, s, t)
    return albedo[None] * light[..., None]


def _side_albedo(corners: Array, dice: Array, fine: Array, size: tuple[int, int]) -> Array:
    """Gradient and two sizes of noise of a side of the room with (width, height) texels: [height, width, 3]."""
    s, t = _centres(size[0]), _centres(size[1])
    albedo = _enlarge(corners.reshape(2, 2, 3), s, t)
    albedo += np.float32(0.06) * _enlarge(dice, s, t)
    albedo += np.float32(0.035) * _enlarge(fine, s, t)
    return albedo


def _hang(poster: Poster, albedo: Array, u: Array, v: Array) -> None:
    """Paint a poster over the texels of a wall that it covers; u [w] and v [h] are their places in metres."""
    columns = slice(*np.searchsorted(u, [poster.left, poster.left + poster.width]).tolist())
    rows = slice(*np.searchsorted(v, [poster.top, poster.top + poster.height]).tolist())
    s = (u[columns] - np.float32(poster.left)) / np.float32(poster.width)
    t = (v[rows] - np.float32(poster.top)) / np.float32(poster.height)
    if len(s) and len(t):
        albedo[rows, columns] = paint(poster.motif, poster.seed, s, t)


def _enlarge(grid: Array, s: Array, t: Array) -> Array:
    """Bilinear enlargement of [g, k, 3] to [len(t), len(s), 3]."""
    knots = grid.shape[0]
    down = (_hat(t, knots) @ grid.reshape(knots, -1)).reshape(len(t), -1, 3)  # [h, k, 3]
    wide: Array = np.matmul(_hat(s, grid.shape[1]), down)
    return wide


def _box_albedo(corners: Array, dice: Array, s: Array, t: Array) -> Array:
    """Colours of n faces before their patterns: [n, h, w, 3]."""
    count = len(corners)
    rows = np.matmul(_hat(t, 12), dice.reshape(count, 12, -1)).reshape(count, len(t), 12, 3)
    noise = np.matmul(_hat(s, 12), rows)
    return corners[:, None, :1] + np.float32(0.04) * noise


class _Packer:
    """Collects textures, makes their smaller copies, and lays them out in one array."""

    def __init__(self, faces: int) -> None:
        self._parts: list[NDArray[np.uint32]] = []
        self._used = 0
        self._offset = np.zeros((faces, LEVELS), np.int32)
        self._stride = np.zeros((faces, LEVELS), np.int32)

    def add(self, faces: list[int], colours: Array) -> None:
        """Textures [n, h, w, 3] for n faces."""
        for level in range(LEVELS):
            if level:
                n, h, w, _ = colours.shape
                halves = colours.reshape(n, h // 2, 2, w // 2, 2, 3)
                colours = np.float32(0.25) * (
                    halves[:, :, 0, :, 0] + halves[:, :, 0, :, 1] + halves[:, :, 1, :, 0] + halves[:, :, 1, :, 1]
                )
            packed = _pack(colours)  # [n, h + 2, w + 2]
            _, rows, stride = packed.shape
            starts = self._used + rows * stride * np.arange(len(faces))
            self._offset[faces, level] = starts + stride + 1
            self._stride[faces, level] = stride
            self._parts.append(packed.ravel())
            self._used += packed.size

    def atlas(self, texels_per_metre: NDArray[np.float64]) -> Atlas:
        return Atlas(np.concatenate(self._parts), self._offset.ravel(), self._stride.ravel(), texels_per_metre)


def _pack(colours: Array) -> NDArray[np.uint32]:
    """Bytes with a repeated rim: [n, h, w, 3] in [0, 1] to [n, h + 2, w + 2] of four bytes."""
    n, h, w, _ = colours.shape
    packed = np.zeros((n, h + 2, w + 2, 4), np.uint8)
    packed[:, 1:-1, 1:-1, :3] = np.clip(colours * 255.0 + 0.5, 0.0, 255.0)
    packed[:, 0], packed[:, -1] = packed[:, 1], packed[:, -2]
    packed[:, :, 0], packed[:, :, -1] = packed[:, :, 1], packed[:, :, -2]
    return packed.view(np.uint32)[..., 0]
