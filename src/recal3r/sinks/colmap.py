"""A COLMAP model, as text or binary: a pinhole camera for each frame, poses, and sampled points with tracks.

COLMAP's poses go from world to camera, its quaternions are wxyz, and its pixel centres lie at halves: (0.5, 0.5) is the
centre of the first pixel. Cameras are at the resolution the pictures came in, so that they fit the pictures on disk.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import OutputError
from recal3r.geometry.pose import apply, inverse
from recal3r.sinks.base import Mark, asked_for, not_open
from recal3r.sinks.colmap_files import BinaryFiles, ModelFiles, Point, TextFiles, View
from recal3r.sinks.filters import Filter
from recal3r.types import Array, Camera, Crop, Image, Prediction

_NEEDS = frozenset({"pose", "camera", "points_world", "confidence_world"})
Pixels = NDArray[np.float64]  # [K, 3]: column, row, depth
Positions = NDArray[np.float64]  # [K, 3]
_AGREES = 0.05  # by how much a point's depth may differ from what the frame before saw there


class Before(NamedTuple):
    """The last view, and what the next frame looks for in it."""

    view: View
    camera: Camera  # at the network's resolution
    points: Array  # of the world, [H, W, 3]


class ColmapSink:
    """Writes `cameras`, `images` and `points3D` into a folder, frame by frame."""

    def __init__(
        self,
        folder: str | Path,
        *,
        binary: bool = True,
        points_per_frame: int = 200,
        least_confidence: float = 1.5,
        keep: Filter | None = None,
        names: str = "{index:06d}.png",
        overwrite: bool = False,
    ) -> None:
        self._keep = keep
        self._folder, self._binary, self._overwrite = Path(folder), binary, overwrite
        self._points_per_frame, self._least_confidence, self._names = points_per_frame, least_confidence, names
        self.needs = _NEEDS | (frozenset[str]() if keep is None else keep.needs)
        self._points = 0
        self._files: ModelFiles | None = None
        self._before: Before | None = None
        self._mark: Mark | None = None

    def __enter__(self) -> Self:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{self._folder} cannot be made ({error.strerror}); name another folder.") from error
        kind = BinaryFiles if self._binary else TextFiles
        if self._mark is None:
            self._files = kind.begin(self._folder, overwrite=self._overwrite)
        else:
            self._points, self._before = self._mark.numbers["points"], _before_from(self._mark)
            last = None if self._before is None else self._before.view
            self._files = kind.go_on(self._folder, self._mark.numbers, last)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._files is not None:
            self._files.close()
        self._files = self._before = None

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        files = self._open()
        camera = asked_for(prediction.camera, "camera", self)
        view = View(prediction.index + 1, self._names.format(index=prediction.index), camera.original)
        found = self._observe(view, prediction, image)
        files.add(found, None if self._before is None else self._before.view, view)
        self._before = Before(view, camera, asked_for(prediction.points_world, "points_world", self))

    def mark(self) -> Mark:
        return _mark_of(self._open().mark() | {"points": self._points}, self._before)

    def resume(self, mark: Mark) -> None:
        self._mark = mark

    def _open(self) -> ModelFiles:
        if self._files is None:
            raise not_open(self._folder)
        return self._files

    def _observe(self, view: View, prediction: Prediction, image: Image | None) -> list[Point]:
        """Points of this frame; those that the frame before saw as well get a track of two."""
        points = asked_for(prediction.points_world, "points_world", self)
        confidence = asked_for(prediction.confidence_world, "confidence_world", self)
        kept = (confidence >= self._least_confidence) & np.isfinite(points).all(-1)
        if self._keep is not None:
            kept &= self._keep(prediction, image)
        good = np.flatnonzero(kept.ravel())
        count = min(self._points_per_frame, len(good))
        chosen = np.sort(np.random.default_rng(prediction.index).choice(good, count, replace=False))
        positions = points.reshape(-1, 3)[chosen].astype(np.float64)
        pixels, before = project(view.camera, positions), self._seen_before(positions)
        found: list[Point] = []
        for place in np.flatnonzero(_inside(view.camera, pixels)).tolist():  # elsewhere world head and pose disagree
            self._points += 1
            x, y, _ = pixels[place].tolist()
            earlier = self._note_before(before[place].tolist(), self._points)
            track = (*earlier, (view.number, len(view.seen)))
            view.seen.append((x + 0.5, y + 0.5, self._points))
            found.append(Point(self._points, positions[place], _colour(image, x, y), track))
        return found

    def _seen_before(self, positions: Positions) -> Pixels:
        """Where the original picture of the frame before shows these points (column, row, depth); NaN where it does
        not, or something else stands there."""
        if self._before is None:
            return np.full(positions.shape, np.nan)
        view, camera, points = self._before
        there = project(camera, positions)
        near = np.flatnonzero(_inside(camera, there))
        column, row, depth = there[near].T
        nearest = points[np.rint(row).astype(int), np.rint(column).astype(int)].astype(np.float64)
        agrees = np.abs(project(camera, nearest)[:, 2] - depth) <= _AGREES * depth
        seen = np.full(positions.shape, np.nan)
        seen[near[agrees]] = project(view.camera, positions[near[agrees]])
        return seen

    def _note_before(self, pixel: list[float], number: int) -> tuple[tuple[int, int], ...]:
        """The observation of a point by the frame before, which gets it; nothing where it has none."""
        if self._before is None or np.isnan(pixel[2]):
            return ()
        view = self._before.view
        view.seen.append((pixel[0] + 0.5, pixel[1] + 0.5, number))
        return ((view.number, len(view.seen) - 1),)


def project(camera: Camera, points: Positions) -> Pixels:
    """World points [K, 3] -> where each is seen, with pixel centres at integers; NaN behind it."""
    in_camera = apply(inverse(camera.T_world_camera), points)
    depth = np.where(in_camera[:, 2] > 0, in_camera[:, 2], np.nan)
    return np.column_stack(((in_camera @ camera.intrinsics.T / depth[:, None])[:, :2], depth))


def _inside(camera: Camera, pixels: Pixels) -> NDArray[np.bool_]:  # [K, 3] -> [K]
    column, row, _ = pixels.T
    return (column >= -0.5) & (column < camera.width - 0.5) & (row >= -0.5) & (row < camera.height - 0.5)


def _colour(image: Image | None, x: float, y: float) -> tuple[int, int, int]:
    if image is None:
        return 128, 128, 128
    row, column = min(max(round(y), 0), image.shape[0] - 1), min(max(round(x), 0), image.shape[1] - 1)
    red, green, blue = image[row, column].tolist()
    return red, green, blue


def _mark_of(numbers: dict[str, Any], before: Before | None) -> Mark:
    if before is None:
        return Mark(numbers)
    view, camera, points = before
    crop = None if camera.crop is None else dataclasses.asdict(camera.crop)
    numbers |= {"view": view.number, "name": view.name, "size": [camera.width, camera.height], "crop": crop}
    arrays = {"intrinsics": camera.intrinsics, "T_world_camera": camera.T_world_camera, "points_world": points}
    return Mark(numbers, arrays | {"seen": np.array(view.seen, np.float64).reshape(-1, 3)})


def _before_from(mark: Mark) -> Before | None:
    """The inverse of `_mark_of`."""
    if "view" not in mark.numbers:
        return None
    (width, height), crop = mark.numbers["size"], mark.numbers["crop"]
    cut = None if crop is None else Crop(**{name: _pair(value) for name, value in crop.items()})
    camera = Camera(mark.arrays["intrinsics"], width, height, mark.arrays["T_world_camera"], cut)
    seen = [(float(x), float(y), int(point)) for x, y, point in mark.arrays["seen"]]
    view = View(mark.numbers["view"], mark.numbers["name"], camera.original, seen)
    return Before(view, camera, mark.arrays["points_world"])


def _pair(value: Any) -> Any:
    """JSON knows no tuples."""
    return tuple(value) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
