"""Sintel-style folders: ROOT/final/<sequence>/frame_0001.png, camdata_left/<sequence>/frame_0001.cam, depth/…/….dpt.

A .cam file holds a tag, K [3, 3] and T_camera_world [3, 4] (float64); a .dpt file a tag, width, height, and metres
(float32); all little-endian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recal3r.eval.datasets.base import (
    About,
    DatasetError,
    Sequence,
    Shot,
    content,
    folders_in,
    numbered,
    picture,
    require,
)
from recal3r.geometry.pose import inverse
from recal3r.types import Array

_TAG = np.float32(202021.25)


@dataclass(frozen=True)
class Sintel:
    name: ClassVar[str] = "sintel"
    about: ClassVar[About] = About(
        "Sintel",
        "ROOT/final/<sequence>/frame_0001.png, camdata_left/<sequence>/frame_0001.cam, depth/<sequence>/frame_0001.dpt",
        "http://sintel.is.tue.mpg.de (training images, and the depth and camera motion package)",
    )
    root: Path

    def names(self) -> tuple[str, ...]:
        return tuple(folder.name for folder in folders_in(self.root / "final", type(self)))

    def open(self, name: str) -> Sequence:
        colours = numbered(require(self.root / "final" / name, type(self)), r"frame_(\d+)\.png")
        cameras = numbered(require(self.root / "camdata_left" / name, type(self)), r"frame_(\d+)\.cam")
        folder = self.root / "depth" / name
        depths = numbered(folder, r"frame_(\d+)\.dpt") if folder.is_dir() else {}
        shots: list[Shot] = []
        for number, path in colours.items():
            if number in cameras:
                K, T_camera_world = read_cam(cameras[number])
                depth = partial(read_dpt, depths[number]) if number in depths else None
                T_world_camera, source = inverse(T_camera_world), content(path, self.root)
                shots.append(
                    Shot(f"{number:04d}", picture(path), depth, T_world_camera, partial(_same, K), content=source)
                )
        return Sequence(name, tuple(shots), {"without a camera": len(colours) - len(shots)})


def _same(K: Array, width: int, height: int) -> Array:
    del width, height
    return K


def read_cam(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """K [3, 3] and T_camera_world [4, 4]."""
    data = path.read_bytes()
    if len(data) != 4 + 21 * 8 or np.frombuffer(data, "<f4", 1)[0] != _TAG:
        raise DatasetError(f"{path} is no camera file of Sintel; fetch it again.")
    values = np.frombuffer(data, "<f8", offset=4)
    T_camera_world = np.vstack((values[9:].reshape(3, 4), [0, 0, 0, 1]))
    return values[:9].reshape(3, 3), T_camera_world


def read_dpt(path: Path) -> Array:
    """[H, W] metres."""
    data = path.read_bytes()
    header = np.frombuffer(data, "<i4", 3) if len(data) >= 12 else np.zeros(3, np.int32)
    width, height = int(header[1]), int(header[2])
    if (
        len(data) < 12
        or min(width, height) < 0
        or np.frombuffer(data, "<f4", 1)[0] != _TAG
        or len(data) != 12 + 4 * width * height
    ):
        raise DatasetError(f"{path} is no depth file of Sintel; fetch it again.")
    return np.frombuffer(data, "<f4", offset=12).reshape(height, width)
