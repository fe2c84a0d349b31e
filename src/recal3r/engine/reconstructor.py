"""Frames in, predictions out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recal3r.engine.health import Limits, Past, examined, limits_of, readings, told_to_the_log
from recal3r.engine.outputs import checked_outputs, heads_for, poses_of, predictions
from recal3r.engine.segments import chain, ends_segment
from recal3r.engine.session import Session, StreamPlace
from recal3r.engine.snapshot import load_session, read_header, save_session
from recal3r.engine.step import PROBES, Outcome, step
from recal3r.errors import ImageError, SessionError, StreamError
from recal3r.geometry.camera import ray_map
from recal3r.geometry.pose import inverse
from recal3r.model.cut3r import Cut3r, View
from recal3r.model.heads import Head
from recal3r.model.preprocess import AsItComes, Size, checked, cut, normalised, plan_for
from recal3r.rules.base import UpdateRule
from recal3r.rules.registry import describe, get_rule
from recal3r.types import Array, Camera, Frame, Image, Prediction

DEFAULT_OUTPUTS = (
    "pose",
    "camera",
    "depth",
    "points_camera",
    "confidence_camera",
    "points_world",
    "confidence_world",
    "learning_rate",
)


class Reconstructor:
    """A network, an update rule, and the session that one stream (or a batch of them) runs in.

    outputs: what predictions hold; what is not named is not computed.
    size: "auto" (what the network was trained for, keeping the picture), "paper" (as the original programs cut it),
        a long side in pixels, or None: as it comes.
    reset_interval: begin a new segment every so many frames. The last frame of each is shown again as the first of
        the next, and poses are chained.
    streams: how many independent streams `push_batch` carries side by side.
    fast: False computes the rule's statistics by their definition, from attention maps: slower, the same numbers.
    health: the limits beyond which a prediction's `health` says that the stream is unwell; None watches nothing but
        that numbers are finite. A frame whose numbers are not is never written, and `health.finite` is False.
    """

    def __init__(
        self,
        model: Cut3r,
        rule: str | UpdateRule[Any] = "recal3r",
        outputs: Iterable[str] = DEFAULT_OUTPUTS,
        size: Size = "auto",
        *,
        reset_interval: int | None = None,
        streams: int = 1,
        fast: bool = True,
        health: Limits | Mapping[str, Any] | str | None = Limits(),  # noqa: B008  # frozen
    ) -> None:
        if reset_interval is not None and (isinstance(reset_interval, bool) or reset_interval < 2):
            raise StreamError(f"reset_interval={reset_interval!r} must be at least 2 frames, or None for never.")
        if streams < 1:
            raise StreamError(f"streams={streams} must be at least 1.")
        if fast not in (True, False):  # as in a session that somebody made
            raise StreamError(f"fast={fast!r} must be True or False.")
        self.model = model
        self.rule = get_rule(rule)
        self.outputs = checked_outputs(outputs)
        self.size: Size = size
        self.reset_interval = reset_interval
        self.fast = fast
        self.health = limits_of(health)
        self._plan = plan_for(size, model.config)
        with torch.inference_mode():
            self.session = Session.fresh(model, streams)

    # -- frames ------------------------------------------------------------------------------------------------------

    def push(self, image: Image | Frame, *, update: bool = True, camera: Camera | None = None) -> Prediction:
        """The next frame of the stream. With `update=False` it is read but not written.

        `camera`, where it is known, is shown to the network beside the picture (as rays); its size is the network's.
        """
        return self.push_batch([image], update=[update], cameras=None if camera is None else [camera])[0]

    @torch.inference_mode()
    def push_batch(
        self,
        images: Sequence[Image | Frame],
        *,
        update: bool | Sequence[bool] = True,
        cameras: Sequence[Camera] | None = None,
    ) -> list[Prediction]:
        """The next frame of every stream, all of one size."""
        streams = len(self.session.places)
        write = [update] * streams if isinstance(update, bool) else list(update)
        if not len(images) == len(write) == streams or (cameras is not None and len(cameras) != streams):
            raise StreamError(
                f"{len(images)} images were given; this reconstructor takes one for each of {streams} streams."
            )
        frames = [image if isinstance(image, Frame) else Frame(image) for image in images]
        pictures = [checked(frame.image) for frame in frames]
        windows = [self._plan.window(picture.shape[1], picture.shape[0]) for picture in pictures]
        if len({(window.width, window.height) for window in windows}) > 1:
            raise ImageError("The images of a batch have different sizes; push streams of different sizes one by one.")

        cuts = [cut(picture, window) for picture, window in zip(pictures, windows, strict=True)]
        view = View(normalised(cuts, self.model.state_dtype, self.model.device), self._rays(cameras))
        bases = [place.T_world_segment for place in self.session.places]
        outcome = self._step(view, write)
        found = readings(self.session, outcome, self.health)
        written = [asked and sound for asked, (sound, *_) in zip(write, found, strict=True)]
        indices = self._count(written)
        self._end_segments(view, outcome, written)
        given = predictions(
            outcome,
            self.outputs,
            windows=windows,
            T_world_segments=bases,
            indices=indices,
            timestamps=[frame.timestamp for frame in frames],
            known=[frame.intrinsics for frame in frames],
        )
        return [self._examined(*of_a_stream) for of_a_stream in zip(self.session.places, found, given, strict=True)]

    @torch.inference_mode()
    def query(self, camera: Camera) -> Prediction:
        """What a camera would see that was never there, at the camera's own size. Writes nothing."""
        if len(self.session.places) != 1:
            raise StreamError("A query needs a reconstructor of one stream; fork it with stream=i first.")
        place = self.session.places[0]
        view = View(ray_map=self._rays([camera]))
        window = AsItComes().window(camera.width, camera.height)
        outcome = self._step(view, [False])
        return predictions(
            outcome,
            self.outputs,
            windows=[window],
            T_world_segments=[place.T_world_segment],
            indices=[place.frames],
            timestamps=[None],
            known=[None],
        )[0]

    def stream(self, frames: Iterable[Image | Frame]) -> Iterator[Prediction]:
        """A prediction for each frame, as soon as it is there."""
        for frame in frames:
            yield self.push(frame)

    def reset(self, stream: int | None = None) -> None:
        """Forgets everything: the next frame is the first of a new stream, in a world of its own."""
        streams = range(len(self.session.places))
        if stream is not None and stream not in streams:
            raise StreamError(f"There is no stream {stream} to reset; there are {len(streams)}, counted from 0.")
        for i in streams if stream is None else (stream,):
            self.session.begin_segment(i, np.eye(4))
            self.session.places[i].frames, self.session.places[i].past = 0, Past()

    # -- sessions ----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Everything needed to go on later, bit for bit, but for the weights."""
        settings = {
            "rule": describe(self.rule),
            "outputs": self.outputs,
            "size": self.size,
            "reset_interval": self.reset_interval,
            "fast": self.fast,
            "health": None if self.health is None else dataclasses.asdict(self.health),
        }
        save_session(Path(path), self.session, self.model, settings)

    @classmethod
    def load(cls, path: str | Path, model: Cut3r) -> Reconstructor:
        """The reconstructor that was saved, on the same weights."""
        path = Path(path)
        try:
            reconstructor = cls(model, **read_header(path)["settings"])
        except (KeyError, TypeError, ValueError) as error:
            raise SessionError(f"{path} was run with settings that make no sense; save it again.") from error
        reconstructor.session = load_session(path, model, reconstructor.rule.memory_type)
        return reconstructor

    def fork(self, rule: str | UpdateRule[Any] | None = None) -> Reconstructor:
        """An independent twin, which may go on under another rule."""
        twin = Reconstructor(
            self.model,
            self.rule if rule is None else rule,
            self.outputs,
            self.size,
            reset_interval=self.reset_interval,
            streams=len(self.session.places),
            fast=self.fast,
            health=self.health,
        )
        twin.session = self.session.fork()
        if twin.rule != self.rule:
            twin.session.rule_memory = None
        return twin

    # -- inside ------------------------------------------------------------------------------------------------------

    def _step(self, view: View, write: Sequence[bool]) -> Outcome:
        wanted = heads_for(self.outputs) | (heads_for(["pose"]) if self.reset_interval else frozenset[Head]())
        return step(
            self.model,
            self.rule,
            self.session,
            view,
            wanted=wanted,
            write=write,
            probe_kind=PROBES[self.fast],
            reliability="reliability" in self.outputs,
        )

    def _rays(self, cameras: Sequence[Camera] | None) -> torch.Tensor | None:  # [B, 6, H, W]
        """Cameras in the frame of the segment's first one, as the network knows them."""
        if cameras is None:
            return None
        maps = [
            ray_map(_moved(camera, inverse(place.T_world_segment)))
            for camera, place in zip(cameras, self.session.places, strict=True)
        ]
        return torch.from_numpy(np.stack(maps)).to(self.model.device, self.model.state_dtype).permute(0, 3, 1, 2)

    def _count(self, write: Sequence[bool]) -> list[int]:
        """The index of this frame in every stream."""
        for place, written in zip(self.session.places, write, strict=True):
            place.frames += 1
            place.segment_frames += written
        return [place.frames - 1 for place in self.session.places]

    def _examined(self, place: StreamPlace, reading: tuple[bool, float, float], given: Prediction) -> Prediction:
        place.past, health = examined(place.past, self.health, reading, given)
        told_to_the_log(given.index, health, place.past)
        return dataclasses.replace(given, health=health)

    def _end_segments(self, view: View, outcome: Outcome, write: Sequence[bool]) -> None:
        ends = [
            written and ends_segment(self.session, stream, self.reset_interval) for stream, written in enumerate(write)
        ]
        poses = poses_of(outcome) if any(ends) else None
        if poses is None:
            return
        # A pose that is none would make all that follow it none; the next frame ends the segment instead.
        ends = [ended and bool(np.isfinite(pose).all()) for ended, pose in zip(ends, poses, strict=True)]
        for stream, ended in enumerate(ends):
            if ended:
                chain(self.session, stream, poses[stream])
        if any(ends):
            step(self.model, self.rule, self.session, view, wanted=frozenset(), write=ends)  # seen again, as the first


def _moved(camera: Camera, T: Array) -> Camera:
    return Camera(camera.intrinsics, camera.width, camera.height, T @ camera.T_world_camera, camera.crop)
