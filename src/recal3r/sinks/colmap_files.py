"""COLMAP's three files as text or binary: cameras, images and points3D, a whole model after every frame."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import OutputError
from recal3r.geometry.pose import inverse, quaternion_from_rotation
from recal3r.sinks.files import GrowingFile
from recal3r.types import Camera

PINHOLE = 1  # COLMAP's number for the model with fx, fy, cx, cy
PARTS = ("cameras", "images", "points3D")
_COUNT = struct.Struct("<Q")


@dataclass(frozen=True)
class Point:
    """A scene point, its colour, and where it was seen: (image, which of the image's observations)."""

    number: int
    position: NDArray[np.float64]  # [3]
    colour: tuple[int, int, int]
    track: tuple[tuple[int, int], ...]


@dataclass
class View:
    """An image and what is seen in it, which the next frame adds to: it may find points of its own there."""

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


class ModelFiles(ABC):
    """The three files. The last view is in them, and is written anew, with what was added to it, with the next frame.

    A frame that does not fit on the disk is taken back from all three.
    """

    suffix: ClassVar[str]

    def __init__(self, files: Sequence[GrowingFile], counts: Sequence[int]) -> None:
        self._files, self._counts = files, tuple(counts)
        self._before_last = files[1].length  # of images: where the last view begins

    @classmethod
    def begin(cls, folder: Path, *, overwrite: bool) -> Self:
        """None of the files where one is there already."""
        paths = [folder / f"{part}.{cls.suffix}" for part in PARTS]
        taken = next((path for path in paths if path.exists()), None)
        if taken is not None and not overwrite:
            raise OutputError(f"{taken} exists already; name a new folder, or ask to overwrite it.")
        files = [GrowingFile.begin(path, overwrite=overwrite) for path in paths]
        for file, head in zip(files, cls._heads((0, 0, 0)), strict=True):
            file.append(head)
        return cls(files, (0, 0, 0))

    @classmethod
    def go_on(cls, folder: Path, numbers: Mapping[str, int], last: View | None) -> Self:
        """As they were when `mark` gave these numbers, when `last` was the last view."""
        files = [GrowingFile.go_on(folder / f"{part}.{cls.suffix}", numbers[f"length of {part}"]) for part in PARTS]
        model = cls(files, [numbers[f"number of {part}"] for part in PARTS])
        if last is not None:
            model._files[1].append(cls._image(last))
        model._write_heads()
        return model

    def mark(self) -> dict[str, int]:
        """Lengths and numbers, once all has reached the disk."""
        cameras, images, points = (file.sync() for file in self._files)
        lengths = (cameras, min(images, self._before_last), points)
        named = {f"length of {part}": length for part, length in zip(PARTS, lengths, strict=True)}
        return named | {f"number of {part}": count for part, count in zip(PARTS, self._counts, strict=True)}

    def add(self, points: Sequence[Point], before: View | None, view: View) -> None:
        """A frame: its points, the view before it, which has got some of them, and its own."""
        lengths = [file.length for file in self._files]
        complete = b"" if before is None else self._image(before)
        try:
            self._files[2].append(b"".join(map(self._point, points)))
            self._files[0].append(self._camera(view))
            self._files[1].write_at(self._before_last, complete + self._image(view))
        except OutputError:
            for file, length in zip(self._files, lengths, strict=True):
                file.cut(length)
            raise
        self._before_last += len(complete)
        cameras, images, known = self._counts
        self._counts = cameras + 1, images + 1, known + len(points)
        self._write_heads()

    def close(self) -> None:
        for file in self._files:
            file.close()

    def _write_heads(self) -> None:
        for file, head in zip(self._files, self._heads(self._counts), strict=True):
            file.write_at(0, head)

    @classmethod
    @abstractmethod
    def _heads(cls, counts: Sequence[int]) -> tuple[bytes, bytes, bytes]:
        """What the files begin with, as long for any counts."""

    @classmethod
    @abstractmethod
    def _camera(cls, view: View) -> bytes: ...

    @classmethod
    @abstractmethod
    def _image(cls, view: View) -> bytes: ...

    @classmethod
    @abstractmethod
    def _point(cls, point: Point) -> bytes: ...


class TextFiles(ModelFiles):
    suffix = "txt"

    @classmethod
    def _heads(cls, counts: Sequence[int]) -> tuple[bytes, bytes, bytes]:
        del counts
        return (
            b"# CAMERA_ID, MODEL, WIDTH, HEIGHT, FX, FY, CX, CY\n",
            b"# IMAGE_ID, QW, QX, QY, QZ, TX, TY, TZ, CAMERA_ID, NAME\n# POINTS2D[] as (X, Y, POINT3D_ID)\n",
            b"# POINT3D_ID, X, Y, Z, R, G, B, ERROR, TRACK[] as (IMAGE_ID, POINT2D_IDX)\n",
        )

    @classmethod
    def _camera(cls, view: View) -> bytes:
        size = f"{view.camera.width} {view.camera.height}"
        return f"{view.number} PINHOLE {size} {_text(view.parameters)}\n".encode()

    @classmethod
    def _image(cls, view: View) -> bytes:
        seen = " ".join(f"{x:.6f} {y:.6f} {point}" for x, y, point in view.seen)
        return f"{view.number} {_text(view.motion)} {view.number} {view.name}\n{seen}\n".encode()

    @classmethod
    def _point(cls, point: Point) -> bytes:
        track = " ".join(f"{image} {index}" for image, index in point.track)
        colour = " ".join(map(str, point.colour))
        return f"{point.number} {_text(point.position.tolist())} {colour} 0 {track}\n".encode()


def _text(numbers: Sequence[float]) -> str:
    return " ".join(f"{number:.12g}" for number in numbers)


class BinaryFiles(ModelFiles):
    """Each begins with how many entries it has, which is written after them."""

    suffix = "bin"

    @classmethod
    def _heads(cls, counts: Sequence[int]) -> tuple[bytes, bytes, bytes]:
        cameras, images, points = map(_COUNT.pack, counts)
        return cameras, images, points

    @classmethod
    def _camera(cls, view: View) -> bytes:
        return struct.pack("<IiQQ4d", view.number, PINHOLE, view.camera.width, view.camera.height, *view.parameters)

    @classmethod
    def _image(cls, view: View) -> bytes:
        head = struct.pack("<I7dI", view.number, *view.motion, view.number) + view.name.encode() + b"\0"
        return head + _COUNT.pack(len(view.seen)) + b"".join(struct.pack("<ddQ", *one) for one in view.seen)

    @classmethod
    def _point(cls, point: Point) -> bytes:
        head = struct.pack("<Q3d3BdQ", point.number, *point.position, *point.colour, 0.0, len(point.track))
        return head + b"".join(struct.pack("<II", *one) for one in point.track)
