"""Clips on disk, and what is cut out of them.

B clips side by side · T frames · H, W pixels
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recal3r.geometry.pose import inverse
from recal3r.sources.synthetic import Shards, open_shards
from recal3r.train.recipe import TrainError

Indices = NDArray[np.int64]
LARGEST_GAP = 3  # frames between the two pictures of a pair; beyond that too little is seen in both


@dataclass(frozen=True)
class Takes:
    """B pieces of film of T frames, in the world of each stream's first camera."""

    images: Tensor  # [B, T, 3, H, W] in [-1, 1]
    depth: Tensor  # [B, T, H, W] metres
    poses: Tensor  # [B, T, 4, 4] T_first_camera
    intrinsics: Tensor  # [B, 3, 3]


class Footage:
    """Shard folders as one row of clips."""

    def __init__(self, shards: Sequence[Shards]) -> None:
        if not shards:
            raise TrainError("No folder of clips was given; write one with recal3r.sources.synthetic.write_shards.")
        if len({shard.images.shape[1:] for shard in shards}) > 1:
            raise TrainError("The folders hold clips of different lengths or sizes; give folders of one kind.")
        self.shards = tuple(shards)
        self.counts = [len(shard.images) for shard in shards]
        self.clips = sum(self.counts)
        self.length = int(shards[0].images.shape[1])

    def cut(self, clips: Indices, frames: Indices, firsts: Indices) -> Takes:
        """Frames [B, T] of clips [B], with poses relative to the frames `firsts` [B]."""
        images: list[NDArray[np.uint8]] = []
        depth: list[NDArray[np.float32]] = []
        poses: list[NDArray[np.float32]] = []
        intrinsics: list[NDArray[np.float32]] = []
        for clip, row, first in zip(clips.tolist(), frames, firsts.tolist(), strict=True):
            shard, k = self._find(clip)
            world = shard.poses[k].astype(np.float64)
            images.append(shard.images[k][row])
            depth.append(shard.depth[k][row].astype(np.float32))
            poses.append((inverse(world[first]) @ world[row]).astype(np.float32))
            intrinsics.append(shard.intrinsics[k])
        pictures = torch.from_numpy(np.stack(images)).permute(0, 1, 4, 2, 3)
        return Takes(
            pictures.float() / 127.5 - 1.0,
            torch.from_numpy(np.stack(depth)),
            torch.from_numpy(np.stack(poses)),
            torch.from_numpy(np.stack(intrinsics)),
        )

    def pairs(self, rng: np.random.Generator, batch: int) -> Takes:
        """Two frames each, 1 to LARGEST_GAP apart, in either order of time."""
        gaps = rng.integers(1, min(LARGEST_GAP, self.length - 1) + 1, batch)
        early = rng.integers(0, self.length - gaps)
        frames = np.stack((early, early + gaps), axis=1)
        backwards = rng.random(batch) < 0.5
        frames[backwards] = frames[backwards, ::-1]
        return self.cut(rng.integers(0, self.clips, batch), frames, frames[:, 0])

    def _find(self, clip: int) -> tuple[Shards, int]:
        for shard, count in zip(self.shards, self.counts, strict=True):
            if clip < count:
                return shard, clip
            clip -= count
        raise TrainError(f"Clip {clip + self.clips} was asked for; there are {self.clips}.")


def open_footage(folder: Path, prefix: str) -> Footage:
    """All shard folders below `folder` whose names begin with `prefix`."""
    paths = sorted(path for path in folder.glob(f"{prefix}*") if path.is_dir())
    if not paths:
        raise TrainError(f"{folder} has no folder named {prefix}*; write clips there with `recal3r train --render`.")
    return Footage([open_shards(path) for path in paths])


class Reels:
    """B streams that never end: each runs through `horizon` frames of a clip, in either direction, then another's.

    The first runs are of random length, so that later on any batch holds young streams and old ones.
    """

    def __init__(self, footage: Footage, batch: int, horizon: int, window: int, rng: np.random.Generator) -> None:
        if horizon > footage.length:
            raise TrainError(f"Streams of {horizon} frames need longer clips than {footage.length} frames.")
        self.footage, self.horizon, self.window = footage, horizon, window
        self.clip = np.zeros(batch, np.int64)
        self.first = np.zeros(batch, np.int64)
        self.direction = np.ones(batch, np.int64)
        self.position = np.zeros(batch, np.int64)
        self.skipped = np.zeros(batch, np.int64)
        for stream in range(batch):
            self._begin(stream, rng)
        self.position = window * rng.integers(0, horizon // window, batch)
        self.skipped = self.position.copy()  # streams cannot begin in the middle: their world starts here

    def next(self, rng: np.random.Generator) -> tuple[list[bool], Takes]:
        """Which streams begin anew, and the next `window` frames of all."""
        for stream in np.flatnonzero(self.position >= self.horizon).tolist():
            self._begin(stream, rng)
        steps = self.position[:, None] + np.arange(self.window)
        frames = self.first[:, None] + self.direction[:, None] * steps
        starts = self.position == self.skipped
        takes = self.footage.cut(self.clip, frames, self.first + self.direction * self.skipped)
        self.position = self.position + self.window
        return starts.tolist(), takes

    def _begin(self, stream: int, rng: np.random.Generator) -> None:
        offset = int(rng.integers(0, self.footage.length - self.horizon + 1))
        backwards = rng.random() < 0.5
        self.clip[stream] = rng.integers(0, self.footage.clips)
        self.first[stream] = self.footage.length - 1 - offset if backwards else offset
        self.direction[stream] = -1 if backwards else 1
        self.position[stream] = 0
        self.skipped[stream] = 0

    def to_json(self) -> str:
        names = ("clip", "first", "direction", "position", "skipped")
        return json.dumps({name: getattr(self, name).tolist() for name in names})

    def restore(self, text: str) -> None:
        for name, values in json.loads(text).items():
            setattr(self, name, np.array(values, np.int64))
