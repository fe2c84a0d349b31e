"""A walk through a made-up room whose truth takes the place of a network's predictions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from recal3r.geometry.pose import inverse
from recal3r.sinks.frames import FramesSink
from recal3r.sources.synthetic import Looping, SyntheticFrame, SyntheticWorld, WorldConfig
from recal3r.types import Camera, Prediction

WIDTH, HEIGHT = 96, 72


def walk(frames: int, seed: int = 3) -> list[SyntheticFrame]:
    config = WorldConfig(width=WIDTH, height=HEIGHT, trajectory=Looping(step=0.12))
    return list(SyntheticWorld(seed, config).frames(frames))


def truth(frame: SyntheticFrame, first: SyntheticFrame, *, reliable: bool = True) -> Prediction:
    """As a perfect network would predict: the world is the first camera's; what is near is sure and reliable."""
    T_world_camera = inverse(first.T_world_camera) @ frame.T_world_camera
    return Prediction(
        index=frame.index,
        timestamp=frame.timestamp,
        T_world_camera=T_world_camera,
        camera=Camera(frame.intrinsics, frame.depth.shape[1], frame.depth.shape[0], T_world_camera),
        depth=frame.depth,
        confidence_camera=1 + 2 / np.maximum(frame.depth, 0.2),
        reliability=np.exp(-frame.depth) if reliable else None,
    )


def write_run(folder: Path, frames: list[SyntheticFrame], *, reliable: bool = True, complete: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with FramesSink(folder / "frames") as sink:
        for frame in frames:
            sink.write(truth(frame, frames[0], reliable=reliable), frame.image)
    (folder / "run.json").write_text(json.dumps({"complete": complete}))
    return folder
