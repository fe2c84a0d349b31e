"""Clips on disk, and what is cut out of them.

B clips side by side · T frames · H, W pixels
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recal3r.geometry.pose import inverse
from recal3r.sources.synthetic import Effects, Shards, Training, WorldConfig, open_shards, write_shards
from recal3r.sources.synthetic.world import Split
from recal3r.train.recipe import TrainError

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
_TORCH = {"uint8": torch.uint8, "float16": torch.float16, "float32": torch.float32}
_CLIPS_AT_ONCE = 64
LARGEST_GAP = 3  # frames between the two pictures of a pair; beyond that too little is seen in both


def render(path: Path, split: Split, clips: int, frames: int, width: int, *, workers: int = 1, first: int = 0) -> None:
    """Clips of rooms of a split, from seed `first` on, as networks of ours are trained and judged on."""
    config = WorldConfig(trajectory=Training(), effects=Effects(noise=2.0))
    write_shards(path, split, clips, frames, (width, 3 * width // 4), config=config, workers=workers, first=first)


class Takes(NamedTuple):
    """B pieces of film of T frames, in the world of each stream's first camera."""

    images: Tensor  # [B, T, 3, H, W] in [-1, 1]
    depth: Tensor  # [B, T, H, W] metres
    poses: Tensor  # [B, T, 4, 4] T_first_camera
    intrinsics: Tensor  # [B, 3, 3]


class Footage(ABC):
    """Clips as one row of them, all of one length and size."""

    clips: int
    length: int

    @abstractmethod
    def cut(self, clips: Indices, frames: Indices, firsts: Indices) -> Takes:
        """Frames [B, T] of clips [B], with poses relative to the frames `firsts` [B]."""

    def pairs(self, rng: np.random.Generator, batch: int) -> Takes:
        """Two frames each, 1 to LARGEST_GAP apart, in either order of time."""
        gaps = rng.integers(1, min(LARGEST_GAP, self.length - 1) + 1, batch)
        early = rng.integers(0, self.length - gaps)
        frames = np.stack((early, early + gaps), axis=1)
        backwards = rng.random(batch) < 0.5
        frames[backwards] = frames[backwards, ::-1]
        return self.cut(rng.integers(0, self.clips, batch), frames, frames[:, 0])


class MappedFootage(Footage):
    """Clips on disk, of which only what is cut is read."""

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

    def _find(self, clip: int) -> tuple[Shards, int]:
        for shard, count in zip(self.shards, self.counts, strict=True):
            if clip < count:
                return shard, clip
            clip -= count
        raise TrainError(f"Clip {clip + self.clips} was asked for; there are {self.clips}.")


class ResidentFootage(Footage):
    """The same clips in the memory of an accelerator, which need not wait for the disk: 62 kB a frame of 128×96."""

    def __init__(self, shards: Sequence[Shards], device: torch.device) -> None:
        mapped = MappedFootage(shards)
        self.clips, self.length = mapped.clips, mapped.length
        self.device = device

        def together(arrays: Sequence[NDArray[Any]]) -> Tensor:
            whole = torch.empty((self.clips, *arrays[0].shape[1:]), dtype=_TORCH[arrays[0].dtype.name], device=device)
            at = 0
            for array in arrays:
                for k in range(0, len(array), _CLIPS_AT_ONCE):
                    some = torch.from_numpy(np.array(array[k : k + _CLIPS_AT_ONCE]))
                    whole[at : at + len(some)] = some
                    at += len(some)
            return whole

        self.images = together([shard.images for shard in shards])
        self.depth = together([shard.depth for shard in shards])
        self.poses = together([shard.poses for shard in shards])
        self.intrinsics = together([shard.intrinsics for shard in shards])

    def cut(self, clips: Indices, frames: Indices, firsts: Indices) -> Takes:
        clip, frame, first = (torch.from_numpy(index).to(self.device) for index in (clips, frames.copy(), firsts))
        world = self.poses[clip[:, None], frame].double()
        start = self.poses[clip, first].double()
        return Takes(
            self.images[clip[:, None], frame].movedim(-1, 2).float() / 127.5 - 1.0,
            self.depth[clip[:, None], frame].float(),
            (torch.linalg.inv(start)[:, None] @ world).float(),
            self.intrinsics[clip],
        )


def open_footage(folder: Path, prefix: str, device: torch.device | None = None, now: Footage | None = None) -> Footage:
    """All shard folders below `folder` whose names begin with `prefix`. An accelerator, if one is named, holds them.

    `now`, if that is what lies there still, is returned as it is.
    """
    paths = sorted(path for path in folder.glob(f"{prefix}*") if path.is_dir())
    if not paths:
        raise TrainError(f"{folder} has no folder named {prefix}*; write clips there with `recal3r train --render`.")
    shards = [open_shards(path) for path in paths]
    if now is not None and now.clips == sum(len(shard.seeds) for shard in shards):
        return now
    if device is None or device.type == "cpu":
        return MappedFootage(shards)
    return ResidentFootage(shards, device)


class Reels:
    """B streams that never end: each runs through a piece of a clip, in either direction, then through another's.

    `horizons`: how long a piece may be; each is as likely as the others.
    """

    def __init__(
        self, footage: Footage, batch: int, horizons: Sequence[int], window: int, rng: np.random.Generator
    ) -> None:
        if max(horizons) > footage.length:
            raise TrainError(f"Streams of {max(horizons)} frames need longer clips than {footage.length} frames.")
        self.footage, self.horizons, self.window = footage, np.array(horizons), window
        self.clip, self.first, self.direction, self.length = np.zeros((4, batch), np.int64)
        self.position = np.zeros(batch, np.int64)
        self._begin(self.position == 0, rng)

    def next(self, rng: np.random.Generator) -> tuple[Flags, Takes]:
        """Which streams begin anew [B], and the next `window` frames of all."""
        self._begin(self.position >= self.length, rng)
        steps = self.position[:, None] + np.arange(self.window)
        takes = self.footage.cut(self.clip, self.first[:, None] + self.direction[:, None] * steps, self.first)
        starts = self.position == 0
        self.position = self.position + self.window
        return starts, takes

    def _begin(self, who: Flags, rng: np.random.Generator) -> None:
        count = int(who.sum())
        length = rng.choice(self.horizons, count)
        offset = rng.integers(0, self.footage.length - length + 1)
        backwards = rng.random(count) < 0.5
        self.clip[who] = rng.integers(0, self.footage.clips, count)
        self.first[who] = np.where(backwards, self.footage.length - 1 - offset, offset)
        self.direction[who] = np.where(backwards, -1, 1)
        self.length[who], self.position[who] = length, 0

    def to_json(self) -> str:
        return json.dumps({name: getattr(self, name).tolist() for name in self._ROWS})

    def restore(self, text: str) -> None:
        for name, values in json.loads(text).items():
            setattr(self, name, np.array(values, np.int64))

    _ROWS = ("clip", "first", "direction", "length", "position")
