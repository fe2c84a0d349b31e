"""Perfect predictions of a made-up walk, for sinks to write, and the way a killed run goes on."""

from __future__ import annotations

import gc
import json
import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import safetensors.numpy

from recal3r.geometry.pose import apply
from recal3r.model.config import CUT3R_224_LINEAR, CUT3R_512_DPT, Cut3rConfig
from recal3r.model.preprocess import Size, Window, plan_for
from recal3r.sinks.base import Mark, Sink
from recal3r.sources.synthetic import SyntheticFrame, SyntheticWorld, WorldConfig
from recal3r.types import Camera, Image, Prediction

Shown = tuple[Prediction, Image]
TOKENS = 24


def walk(frames: int, width: int = 96, height: int = 72, seed: int = 3) -> list[SyntheticFrame]:
    return list(SyntheticWorld(seed, WorldConfig(width=width, height=height)).frames(frames))


def window_of(width: int, height: int, size: Size, square: bool = False, side: int = 64) -> Window:
    base = CUT3R_224_LINEAR if square else CUT3R_512_DPT
    return plan_for(size, Cut3rConfig(**{**vars(base), "image_size": side})).window(width, height)


def perfect(frame: SyntheticFrame, window: Window | None = None) -> Prediction:
    """What a network that knows everything would say, looking through `window`."""
    window = window or window_of(frame.image.shape[1], frame.image.shape[0], "auto")
    crop, (width, height) = window.crop, (window.width, window.height)
    sx, sy = crop.scale
    # x_network + ½ = s (x + ½) - left
    to_network = np.array([[sx, 0, (sx - 1) / 2 - crop.left], [0, sy, (sy - 1) / 2 - crop.top], [0, 0, 1]])
    intrinsics = to_network @ frame.intrinsics
    column, row = np.meshgrid(np.arange(width), np.arange(height))
    x, y = (column + crop.left + 0.5) / sx - 0.5, (row + crop.top + 0.5) / sy - 0.5
    depth = frame.depth[
        np.rint(y).astype(int).clip(0, frame.depth.shape[0] - 1),
        np.rint(x).astype(int).clip(0, frame.depth.shape[1] - 1),
    ]
    points_camera = (np.stack((column, row, np.ones_like(row)), -1) @ np.linalg.inv(intrinsics).T) * depth[..., None]
    rng = np.random.default_rng(frame.index)
    confidence = (1 + rng.gamma(2.0, 2.0, depth.shape)).astype(np.float32)
    return Prediction(
        frame.index,
        frame.timestamp,
        frame.T_world_camera,
        Camera(intrinsics, width, height, frame.T_world_camera, crop),
        points_camera=points_camera.astype(np.float32),
        depth=depth.astype(np.float32),
        confidence_camera=confidence,
        points_world=apply(frame.T_world_camera, points_camera).astype(np.float32),
        confidence_world=confidence,
    )


def gated(prediction: Prediction, tokens: int = TOKENS) -> Prediction:
    """With a rate and signals as `recal3r` gives them: nothing but the rate on the first frame."""
    if prediction.index == 0:
        return replace(prediction, learning_rate=np.ones(tokens, np.float32))
    rng = np.random.default_rng(prediction.index)
    names = ("alignment", "pressure", "deviation", "entropy", "reliability", "trust")
    signals = {name: rng.uniform(size=tokens).astype(np.float32) for name in names}
    signals["residual"] = rng.uniform(size=1).astype(np.float32)
    return replace(prediction, learning_rate=rng.uniform(0, 0.3, tokens).astype(np.float32), signals=signals)


def shown(frames: Iterable[SyntheticFrame], window: Window | None = None) -> list[Shown]:
    return [(gated(perfect(frame, window)), frame.image) for frame in frames]


def written(sink: Sink, pairs: Iterable[Shown]) -> None:
    with sink:
        for prediction, image in pairs:
            sink.write(prediction, image)


def through_a_file(mark: Mark) -> Mark:
    """As a checkpoint keeps it: arrays come back, but not in the order in which they went."""
    content = safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in mark.arrays.items()})
    arrays = safetensors.numpy.load(content)
    return Mark(json.loads(json.dumps(mark.numbers)), {name: arrays[name] for name in sorted(arrays, reverse=True)})


def killed(sink: Sink, pairs: Iterable[Shown], mark_at: int | None = None) -> Mark | None:
    """Writes and never closes, as a process that is killed; the mark it made before pair `mark_at`."""
    mark = None
    sink.__enter__()
    for place, (prediction, image) in enumerate(pairs):
        mark = through_a_file(sink.mark()) if place == mark_at else mark
        sink.write(prediction, image)
    return mark


def interrupted(make: Callable[[Path], Sink], path: Path, pairs: list[Shown], at: int, lost: int) -> None:
    """A run that was killed `lost` frames after the mark it made at frame `at`, and went on from there to its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # of the files that nobody closes
        mark = killed(make(path), pairs[: at + lost], at)
        gc.collect()
    assert mark is not None
    again = make(path)
    again.resume(mark)
    written(again, pairs[at:])
