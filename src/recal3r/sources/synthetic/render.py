"""Rays against rectangles: exact depth for every pixel, colour from the atlas.

For a face with corner O, edges U and V (in the camera's axes) and a pixel's ray r = K⁻¹ [col, row, 1], the point where
they meet solves z·r = O + a·U + b·V. With M = [U V O] that is M⁻¹ r = (a/z, b/z, 1/z): three affine functions of the
pixel for each face (eq. 1). So 1/z of a face is a plane over the image, the nearest face has the largest 1/z, and a
pixel is inside when 0 ≤ a/z ≤ extent/z. No ray is ever normalised and z is depth, not distance.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import ConfigError
from recal3r.sources.synthetic.faces import ROOM_FACES, Faces, join, mover_faces
from recal3r.sources.synthetic.texture import LEVELS, Atlas, BakedScene

_NEAR = 0.02  # metres; cameras keep more distance than this from everything
_SHARPNESS = 0.35  # levels of detail to add: a little blur instead of flicker
_COPY_SCALE = np.array([0.5**level for level in range(LEVELS)], np.float32)

Affine = NDArray[np.float32]


@dataclass(frozen=True)
class Pinhole:
    """A camera without distortion. Pixel centres are at integer coordinates, the principal point at (W//2, H//2)."""

    width: int
    height: int
    focal: float

    def intrinsics(self) -> NDArray[np.float64]:
        """K, [3, 3]."""
        return np.array(
            [[self.focal, 0.0, self.width // 2], [0.0, self.focal, self.height // 2], [0.0, 0.0, 1.0]], np.float64
        )


@dataclass(frozen=True)
class _Grid:
    """Where rays go through the image: columns [w] and rows [h] in pixels, which may be fractions."""

    columns: NDArray[np.float64]
    rows: NDArray[np.float64]
    focal: float
    centre: tuple[float, float]


@dataclass(frozen=True)
class _Planes:
    """Eq. 1 for the faces in view: a/z, b/z and 1/z as a part that depends on the column plus one on the row."""

    face: NDArray[np.intp]  # [f] which face of the scene
    by_column: Affine  # [f, 3, w]
    by_row: Affine  # [f, 3, h]
    extent: list[tuple[float, float]]  # in texels
    window: list[tuple[int, int, int, int]]  # first and end column, first and end row
    footprint: NDArray[np.float64]  # [f] texels² a pixel covers at z = 1


@dataclass(frozen=True)
class _Hits:
    inverse_depth: Affine  # [h, w]
    plane: NDArray[np.intp]  # [h, w] index into _Planes


def render(
    scene: BakedScene, camera: Pinhole, T_world_camera: NDArray[np.float64], time: float = 0.0, supersample: int = 1
) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
    """Image [H, W, 3] and depth [H, W] in metres. Colour averages supersample² rays a pixel; depth is the centre's."""
    position = T_world_camera[:3, 3]
    if not ((position > 0).all() and (position < np.array(scene.spec.room)).all()):
        raise ConfigError(
            f"A camera at {np.round(position, 3).tolist()} is outside of the room, which spans 0 to "
            f"{np.round(scene.spec.room, 3).tolist()} m; use a pose inside."
        )
    faces = faces_at(scene, time)
    grid = _grid(camera, 1)
    planes = _planes(faces, scene.atlas, grid, T_world_camera)
    hits = _cast(planes)
    depth = np.reciprocal(hits.inverse_depth)
    if supersample > 1:
        grid = _grid(camera, supersample)
        planes = _planes(faces, scene.atlas, grid, T_world_camera)
        hits = _cast(planes)
    colours = _colours(scene.atlas, planes, hits)  # [s·H, s·W, 4]
    return _to_pixels(colours, camera, supersample), depth


def faces_at(scene: BakedScene, time: float) -> Faces:
    """All faces, the moving ones where they are at a frame time."""
    if not scene.moving:
        return scene.faces
    still = np.arange(len(scene.faces)) < len(scene.faces) - scene.moving
    return join([scene.faces.chosen(still), mover_faces(scene.spec, time)])


def _grid(camera: Pinhole, rays: int) -> _Grid:
    """`rays` evenly spaced columns and rows inside each pixel; a pixel reaches half a unit to either side."""
    step = 1.0 / rays
    shift = 0.5 * (step - 1.0)
    return _Grid(
        np.arange(camera.width * rays, dtype=np.float64) * step + shift,
        np.arange(camera.height * rays, dtype=np.float64) * step + shift,
        camera.focal,
        (camera.width // 2, camera.height // 2),
    )


def _planes(faces: Faces, atlas: Atlas, grid: _Grid, T_world_camera: NDArray[np.float64]) -> _Planes:
    rotation, position = T_world_camera[:3, :3], T_world_camera[:3, 3]
    normal = faces.normal @ rotation  # [F, 3] in the camera's axes
    corners = (faces.corners() - position) @ rotation  # [F, 4, 3]
    origin = corners[:, 0]
    away = (normal * origin).sum(axis=1)  # below zero: the face looks at the camera
    window = _windows(corners, grid)  # [F, 4]
    seen = (away < -1e-6) & (window[:, 0] < window[:, 1]) & (window[:, 2] < window[:, 3])
    index = np.flatnonzero(seen)
    normal, origin, away = normal[index], origin[index], away[index]
    edge_u, edge_v = faces.edge_u[index] @ rotation, faces.edge_v[index] @ rotation
    # The rows of M⁻¹ for orthonormal U, V: N/d, U − (U·O) N/d, V − (V·O) N/d with d = N·O.
    to_inverse_depth = normal / away[:, None]
    density = atlas.texels_per_metre[index]
    to_a = (edge_u - (edge_u * origin).sum(1, keepdims=True) * to_inverse_depth) * density[:, :1]
    to_b = (edge_v - (edge_v * origin).sum(1, keepdims=True) * to_inverse_depth) * density[:, 1:]
    rows_of_inverse = np.stack([to_a, to_b, to_inverse_depth], axis=1)  # [f, 3, 3]
    ray_x = (grid.columns - grid.centre[0]) / grid.focal
    ray_y = (grid.rows - grid.centre[1]) / grid.focal
    spacing = abs(grid.columns[1] - grid.columns[0]) / grid.focal
    return _Planes(
        face=index,
        by_column=(rows_of_inverse[..., :1] * ray_x).astype(np.float32),
        by_row=(rows_of_inverse[..., 1:2] * ray_y + rows_of_inverse[..., 2:]).astype(np.float32),
        extent=[(float(a), float(b)) for a, b in faces.extent[index] * density],
        window=[(int(a), int(b), int(c), int(d)) for a, b, c, d in window[index]],
        footprint=density.prod(axis=1) * spacing**2 / np.abs(away),
    )


def _windows(corners: NDArray[np.float64], grid: _Grid) -> NDArray[np.intp]:
    """The part of the image each face can reach: first and end column, first and end row, [F, 4].

    Edges that pass behind the camera are cut at the near plane, so that their projection stays bounded by what is seen.
    """
    z = corners[..., 2]
    following = np.roll(corners, -1, axis=1)
    step = following[..., 2] - z
    crosses = (z > _NEAR) != (following[..., 2] > _NEAR)
    share = np.where(crosses, (_NEAR - z) / np.where(crosses, step, 1.0), 0.0)
    cut = corners + share[..., None] * (following - corners)
    points = np.concatenate([corners, cut], axis=1)  # [F, 8, 3]
    valid = np.concatenate([z > _NEAR, crosses], axis=1)
    depth = np.where(valid, np.maximum(points[..., 2], _NEAR), 1.0)
    bounds: list[NDArray[np.float64]] = []
    for axis, places in ((0, grid.columns), (1, grid.rows)):
        pixel = points[..., axis] / depth * grid.focal + grid.centre[axis]
        place = (pixel - places[0]) / (places[1] - places[0])
        low = np.floor(np.where(valid, place, np.inf).min(axis=1))
        high = np.ceil(np.where(valid, place, -np.inf).max(axis=1)) + 1
        bounds += [np.clip(low, 0, len(places)), np.clip(high, 0, len(places))]
    return np.stack(bounds, axis=1).astype(np.intp)


def _cast(planes: _Planes) -> _Hits:
    """The nearest face for every ray. Sides of the room need no inside test: from inside, the nearest one is hit."""
    height, width = planes.by_row.shape[2], planes.by_column.shape[2]
    nearest = np.zeros((height, width), np.float32)
    plane = np.zeros((height, width), np.intp)
    for k, (x0, x1, y0, y1) in enumerate(planes.window):
        column, row = planes.by_column[k, :, None, x0:x1], planes.by_row[k, :, y0:y1, None]
        inverse = column[2] + row[2]
        best = nearest[y0:y1, x0:x1]
        hit = inverse > best
        if planes.face[k] >= ROOM_FACES:
            if not hit.any():
                continue
            limit_a, limit_b = planes.extent[k]
            a, b = column[0] + row[0], column[1] + row[1]
            hit &= a >= 0.0
            hit &= b >= 0.0
            hit &= a <= inverse * np.float32(limit_a)
            hit &= b <= inverse * np.float32(limit_b)
        np.copyto(best, inverse, where=hit)
        np.copyto(plane[y0:y1, x0:x1], k, where=hit)
    return _Hits(nearest, plane)


def _colours(atlas: Atlas, planes: _Planes, hits: _Hits) -> NDArray[np.float32]:
    """Bilinear lookup at the level of detail a pixel covers: [h, w, 4], the last channel without meaning."""
    z = np.reciprocal(hits.inverse_depth)
    level = _level_of_detail(planes, hits.plane, z)
    copy = planes.face.take(hits.plane) * LEVELS + level
    scale = z * _COPY_SCALE[level]
    a = _affine_at(planes, hits.plane, 0) * scale - np.float32(0.5)  # texels of the chosen copy
    b = _affine_at(planes, hits.plane, 1) * scale - np.float32(0.5)
    left, top = np.floor(a), np.floor(b)
    stride = atlas.stride.take(copy)
    texel = atlas.offset.take(copy) + top.astype(np.int32) * stride + left.astype(np.int32)
    return _bilinear(atlas.texels, texel, stride, (a - left)[..., None], (b - top)[..., None])


def _affine_at(planes: _Planes, plane: NDArray[np.intp], which: int) -> Affine:
    """a/z (0) or b/z (1) of every pixel on the plane it sees: [h, w]."""
    height, width = plane.shape
    column = (3 * plane + which) * width + np.arange(width, dtype=np.intp)
    row = (3 * plane + which) * height + np.arange(height, dtype=np.intp)[:, None]
    return planes.by_column.ravel()[column] + planes.by_row.ravel()[row]


def _level_of_detail(planes: _Planes, plane: NDArray[np.intp], z: Affine) -> NDArray[np.intp]:
    """Half of log2 of the texels a pixel covers, [h, w]. Their number grows with z³: the determinant of a homography
    over the cube of its last row."""
    at_one_metre = 0.5 * np.log2(planes.footprint) + _SHARPNESS
    detail = at_one_metre.astype(np.float32)[plane] + np.float32(1.5) * np.log2(z)
    return np.clip(detail, 0.0, LEVELS - 1).astype(np.intp)


def _bilinear(
    texels: NDArray[np.uint32], texel: NDArray[np.int32], stride: NDArray[np.int32], right: Affine, below: Affine
) -> NDArray[np.float32]:
    """`texel` is the upper left of four; `right` and `below` [h, w, 1] are the shares of its neighbours."""

    def look(index: NDArray[np.int32]) -> NDArray[np.float32]:
        packed = texels.take(index, mode="clip")  # "clip" only skips a second check of the range
        return packed.view(np.uint8).reshape(*index.shape, 4).astype(np.float32)

    upper = look(texel)
    upper += (look(texel + 1) - upper) * right
    lower = look(texel + stride)
    lower += (look(texel + stride + 1) - lower) * right
    lower -= upper
    lower *= below
    upper += lower
    return upper


def _to_pixels(colours: NDArray[np.float32], camera: Pinhole, rays: int) -> NDArray[np.uint8]:
    if rays > 1:
        colours = colours.reshape(camera.height, rays, camera.width, rays, 4).mean(axis=(1, 3))
    return np.ascontiguousarray((colours + np.float32(0.5)).astype(np.uint8)[..., :3])
