"""A recording for the rerun viewer, written as frames arrive.

K points
"""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from PIL import Image as PillowImage

from recal3r.errors import OutputError
from recal3r.sinks.base import Mark, asked_for, not_open
from recal3r.sinks.cloud import CloudSink
from recal3r.sinks.depth import MILLIMETRES, millimetres
from recal3r.sinks.extra import extra_package
from recal3r.sinks.files import GrowingFile
from recal3r.sinks.filters import Filter, colours_of
from recal3r.sinks.horizon import memory_horizon
from recal3r.sinks.palette import shade
from recal3r.sinks.picture import jpeg, seen_by
from recal3r.sinks.rrd import Encoder
from recal3r.sinks.thinned import Thinned
from recal3r.types import Array, Camera, Image, Prediction

_PATH_BUDGET = 256  # positions of the trajectory that each frame shows


class RerunSink:
    """`recording.rrd`: the camera and what it saw, points, the path so far, and the gates, by `frame` and by `time`.

        world/camera            where it stands, and its lens, at the network's resolution
        world/camera/picture    JPEG
        world/camera/depth      16-bit PNG in millimetres; the viewer shows it in space as well
        world/camera/reliability   of the state's tokens behind each pixel, where the rule knows it; yellow is 1
        world/points            of this frame, `points_per_frame` at most
        world/trajectory        up to this frame
        world/cloud             all that `cloud`, a CloudSink of the same run, has fused: at the end, if it is given
        gates/...               mean, 10th and 90th percentile of β and of every signal; the memory's horizon

    recording: what the viewer tells recordings apart by; two that are called the same are shown as one.
    A killed run goes on with the same bytes. A recording that was cut off is read up to its last whole message.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        recording: str = "recal3r",
        points_per_frame: int = 2000,
        least_confidence: float = 1.5,
        keep: Filter | None = None,
        cloud: CloudSink | None = None,
        overwrite: bool = False,
    ) -> None:
        self._path, self._overwrite, self._recording = Path(path), overwrite, recording
        self._points_per_frame, self._least_confidence, self._keep = points_per_frame, least_confidence, keep
        self._cloud = cloud
        self._trajectory = Thinned(_PATH_BUDGET)
        self._frames = 0
        self._file: GrowingFile | None = None
        self._encoder: Encoder | None = None
        self._mark: Mark | None = None
        self.needs = frozenset({"camera", "depth", "points_world", "confidence_world", "learning_rate"}) | (
            frozenset[str]() if keep is None else keep.needs
        )

    def __enter__(self) -> Self:
        rerun = _rerun()
        if self._mark is None:
            self._file = GrowingFile.begin(self._path, overwrite=self._overwrite)
            self._encoder = Encoder(rerun, self._recording)
            axes = rerun.chunk.Chunk.from_columns(
                "world", [], rerun.ViewCoordinates.columns(xyz=[rerun.components.ViewCoordinates.RDF])
            )
            self._file.append(self._encoder.beginning() + self._encoder.messages([axes], 0))
        else:
            self._file = GrowingFile.go_on(self._path, self._mark.numbers["length"])
            self._encoder = Encoder(rerun, self._recording)
            self._frames = self._mark.numbers["frames"]
            self._trajectory.resume(self._mark.inside("trajectory"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        file, encoder = self._open()
        self._file = self._encoder = None
        try:
            if self._cloud is not None:
                file.append(encoder.messages([self._fused(self._cloud)], self._frames + 1))
        finally:
            encoder.close()
            file.close()

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        file, encoder = self._open()
        camera = asked_for(prediction.camera, "camera", self)
        centre = camera.T_world_camera[:3, 3].astype(np.float64)
        self._trajectory.offer(lambda: {"centre": centre})
        self._frames += 1
        rerun = _rerun()
        indexes = [rerun.TimeColumn("frame", sequence=[prediction.index])]
        if prediction.timestamp is not None:
            indexes.append(rerun.TimeColumn("time", duration=[prediction.timestamp]))
        entities = {
            "world/camera": _camera(rerun, camera),
            "world/camera/picture": _encoded(rerun, seen_by(camera, image)),
            "world/camera/depth": _depth(rerun, asked_for(prediction.depth, "depth", self)),
            "world/points": self._points(rerun, prediction, image),
            "world/trajectory": self._path_up_to(rerun, centre),
        }
        if prediction.reliability is not None:
            entities["world/camera/reliability"] = _encoded(rerun, shade(prediction.reliability))
        for name, numbers in _gates(prediction).items():
            entities[f"gates/{name}"] = rerun.Scalars.columns(scalars=numbers).partition([len(numbers)])
        chunks = [rerun.chunk.Chunk.from_columns(path, indexes, columns) for path, columns in entities.items()]
        file.append(encoder.messages(chunks, self._frames))

    def mark(self) -> Mark:
        file, _ = self._open()
        own = Mark({"length": file.sync(), "frames": self._frames})
        within = Mark.beside({"trajectory": self._trajectory.mark()})
        return Mark({**own.numbers, **within.numbers}, within.arrays)

    def resume(self, mark: Mark) -> None:
        self._mark = mark

    def _open(self) -> tuple[GrowingFile, Encoder]:
        if self._file is None or self._encoder is None:
            raise not_open(self._path)
        return self._file, self._encoder

    def _points(self, rerun: Any, prediction: Prediction, image: Image | None) -> Any:
        points = asked_for(prediction.points_world, "points_world", self)
        confidence = asked_for(prediction.confidence_world, "confidence_world", self)
        kept = (confidence >= self._least_confidence) & np.isfinite(points).all(-1)
        if self._keep is not None:
            kept &= self._keep(prediction, image)
        good = np.flatnonzero(kept)
        count = min(self._points_per_frame, len(good))
        chosen = np.sort(np.random.default_rng(prediction.index).choice(good, count, replace=False))
        colours = colours_of(image, prediction, points.shape).reshape(-1, 3)[chosen]
        return _cloud(rerun, points.reshape(-1, 3)[chosen], colours)

    def _path_up_to(self, rerun: Any, centre: Array) -> Any:
        strip = np.stack([*(moment["centre"] for moment in self._trajectory.kept), centre]).astype(np.float32)
        return rerun.LineStrips3D.columns(strips=[strip])

    def _fused(self, sink: CloudSink) -> Any:
        rerun, cloud = _rerun(), sink.voxels.cloud()
        return rerun.chunk.Chunk.from_columns("world/cloud", [], _cloud(rerun, cloud.points, cloud.colours))


def _camera(rerun: Any, camera: Camera) -> Any:
    T = camera.T_world_camera
    return [
        *rerun.Transform3D.columns(translation=[T[:3, 3]], mat3x3=[T[:3, :3]]),
        *rerun.Pinhole.columns(
            image_from_camera=[camera.intrinsics],
            resolution=[[camera.width, camera.height]],
            camera_xyz=[rerun.components.ViewCoordinates.RDF],
        ),
    ]


def _encoded(rerun: Any, picture: Image) -> Any:
    return rerun.EncodedImage.columns(blob=[jpeg(picture)], media_type=["image/jpeg"])


def _depth(rerun: Any, depth: Array) -> Any:
    content = BytesIO()
    PillowImage.fromarray(millimetres(depth)).save(content, format="PNG")
    return rerun.EncodedDepthImage.columns(blob=[content.getvalue()], media_type=["image/png"], meter=[MILLIMETRES])


def _cloud(rerun: Any, points: Array, colours: Image) -> Any:  # [K, 3], [K, 3]
    rgba = np.concatenate((colours, np.full((len(colours), 1), 255, np.uint8)), axis=1)
    packed = rgba.astype(np.uint32) @ np.array([1 << 24, 1 << 16, 1 << 8, 1], np.uint32)
    return rerun.Points3D.columns(positions=points.astype(np.float32), colors=packed).partition([len(points)])


def _gates(prediction: Prediction) -> dict[str, list[float]]:
    """What is drawn over time: of numbers per token their mean, 10th and 90th percentile."""
    if prediction.learning_rate is None:
        return {}
    gates = {"learning_rate": prediction.learning_rate, **prediction.signals}
    shown = {
        name: [float(gate.mean()), *np.quantile(gate, (0.1, 0.9)).tolist()] if gate.size > 1 else gate.tolist()
        for name, gate in gates.items()
    }
    return shown | {"horizon": [memory_horizon(prediction.learning_rate)]}


def _rerun() -> Any:
    extra_package("rerun.chunk", "rerun", RerunSink)
    rerun = extra_package("rerun", "rerun", RerunSink)
    if not hasattr(rerun, "send_chunks"):
        raise OutputError(f"RerunSink needs rerun-sdk 0.41 or newer, but {rerun.__version__} is installed; update it.")
    return rerun
