"""A coloured point cloud of bounded size, fused in voxels, however long the stream.

K points · V voxels

Every voxel keeps the confidence-weighted sums of what fell into it. When there are more voxels than the budget allows,
their edge doubles and neighbours merge: the cloud gets coarser, never larger, and no part of the scene is dropped. The
order of frames alone decides the result.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import OutputError
from recal3r.sinks.base import Mark, asked_for
from recal3r.sinks.filters import Filter, colours_of
from recal3r.types import Array, Image, Prediction

_PACK = 21  # bits of a voxel's coordinate in its key
_HALF = 1 << (_PACK - 1)
_FREE = -1
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio


class Cloud(NamedTuple):
    points: NDArray[np.float64]  # [V, 3]
    colours: NDArray[np.uint8]  # [V, 3]
    weights: NDArray[np.float64]  # [V], confidence gathered


class VoxelMap:
    """The one thing here that changes: voxel -> sums of weight, weighted point, weighted colour.

    Voxels keep the order in which they were first seen; `_places` finds them. Adding a frame costs about the frame,
    however large the map.
    """

    def __init__(self, edge: float, budget: int) -> None:
        if edge <= 0 or budget < 1:
            raise OutputError(f"A voxel edge of {edge} and a budget of {budget} make no cloud; both must be above 0.")
        self.edge, self.budget = edge, budget
        self._places = Places()
        self._sums: NDArray[np.float64] = np.empty((0, 7))  # weight, x, y, z, r, g, b; with room at the end

    def __len__(self) -> int:
        return len(self._places)

    def add(self, points: Array, colours: Image, weights: Array) -> None:  # [K, 3], [K, 3], [K]
        weighted = np.concatenate((points, colours), axis=1) * weights[:, None]
        self._merge(np.concatenate((weights[:, None], weighted), axis=1).astype(np.float64), points)
        while len(self) > self.budget:
            self.edge *= 2
            sums, self._sums, self._places = self._sums[: len(self)], np.empty((0, 7)), Places()
            self._merge(sums, sums[:, 1:4] / sums[:, :1])

    def cloud(self) -> Cloud:
        """In the order of the voxels' keys."""
        sums = self._sums[: len(self)][np.argsort(self._places.keys)]
        means = sums[:, 1:] / sums[:, :1]
        return Cloud(means[:, :3], means[:, 3:].round().clip(0, 255).astype(np.uint8), sums[:, 0])

    def mark(self) -> Mark:
        return Mark({"edge": self.edge}, {"keys": self._places.keys.copy(), "sums": self._sums[: len(self)].copy()})

    def resume(self, mark: Mark) -> None:
        self.edge = float(mark.numbers["edge"])
        self._places = Places()
        self._places.of(mark.arrays["keys"])
        self._sums = mark.arrays["sums"].copy()

    def _keys_of(self, points: Array) -> NDArray[np.int64]:
        cell = np.rint(np.asarray(points, np.float64) / self.edge).astype(np.int64).clip(-_HALF, _HALF - 1) + _HALF
        return (cell[:, 0] << 2 * _PACK) | (cell[:, 1] << _PACK) | cell[:, 2]

    def _merge(self, sums: NDArray[np.float64], points: Array) -> None:  # [K, 7], [K, 3]
        if not len(sums):
            return
        keys = self._keys_of(points)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
        places = self._places.of(keys[first])
        self._sums = with_room(self._sums, len(self))
        self._sums[places] += np.add.reduceat(sums[order], first)


