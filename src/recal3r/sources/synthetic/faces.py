"""Every visible rectangle of a scene as arrays: the sides of the room first, then the sides of boxes, then movers.

A face is a corner, two unit edges (u to the right, v down, as a viewer in front of it sees it) and its extent, so a
point on it is origin + u·a + v·b. The normal looks to the viewer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recal3r.sources.synthetic.scene import Box, SceneSpec

ROOM_FACES = 6
FACES_PER_BOX = 6
_NORMALS = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], np.float64)
# u and v of a face with each of these normals: side faces have v downwards, and u × v = −normal.
_EDGE_U = np.array([[0, 1, 0], [0, -1, 0], [-1, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]], np.float64)
_EDGE_V = np.array([[0, 0, -1], [0, 0, -1], [0, 0, -1], [0, 0, -1], [0, -1, 0], [0, 1, 0]], np.float64)


@dataclass(frozen=True)
class Faces:
    """Rectangles in the world, metres. F faces."""

    origin: NDArray[np.float64]  # [F, 3]
    edge_u: NDArray[np.float64]  # [F, 3]
    edge_v: NDArray[np.float64]  # [F, 3]
    normal: NDArray[np.float64]  # [F, 3]
    extent: NDArray[np.float64]  # [F, 2] along u, along v

    def __len__(self) -> int:
        return len(self.origin)

    def corners(self) -> NDArray[np.float64]:
        """The four corners in order around each face: [F, 4, 3]."""
        along_u = self.edge_u * self.extent[:, :1]
        along_v = self.edge_v * self.extent[:, 1:]
        o = self.origin
        return np.stack([o, o + along_u, o + along_u + along_v, o + along_v], axis=1)

    def chosen(self, which: NDArray[np.bool_]) -> "Faces":
        return Faces(self.origin[which], self.edge_u[which], self.edge_v[which], self.normal[which], self.extent[which])


def join(parts: Sequence[Faces]) -> Faces:
    return Faces(
        np.concatenate([p.origin for p in parts]),
        np.concatenate([p.edge_u for p in parts]),
        np.concatenate([p.edge_v for p in parts]),
        np.concatenate([p.normal for p in parts]),
        np.concatenate([p.extent for p in parts]),
    )


def room_faces(spec: SceneSpec) -> Faces:
    """The six sides of the room, seen from inside: x=0, x=high, y=0, y=high, floor, ceiling."""
    room = np.array(spec.room)
    centre = 0.5 * room - 0.5 * room * _NORMALS  # [6, 3]
    return _rectangles(centre, room[None])


def box_faces(boxes: Sequence[Box]) -> Faces:
    """Six faces a box, in the order of the boxes."""
    centres = np.array([b.centre for b in boxes], np.float64).reshape(-1, 3)
    sizes = np.array([b.size for b in boxes], np.float64).reshape(-1, 3)
    middle = centres[:, None] + 0.5 * sizes[:, None] * _NORMALS  # [B, 6, 3]
    return _rectangles(middle.reshape(-1, 3), sizes)


def can_be_seen(faces: Faces, spec: SceneSpec) -> NDArray[np.bool_]:
    """False for faces that stand on the floor or against a wall: nobody ever looks at them. [F]"""
    middle = (
        faces.origin
        + 0.5 * faces.edge_u * faces.extent[:, :1]
        + 0.5 * faces.edge_v * faces.extent[:, 1:]
        + 0.02 * faces.normal
    )
    return np.all((middle > 0) & (middle < np.array(spec.room)), axis=1)


def mover_faces(spec: SceneSpec, time: float) -> Faces:
    """Where the faces of the moving boxes are at a frame time: six a mover, turned about the vertical."""
    parts: list[Faces] = []
    for mover in spec.movers:
        centre, yaw = mover.place(time)
        rest = box_faces([mover.box])
        c, s = np.cos(yaw), np.sin(yaw)
        turn = np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])  # row vectors are turned: v @ turn
        origin = (rest.origin - np.array(mover.box.centre)) @ turn + np.array(centre)
        parts.append(Faces(origin, rest.edge_u @ turn, rest.edge_v @ turn, rest.normal @ turn, rest.extent))
    return join(parts)


def _rectangles(middle: NDArray[np.float64], sizes: NDArray[np.float64]) -> Faces:
    """Faces with the six normals around boxes of the given sizes [B, 3], from their middles [6·B, 3]."""
    u, v, n = (np.tile(axes, (len(sizes), 1)) for axes in (_EDGE_U, _EDGE_V, _NORMALS))
    extent_u = (np.repeat(sizes, 6, axis=0) * np.abs(u)).sum(axis=1)
    extent_v = (np.repeat(sizes, 6, axis=0) * np.abs(v)).sum(axis=1)
    origin = middle - 0.5 * u * extent_u[:, None] - 0.5 * v * extent_v[:, None]
    return Faces(origin, u, v, n, np.stack([extent_u, extent_v], axis=1))
