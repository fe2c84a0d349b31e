"""A COLMAP model, as text or binary: a pinhole camera for each frame, poses, and sampled points with tracks.

COLMAP's poses go from world to camera, its quaternions are wxyz, and its pixel centres lie at halves: (0.5, 0.5) is the
centre of the first pixel. Cameras are at the resolution the pictures came in, so that they fit the pictures on disk.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import OutputError
from recal3r.geometry.pose import apply, inverse, quaternion_from_rotation
from recal3r.sinks.base import asked_for
from recal3r.sinks.filters import Filter
from recal3r.types import Camera, Image, Prediction

PINHOLE = 1  # COLMAP's number for the model with fx, fy, cx, cy
_AGREES = 0.05  # by how much a point's depth may differ from what the frame before saw there


@dataclass(frozen=True)
class Point:
    """A scene point, its colour, and where it was seen: (image, which of the image's observations)."""

    number: int
    position: NDArray[np.float64]  # [3]
    colour: tuple[int, int, int]
    track: tuple[tuple[int, int], ...]


@dataclass
class View:
    """An image on its way to the disk: the next frame may still find points of its own in it."""

    number: int
    name: str
    camera: Camera  # at the original resolution
    seen: list[tuple[float, float, int]] = field(default_factory=list[tuple[float, float, int]])  # x, y, point

    @property
    def parameters(self) -> tuple[float, float, float, float]:
        k = self.camera.intrinsics
        return float(k[0, 0]), float(k[1, 1]), float(k[0, 2]) + 0.5, float(k[1, 2]) + 0.5

    @property
    def motion(self) -> tuple[float, ...]:
        """qw qx qy qz tx ty tz, from world to camera."""
        T_camera_world = inverse(self.camera.T_world_camera)
        return (*quaternion_from_rotation(T_camera_world[:3, :3]).tolist(), *T_camera_world[:3, 3].tolist())


class Writer(Protocol):
    def view(self, view: View) -> None: ...
    def point(self, point: Point) -> None: ...
    def close(self) -> None: ...


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
        self._points = 0
        self._writer: Writer | None = None
        self._before: tuple[View, Prediction] | None = None

    def __enter__(self) -> Self:
        suffix = "bin" if self._binary else "txt"
        paths = [self._folder / f"{part}.{suffix}" for part in ("cameras", "images", "points3D")]
        taken = next((path for path in paths if path.exists()), None)
        if taken is not None and not self._overwrite:
            raise OutputError(f"{taken} exists already; name a new folder, or ask to overwrite it.")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._writer = (BinaryWriter if self._binary else TextWriter)(*paths)
        except OSError as error:
            raise OutputError(f"{self._folder} cannot be written ({error.strerror}); name another folder.") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        writer = self._open_writer()
        if self._before is not None:
            writer.view(self._before[0])
        writer.close()
        self._writer = self._before = None

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        writer = self._open_writer()
        if prediction.camera is None:
            raise OutputError(
                "ColmapSink needs 'camera', which the reconstructor was not asked for; add it to outputs."
            )
        view = View(prediction.index + 1, self._names.format(index=prediction.index), prediction.camera.original)
        for point in self._observe(view, prediction, image):
            writer.point(point)
        if self._before is not None:
            writer.view(self._before[0])
        self._before = view, prediction

    def _open_writer(self) -> Writer:
        if self._writer is None:
            raise OutputError(f"{self._folder} is not open; write inside a `with` block.")
        return self._writer

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
        pixels = project(view.camera, positions)
        found: list[Point] = []
        for position, (x, y, z) in zip(positions, pixels, strict=True):
            if not (z > 0 and -0.5 <= x < view.camera.width - 0.5 and -0.5 <= y < view.camera.height - 0.5):
                continue  # the world head and the pose disagree about it
            self._points += 1
            track = (*self._seen_before(position, self._points), (view.number, len(view.seen)))
            view.seen.append((x + 0.5, y + 0.5, self._points))
            found.append(Point(self._points, position, _colour(image, x, y), track))
        return found

    def _seen_before(self, position: NDArray[np.float64], number: int) -> tuple[tuple[int, int], ...]:
        if self._before is None:
            return ()
        view, prediction = self._before
        camera, points = prediction.camera, prediction.points_world
        if camera is None or points is None:
            return ()
        column, row, depth = project(camera, position[None])[0]
        if not (depth > 0 and 0 <= round(column) < camera.width and 0 <= round(row) < camera.height):
            return ()
        there = project(camera, points[round(row), round(column)][None].astype(np.float64))[0][2]
        if not abs(there - depth) <= _AGREES * depth:
            return ()
        x, y, _ = project(view.camera, position[None])[0]
        view.seen.append((x + 0.5, y + 0.5, number))
        return ((view.number, len(view.seen) - 1),)


def project(camera: Camera, points: NDArray[np.float64]) -> list[tuple[float, float, float]]:
    """World points [K, 3] -> (column, row, depth) of each, with pixel centres at integers."""
    in_camera = apply(inverse(camera.T_world_camera), points)
    depth = np.where(in_camera[:, 2] > 0, in_camera[:, 2], np.nan)
    pixels = in_camera @ camera.intrinsics.T / depth[:, None]
    return [(float(x), float(y), float(z)) for (x, y, _), z in zip(pixels, depth, strict=True)]


def _colour(image: Image | None, x: float, y: float) -> tuple[int, int, int]:
    if image is None:
        return 128, 128, 128
    row, column = min(max(round(y), 0), image.shape[0] - 1), min(max(round(x), 0), image.shape[1] - 1)
    red, green, blue = image[row, column].tolist()
    return red, green, blue


class TextWriter:
    """cameras.txt, images.txt, points3D.txt."""

    def __init__(self, cameras: Path, images: Path, points: Path) -> None:
        self._files = [path.open("w", encoding="utf-8", buffering=1) for path in (cameras, images, points)]
        headers = (
            "# CAMERA_ID, MODEL, WIDTH, HEIGHT, FX, FY, CX, CY",
            "# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME\n# POINTS2D[] as (X, Y, POINT3D_ID)",
            "# POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)",
        )
        for file, header in zip(self._files, headers, strict=True):
            file.write(header + "\n")

    def view(self, view: View) -> None:
        cameras, images, _ = self._files
        size = f"{view.camera.width} {view.camera.height}"
        cameras.write(f"{view.number} PINHOLE {size} {_text(view.parameters)}\n")
        seen = " ".join(f"{x:.6f} {y:.6f} {point}" for x, y, point in view.seen)
        images.write(f"{view.number} {_text(view.motion)} {view.number} {view.name}\n{seen}\n")

    def point(self, point: Point) -> None:
        track = " ".join(f"{image} {index}" for image, index in point.track)
        colour = " ".join(map(str, point.colour))
        self._files[2].write(f"{point.number} {_text(point.position.tolist())} {colour} 0 {track}\n")

    def close(self) -> None:
        for file in self._files:
            file.close()


def _text(numbers: tuple[float, ...] | list[float]) -> str:
    return " ".join(f"{number:.12g}" for number in numbers)


class BinaryWriter:
    """cameras.bin, images.bin, points3D.bin: each begins with how many entries it has, kept up to date."""

    def __init__(self, cameras: Path, images: Path, points: Path) -> None:
        self._files = [path.open("wb") for path in (cameras, images, points)]
        self._counts = [0, 0, 0]
        for file in self._files:
            file.write(struct.pack("<Q", 0))

    def view(self, view: View) -> None:
        size = (view.camera.width, view.camera.height)
        self._add(0, struct.pack("<IiQQ4d", view.number, PINHOLE, *size, *view.parameters))
        seen = b"".join(struct.pack("<ddQ", *one) for one in view.seen)
        head = struct.pack("<I7dI", view.number, *view.motion, view.number)
        self._add(1, head + view.name.encode() + b"\0" + struct.pack("<Q", len(view.seen)) + seen)

    def point(self, point: Point) -> None:
        track = b"".join(struct.pack("<II", *one) for one in point.track)
        head = struct.pack("<Q3d3BdQ", point.number, *point.position, *point.colour, 0.0, len(point.track))
        self._add(2, head + track)

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _add(self, which: int, entry: bytes) -> None:
        file: BinaryIO = self._files[which]
        file.write(entry)
        self._counts[which] += 1
        end = file.tell()
        file.seek(0)
        file.write(struct.pack("<Q", self._counts[which]))
        file.seek(end)
