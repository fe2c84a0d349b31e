"""One page that shows how a run went: `report.html`, whole in one file, with nothing loaded from elsewhere.

H, W pixels · K points
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import numpy as np

from recal3r.errors import OutputError
from recal3r.jsontext import parsed
from recal3r.sinks.base import Mark, asked_for
from recal3r.sinks.cloud import VoxelMap
from recal3r.sinks.files import write_whole
from recal3r.sinks.filters import colours_of
from recal3r.sinks.health import Troubles
from recal3r.sinks.horizon import memory_horizon
from recal3r.sinks.palette import shade, stretched
from recal3r.sinks.picture import jpeg, seen_by, within
from recal3r.sinks.report_page import Story, page
from recal3r.sinks.thinned import Curves, Moment, Thinned
from recal3r.types import Array, Image, Prediction

_LONGEST = 240  # side of a picture in the page
_PIXELS = 4000  # of each frame that the map is made of
_SHOWN = ("source", "settings", "weights", "machine", "versions")  # of run.json


class ReportSink:
    """Written when the block ends, however it ends. What it remembers of the stream is bounded.

    about: what the page says of the run, a table of names and values, which may hold further ones. Where it is not
        given, the page says what `run.json` beside it does, if it is there.
    moments: how many pictures are shown at most: every k-th, k doubling as the stream grows.

    The page is the same for the same stream but for one element, `<script type="application/json" id="timings">`: what
    `timings.json` beside it says.
    """

    needs = frozenset({"camera", "depth", "confidence_camera", "points_world", "confidence_world", "learning_rate"})

    def __init__(
        self,
        path: str | Path,
        *,
        about: Mapping[str, object] | None = None,
        moments: int = 16,
        least_confidence: float = 1.5,
        overwrite: bool = False,
    ) -> None:
        self._path, self._overwrite, self._about = Path(path), overwrite, about
        self._least_confidence = least_confidence
        self._moments, self._path_taken = Thinned(moments), Thinned(600)
        self._curves, self._voxels = Curves(300), VoxelMap(0.02, 100_000)
        self._troubles = Troubles()
        self._walked = 0.0
        self._last: Array | None = None  # T_world_camera [4, 4]

    def __enter__(self) -> Self:
        if self._path.exists() and not self._overwrite:
            raise OutputError(f"{self._path} exists already; name a new file, or ask to overwrite it.")
        if not self._path.parent.is_dir():
            raise OutputError(f"{self._path} cannot be written: its folder does not exist; make it first.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        about = _beside(self._path, "run.json") if self._about is None else self._about
        story = Story(
            about={name: about[name] for name in _SHOWN if name in about} if self._about is None else about,
            ended=None if kind is None else f"{kind.__name__}: {error}".rstrip(": "),
            path=self._path_so_far(),
            walked=self._walked,
            moments=self._moments.kept,
            curves=self._curves,
            cloud=self._voxels.cloud(),
            edge=self._voxels.edge,
            troubles=self._troubles,
            timings=_beside(self._path, "timings.json"),
        )
        write_whole(self._path, page(story).encode())

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        self._troubles.add(prediction)
        if not prediction.health.finite:
            return
        camera = asked_for(prediction.camera, "camera", self)
        T = camera.T_world_camera.astype(np.float64)
        self._walked += 0.0 if self._last is None else float(np.linalg.norm(T[:3, 3] - self._last[:3, 3]))
        self._last = T
        self._path_taken.offer(lambda: {"T_world_camera": T})
        self._moments.offer(lambda: self._moment(prediction, image))
        self._curves.add(numbers_of(prediction, asked_for(prediction.confidence_camera, "confidence_camera", self)))
        self._fuse(prediction, image)

    def mark(self) -> Mark:
        parts = {"moments": self._moments, "path": self._path_taken, "curves": self._curves, "voxels": self._voxels}
        parts |= {"troubles": self._troubles}
        within_parts = Mark.beside({name: part.mark() for name, part in parts.items()})
        last = {} if self._last is None else {"last": self._last}
        return Mark({"walked": self._walked, **within_parts.numbers}, {**last, **within_parts.arrays})

    def resume(self, mark: Mark) -> None:
        self._overwrite = True  # what is there is this run's own
        self._walked, self._last = mark.numbers["walked"], mark.arrays.get("last")
        self._moments.resume(mark.inside("moments"))
        self._path_taken.resume(mark.inside("path"))
        self._curves.resume(mark.inside("curves"))
        self._voxels.resume(mark.inside("voxels"))
        self._troubles.resume(mark.inside("troubles"))

    def _path_so_far(self) -> Array:  # [K, 4, 4]
        last = [] if self._last is None else [self._last]
        return np.reshape([*(moment["T_world_camera"] for moment in self._path_taken.kept), *last], (-1, 4, 4))

    def _moment(self, prediction: Prediction, image: Image | None) -> Moment:
        """Pictures as they will stand in the page, as JPEG, and what their colours mean."""
        camera = asked_for(prediction.camera, "camera", self)
        depth = asked_for(prediction.depth, "depth", self)
        confidence = asked_for(prediction.confidence_camera, "confidence_camera", self)
        near_is_bright = stretched(1 / np.where(depth > 0, depth, np.nan))
        pictures = {
            "picture": seen_by(camera, image),
            "depth": shade(near_is_bright),
            "confidence": shade(stretched(np.log(confidence))),
        }
        if prediction.reliability is not None:
            pictures["reliability"] = shade(prediction.reliability)
        bytes_of = {name: jpeg(within(picture, _LONGEST), 80) for name, picture in pictures.items()}
        timestamp = np.nan if prediction.timestamp is None else prediction.timestamp
        return {name: np.frombuffer(content, np.uint8) for name, content in bytes_of.items()} | {
            "index": np.array(prediction.index),
            "timestamp": np.array(timestamp),
            "depth_range": _range(depth),
            "confidence_range": _range(confidence),
            "size": np.array([camera.width, camera.height]),
        }

    def _fuse(self, prediction: Prediction, image: Image | None) -> None:
        points = asked_for(prediction.points_world, "points_world", self)
        confidence = asked_for(prediction.confidence_world, "confidence_world", self)
        every = max(1, int(np.sqrt(confidence.size / _PIXELS)))
        grid = np.s_[::every, ::every]
        points, confidence, colours = points[grid], confidence[grid], colours_of(image, prediction, points.shape)[grid]
        kept = (confidence >= self._least_confidence) & np.isfinite(points).all(-1)
        self._voxels.add(points[kept], colours[kept], confidence[kept])


def numbers_of(prediction: Prediction, confidence: Array) -> dict[str, float]:
    """What is drawn over time: of each array its mean, 10th and 90th percentile."""
    gates = {} if prediction.learning_rate is None else {"learning_rate": prediction.learning_rate}
    numbers: dict[str, float] = {}
    for name, array in {"confidence": confidence, **gates, **prediction.signals}.items():
        numbers[name] = float(array.mean(dtype=np.float64))
        if array.size > 1:
            numbers[f"{name}.p10"], numbers[f"{name}.p90"] = np.quantile(array, (0.1, 0.9)).tolist()
    if prediction.learning_rate is not None:
        numbers["horizon"] = memory_horizon(prediction.learning_rate)
    return numbers


def _range(values: Array) -> Array:
    """Where most of them lie."""
    finite = values[np.isfinite(values)]
    return np.percentile(finite, (2, 98)) if finite.size else np.full(2, np.nan)


def _beside(path: Path, name: str) -> Mapping[str, Any]:
    """What a JSON file of the same run says; nothing where there is none."""
    file = path.with_name(name)
    try:
        content = parsed(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise OutputError(
            f"The report cannot be written, because {file} cannot be read ({error}); delete it."
        ) from error
    return cast("Mapping[str, Any]", content) if isinstance(content, dict) else {}
