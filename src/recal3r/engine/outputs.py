"""What can be asked for, which part of the network it takes, and how it becomes a `Prediction`.

B streams · H, W pixels
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, get_args

import numpy as np
from torch import Tensor

from recal3r.engine.step import Outcome
from recal3r.errors import StreamError
from recal3r.geometry.camera import focal_of, intrinsics_of
from recal3r.geometry.pose import apply, pose_from_quaternion
from recal3r.model.heads import Head
from recal3r.model.preprocess import Window
from recal3r.types import Array, Camera, Prediction

Output = Literal[
    "pose",
    "camera",
    "depth",
    "points_camera",
    "confidence_camera",
    "points_world",
    "confidence_world",
    "rgb",
    "reliability",
    "learning_rate",
]
EVERYTHING: tuple[Output, ...] = get_args(Output)

_HEADS: dict[str, frozenset[Head]] = {
    "pose": frozenset({Head.POSE}),
    "camera": frozenset({Head.POSE, Head.CAMERA}),
    "depth": frozenset({Head.CAMERA}),
    "points_camera": frozenset({Head.CAMERA}),
    "confidence_camera": frozenset({Head.CAMERA}),
    "points_world": frozenset({Head.WORLD}),
    "confidence_world": frozenset({Head.WORLD}),
    "rgb": frozenset({Head.RGB}),
    "reliability": frozenset(),
    "learning_rate": frozenset(),
}


def checked_outputs(outputs: Iterable[str]) -> tuple[str, ...]:
    names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    for name in names:
        if name not in _HEADS:
            raise StreamError(f"There is no output named {name!r}; there are {', '.join(_HEADS)}.")
    return names


def heads_for(outputs: Iterable[str]) -> frozenset[Head]:
    return frozenset[Head]().union(*(_HEADS[name] for name in outputs))


def poses_of(outcome: Outcome) -> Array | None:
    """T_segment_camera of every stream [B, 4, 4]."""
    if outcome.read.pose is None:
        return None
    pose = outcome.read.pose.detach().double().cpu().numpy()
    return pose_from_quaternion(pose[:, :3], pose[:, 3:])


def predictions(
    outcome: Outcome,
    outputs: Sequence[str],
    *,
    windows: Sequence[Window],
    T_world_segments: Sequence[Array],
    indices: Sequence[int],
    timestamps: Sequence[float | None],
    known: Sequence[Array | None],
) -> list[Prediction]:
    """One for each stream of the batch. `known`: K of the original picture, where nothing need be estimated."""
    asked, read, poses = frozenset(outputs), outcome.read, poses_of(outcome)
    focals = None if read.camera is None or "camera" not in asked else focal_of(read.camera.points).cpu().numpy()

    def one(stream: int) -> Prediction:
        T_world_segment, window = T_world_segments[stream], windows[stream]
        T_world_camera = None if poses is None else T_world_segment @ poses[stream]

        def maybe(name: str, tensor: Tensor | None) -> Array | None:
            return None if tensor is None or name not in asked else tensor[stream].detach().cpu().numpy()

        camera = None
        if focals is not None and T_world_camera is not None:
            K = known[stream]
            estimated = intrinsics_of(float(focals[stream]), window.width, window.height)
            intrinsics = estimated if K is None else np.linalg.inv(window.crop.to_original) @ K
            camera = Camera(intrinsics, window.width, window.height, T_world_camera, window.crop)
        points_world = maybe("points_world", None if read.world is None else read.world.points)
        if points_world is not None and not np.array_equal(T_world_segment, np.eye(4)):
            points_world = apply(T_world_segment, points_world).astype(points_world.dtype)
        return Prediction(
            index=indices[stream],
            timestamp=timestamps[stream],
            T_world_camera=T_world_camera if "pose" in asked else None,
            camera=camera,
            points_camera=maybe("points_camera", None if read.camera is None else read.camera.points),
            depth=maybe("depth", None if read.camera is None else read.camera.points[..., 2]),
            confidence_camera=maybe("confidence_camera", None if read.camera is None else read.camera.confidence),
            points_world=points_world,
            confidence_world=maybe("confidence_world", None if read.world is None else read.world.confidence),
            rgb=maybe("rgb", read.rgb),
            reliability=_in_pixels(maybe("reliability", outcome.reliability), window),
            learning_rate=maybe("learning_rate", outcome.rate),
            signals={
                name: signal[stream].detach().cpu().numpy()
                for name, signal in outcome.signals.items()
                if "learning_rate" in asked
            },
        )

    return [one(stream) for stream in range(len(indices))]


def _in_pixels(patches: Array | None, window: Window) -> Array | None:  # [h, w] -> [H, W]
    """Each patch's number at all of its pixels."""
    if patches is None:
        return None
    rows, columns = window.height // patches.shape[0], window.width // patches.shape[1]
    return patches.repeat(rows, axis=0).repeat(columns, axis=1)
