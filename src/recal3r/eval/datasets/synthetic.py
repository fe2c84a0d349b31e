"""The synthetic world: ROOT is a folder of clips (`recal3r data prepare synthetic`), memory-mapped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from recal3r.errors import Recal3rError
from recal3r.eval.datasets.base import About, DatasetError, Sequence, Shot, missing
from recal3r.sources.synthetic import Shards, open_shards
from recal3r.types import Array, Image


@dataclass(frozen=True)
class Synthetic:
    name: ClassVar[str] = "synthetic"
    about: ClassVar[About] = About(
        "the synthetic world",
        "ROOT/{header.json, images.npy, depth.npy, poses.npy, intrinsics.npy, seeds.npy}",
        "`recal3r data prepare synthetic`, which renders it",
    )
    root: Path

    def names(self) -> tuple[str, ...]:
        return tuple(f"scene-{number:03d}" for number in range(len(self._shards().seeds)))

    def open(self, name: str) -> Sequence:
        shards = self._shards()
        if name not in self.names():
            raise DatasetError(f"{self.root} has no {name!r}; it has scene-000 to {self.names()[-1]}.")
        clip = int(name.removeprefix("scene-"))
        origin = f"{shards.header['world']}/{shards.seeds[clip]}"
        shots = (
            Shot(
                f"{k:06d}",
                partial(_image, shards, clip, k),
                partial(_depth, shards, clip, k),
                shards.poses[clip, k].astype(np.float64),
                partial(_camera, shards, clip),
                timestamp=k / float(shards.header["world"]["frame_rate"]),
                content=origin,
            )
            for k in range(shards.images.shape[1])
        )
        return Sequence(name, tuple(shots))

    def _shards(self) -> Shards:
        if not self.root.is_dir():
            raise missing(self.root, type(self))
        try:
            return open_shards(self.root)
        except Recal3rError as error:
            raise DatasetError(str(error)) from error


def _image(shards: Shards, clip: int, k: int) -> Image:
    return np.array(shards.images[clip, k])


def _depth(shards: Shards, clip: int, k: int) -> Array:
    return shards.depth[clip, k].astype(np.float32)


def _camera(shards: Shards, clip: int, width: int, height: int) -> Array:
    del width, height
    return shards.intrinsics[clip].astype(np.float64)
