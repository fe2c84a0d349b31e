"""Millions of points, in an order of which every beginning is an even picture of the whole.

N points · H, W: the network's picture

Sent from its beginning until a budget is spent, the cloud is there at once, coarse, and only gets denser. Cut off at a
capacity, it loses its finest detail and nothing else: memory is bounded however long the stream.
"""

from __future__ import annotations

from math import ceil, sqrt

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import OutputError
from recal3r.sinks.frames import ViewFrame

POINT = np.dtype(
    [
        ("position", np.float32, 3),
        ("colour", np.uint8, 3),
        ("depth", np.float16),
        ("confidence", np.float16),
        ("reliability", np.float16),  # NaN where it is not known
        ("frame", np.int32),
    ]
)
Points = NDArray[np.void]  # of POINT, [N]
POINTS_OF_A_FRAME = 50_000
CAPACITY = 5_000_000

_BITS = 21  # of a coordinate: three of them fill 63 bits
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def points_of(frame: ViewFrame, most: int = POINTS_OF_A_FRAME) -> Points:
    """The frame's pixels as points in the world: every k-th row and column where there would be more than `most`."""
    height, width = frame.depth.shape
    step = max(1, ceil(sqrt(height * width / most)))
    row, column = np.mgrid[0:height:step, 0:width:step]
    depth = frame.depth[::step, ::step]
    rays = np.stack((column, row, np.ones_like(row)), axis=-1) @ np.linalg.inv(frame.intrinsics).T
    seen = np.isfinite(depth) & (depth > 0)
    camera = (rays * depth[..., None].astype(np.float64))[seen]
    points = np.empty(len(camera), POINT)
    points["position"] = camera @ frame.T_world_camera[:3, :3].T + frame.T_world_camera[:3, 3]
    points["colour"] = frame.picture[::step, ::step][seen]
    points["depth"] = depth[seen]
    points["confidence"] = frame.confidence[::step, ::step][seen]
    points["reliability"] = np.nan if frame.reliability is None else frame.reliability[::step, ::step][seen]
    points["frame"] = frame.index
    return points[np.isfinite(points["position"]).all(-1)]


def spread_order(positions: NDArray[np.floating]) -> NDArray[np.intp]:  # [N, 3] -> [N]
    """A permutation of which every beginning is spread evenly over the space that is filled.

    Along a Morton curve, the first point of each cell of every size is the one that differs from its predecessor at
    that cell's level. First of cells come in order of their size, the largest first; within a level, scattered.
    """
    codes = morton(positions)
    along = np.argsort(codes, kind="stable")
    codes = codes[along]
    differs = np.concatenate(([np.uint64(1) << np.uint64(3 * _BITS)], codes[1:] ^ codes[:-1]))[: len(codes)]
    level = (np.frexp(differs.astype(np.float64))[1] + 2) // 3  # 0: in one cell of the finest level with another
    finer = (np.uint64(_BITS + 1) - level.astype(np.uint64)) << np.uint64(32)
    scattered = (np.arange(len(codes), dtype=np.uint64) * _GOLDEN) >> np.uint64(32)
    return along[np.argsort(finer | scattered, kind="stable")]


def morton(positions: NDArray[np.floating]) -> NDArray[np.uint64]:  # [N, 3] -> [N]
    """The place of each point along a curve through the cube that holds them all: x, y and z, bit by bit."""
    if not len(positions):
        return np.empty(0, np.uint64)
    low = positions.min(0)
    extent = float((positions.max(0) - low).max())
    cells = (1 << _BITS) - 1
    codes = np.zeros(len(positions), np.uint64)
    for axis in range(3):
        scaled = (positions[:, axis].astype(np.float64) - low[axis]) * (cells / max(extent, 1e-30))
        codes |= _spaced(scaled.astype(np.uint64)) << np.uint64(axis)
    return codes


def _spaced(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Two zeros between the bits of 21-bit numbers."""
    for shift, mask in (
        (32, 0x1F00000000FFFF),
        (16, 0x1F0000FF0000FF),
        (8, 0x100F00F00F00F00F),
        (4, 0x10C30C30C30C30C3),
        (2, 0x1249249249249249),
    ):
        x = (x | (x << np.uint64(shift))) & np.uint64(mask)
    return x


class Cloud:
    """The points of all frames, up to a capacity. Changes: `add` takes new ones, `settle` puts all in order."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise OutputError(f"A capacity of {capacity} points holds no cloud; allow at least 1.")
        self.capacity = capacity
        self.points: Points = np.empty(0, POINT)  # in spread order
        self._waiting: list[Points] = []
        self.waiting = 0

    def add(self, points: Points) -> None:
        self._waiting.append(points)
        self.waiting += len(points)
        if self.waiting > self.capacity // 4:
            self.settle()

    def settle(self) -> None:
        """Whole again: what was added is among `points`, of which the finest detail is dropped above the capacity.

        `points` is replaced, never written into: who holds the old array may go on reading it.
        """
        together = np.concatenate((self.points, *self._waiting))
        self._waiting, self.waiting = [], 0
        self.points = together[spread_order(together["position"])[: self.capacity]]