class Places:
    """A hash table from voxel keys to 0, 1, 2, ... in the order in which keys were first asked for.

    Open addressing, a whole array of keys at a time: keys whose slot is taken by another try the next one.
    """

    def __init__(self) -> None:
        self._count = 0
        self._keys: NDArray[np.int64] = np.empty(0, np.int64)  # with room at the end
        self._slots: NDArray[np.int64] = np.full(1024, _FREE)  # the place of the key that hashes here

    def __len__(self) -> int:
        return self._count

    @property
    def keys(self) -> NDArray[np.int64]:
        """By place."""
        return self._keys[: self._count]

    def of(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places of keys [K], no two of them equal; new ones are given the next places in their order."""
        places = self._find(keys)
        new = np.flatnonzero(places == _FREE)
        places[new] = np.arange(self._count, self._count + len(new))
        self._keys = with_room(self._keys, self._count + len(new))
        self._keys[places[new]] = keys[new]
        self._count += len(new)
        if 2 * self._count > len(self._slots):
            self._slots = np.full(1 << (4 * self._count - 1).bit_length(), _FREE)
            self._enter(np.arange(self._count))
        else:
            self._enter(places[new])
        return places

    def _find(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """Their places, _FREE for those that have none."""
        places = np.full(len(keys), _FREE)
        open_, slots = np.arange(len(keys)), self._hashed(keys)
        while len(open_):
            there = self._slots[slots]
            found = (there != _FREE) & (self._keys[there] == keys[open_] if self._count else False)
            places[open_[found]] = there[found]
            searching = (there != _FREE) & ~found
            open_, slots = open_[searching], (slots[searching] + 1) & (len(self._slots) - 1)
        return places

    def _enter(self, places: NDArray[np.int64]) -> None:
        """Notes places whose keys are in no slot yet. Where several want one slot, one gets it."""
        slots = self._hashed(self._keys[places])
        while len(places):
            free = self._slots[slots] == _FREE
            self._slots[slots[free]] = places[free]
            homeless = self._slots[slots] != places
            places, slots = places[homeless], (slots[homeless] + 1) & (len(self._slots) - 1)

    def _hashed(self, keys: NDArray[np.int64]) -> NDArray[np.int64]:
        """The first slot to try: the upper bits of a product with an odd number (Fibonacci hashing)."""
        bits = len(self._slots).bit_length() - 1
        return ((keys.astype(np.uint64) * _GOLDEN) >> np.uint64(64 - bits)).astype(np.int64)


N = TypeVar("N", np.int64, np.float64)


def with_room(rows: NDArray[N], count: int) -> NDArray[N]:
    """The same rows, and zeros behind them, for at least `count`: half as many again whenever there are too few."""
    if count <= len(rows):
        return rows
    larger = np.zeros((max(count, 3 * len(rows) // 2), *rows.shape[1:]), rows.dtype)
    larger[: len(rows)] = rows
    return larger


class Fusion:
    """Predictions into voxels: what `CloudSink` and `GlbSink` have in common."""

    needs = frozenset({"camera", "points_world", "confidence_world"})  # the camera knows which pixel has which colour

    def __init__(self, edge: float, budget: int, least_confidence: float, keep: Filter | None) -> None:
        self.voxels = VoxelMap(edge, budget)
        self._least_confidence, self._keep = least_confidence, keep

    def add(self, prediction: Prediction, image: Image | None, sink: object) -> None:
        points = asked_for(prediction.points_world, "points_world", sink)
        confidence = asked_for(prediction.confidence_world, "confidence_world", sink)
        kept = (confidence >= self._least_confidence) & np.isfinite(points).all(-1)
        if self._keep is not None:
            kept &= self._keep(prediction, image)
        self.voxels.add(points[kept], colours_of(image, prediction, points.shape)[kept], confidence[kept])

    def mark(self) -> Mark:
        return self.voxels.mark()

    def resume(self, mark: Mark) -> None:
        self.voxels.resume(mark)


class CloudSink:
    """Writes a binary PLY when the block ends, however it ends. `keep` drops pixels before they are fused."""

    def __init__(
        self,
        path: str | Path,
        *,
        edge: float = 0.01,
        budget: int = 1_000_000,
        least_confidence: float = 1.5,
        keep: Filter | None = None,
        overwrite: bool = False,
    ) -> None:
        self._path, self._overwrite = Path(path), overwrite
        self.fusion = Fusion(edge, budget, least_confidence, keep)
        self.needs = Fusion.needs | (frozenset[str]() if keep is None else keep.needs)

    @property
    def voxels(self) -> VoxelMap:
        return self.fusion.voxels

    def __enter__(self) -> Self:
        if self._path.exists() and not self._overwrite:
            raise OutputError(f"{self._path} exists already; name a new file, or ask to overwrite it.")
        if not self._path.parent.is_dir():
            raise OutputError(f"{self._path} cannot be written: its folder does not exist; make it first.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        write_ply(self._path, self.voxels.cloud())

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        self.fusion.add(prediction, image, self)

    def mark(self) -> Mark:
        return self.fusion.mark()

    def resume(self, mark: Mark) -> None:
        self.fusion.resume(mark)


def write_ply(path: Path, cloud: Cloud) -> None:
    """Binary little-endian PLY: x y z red green blue confidence. Whole, or not there at all."""
    vertex = np.dtype(
        [
            *((axis, "<f4") for axis in "xyz"),
            *((name, "u1") for name in ("red", "green", "blue")),
            ("confidence", "<f4"),
        ]
    )
    rows = np.empty(len(cloud.points), vertex)
    for column, axis in enumerate("xyz"):
        rows[axis] = cloud.points[:, column]
    for column, name in enumerate(("red", "green", "blue")):
        rows[name] = cloud.colours[:, column]
    rows["confidence"] = cloud.weights
    kinds = {"<f4": "float", "|u1": "uchar"}
    header = ["ply", "format binary_little_endian 1.0", f"element vertex {len(rows)}"]
    header += [f"property {kinds[vertex[name].str]} {name}" for name in vertex.names or ()]
    unfinished = path.with_name(f".{path.name}.part")
    try:
        with unfinished.open("wb") as file:
            file.write(("\n".join([*header, "end_header"]) + "\n").encode())
            file.write(rows.tobytes())
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written ({error.strerror}); free space or name another file.") from error
