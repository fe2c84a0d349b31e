"""The fused cloud and the cameras that saw it, as one binary glTF file that any 3D program opens.

K cameras · V voxels
"""

from __future__ import annotations

import math
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from recal3r.errors import OutputError
from recal3r.geometry.pose import apply
from recal3r.sinks.base import Mark, asked_for
from recal3r.sinks.cloud import Cloud, CloudSink, Fusion
from recal3r.sinks.files import write_whole
from recal3r.sinks.filters import Filter
from recal3r.sinks.gltf import Gltf, Mode
from recal3r.sinks.palette import shade
from recal3r.sinks.thinned import Moment, Thinned
from recal3r.types import Array, Camera, Image, Prediction

_FRUSTUM = 0.03  # how deep frusta are drawn, as a share of the scene's size
_EDGES = ((0, 1), (0, 2), (0, 3), (0, 4), (1, 2), (2, 3), (3, 4), (4, 1))


class GlbSink:
    """Writes a `.glb` when the block ends, however it ends.

    cloud: a CloudSink of the same run, whose voxels are shown; without one the sink fuses its own, under `edge`,
        `budget`, `least_confidence` and `keep` as there.
    cameras: how many are shown at most: every k-th, coloured by time from violet to yellow, k doubling as the stream
        grows. Each is a line drawing of what it sees and a camera to look through.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        cloud: CloudSink | None = None,
        edge: float = 0.01,
        budget: int = 1_000_000,
        least_confidence: float = 1.5,
        keep: Filter | None = None,
        cameras: int = 200,
        overwrite: bool = False,
    ) -> None:
        if cloud is not None and keep is not None:
            raise OutputError("GlbSink was given keep beside a cloud that is fused elsewhere; give keep to that one.")
        self._path, self._overwrite = Path(path), overwrite
        self._fuses = cloud is None
        self._fusion = Fusion(edge, budget, least_confidence, keep) if cloud is None else cloud.fusion
        self._cameras = Thinned(cameras)
        self.needs = frozenset({"camera"})
        if self._fuses:
            self.needs |= Fusion.needs | (frozenset[str]() if keep is None else keep.needs)

    def __enter__(self) -> Self:
        if self._path.exists() and not self._overwrite:
            raise OutputError(f"{self._path} exists already; name a new file, or ask to overwrite it.")
        if not self._path.parent.is_dir():
            raise OutputError(f"{self._path} cannot be written: its folder does not exist; make it first.")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        write_whole(self._path, scene(self._fusion.voxels.cloud(), self._cameras.kept))

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        camera = asked_for(prediction.camera, "camera", self)
        if self._fuses:
            self._fusion.add(prediction, image, self)
        self._cameras.offer(lambda: moment(prediction.index, camera))

    def mark(self) -> Mark:
        fusion = self._fusion.mark() if self._fuses else Mark()
        return Mark.beside({"cameras": self._cameras.mark(), "fusion": fusion})

    def resume(self, mark: Mark) -> None:
        self._overwrite = True  # what is there is this run's own
        self._cameras.resume(mark.inside("cameras"))
        if self._fuses:
            self._fusion.resume(mark.inside("fusion"))


def moment(index: int, camera: Camera) -> Moment:
    """A camera as it is remembered."""
    k = camera.intrinsics
    size = np.array([camera.width, camera.height], np.float64)
    lens = np.array([k[0, 0], k[1, 1], k[0, 2], k[1, 2], *size])
    return {"index": np.array(index), "T_world_camera": camera.T_world_camera.astype(np.float64), "lens": lens}


def scene(cloud: Cloud, cameras: list[Moment]) -> bytes:
    gltf = Gltf("reconstruction")
    gltf.mesh("cloud", Mode.POINTS, cloud.points, cloud.colours)
    if cameras:
        times = shade(np.linspace(0, 1, len(cameras)))
        depth = _FRUSTUM * extent(cloud, cameras)
        corners = np.concatenate([frustum(camera, depth)[np.ravel(_EDGES)] for camera in cameras])
        gltf.mesh("frusta", Mode.LINES, corners, times.repeat(2 * len(_EDGES), 0))
        centres = np.stack([camera["T_world_camera"][:3, 3] for camera in cameras])
        steps = np.repeat(np.arange(len(cameras)), 2)[1:-1]  # 0 1, 1 2, 2 3: pairs, which every reader knows
        gltf.mesh("trajectory", Mode.LINES, centres[steps], times[steps])
    for camera in cameras:
        fx, fy, _, _, width, height = camera["lens"].tolist()
        name = f"camera {int(camera['index']):06d}"
        angle = 2 * math.atan(height / (2 * fy))
        gltf.camera(name, camera["T_world_camera"], angle, (width / fx) / (height / fy))
    return gltf.content()


def frustum(camera: Moment, depth: float) -> Array:
    """Where the camera stands, and the four corners of its picture at a depth: [5, 3], in the world."""
    fx, fy, cx, cy, width, height = camera["lens"].tolist()
    left, right = (-0.5 - cx) / fx, (width - 0.5 - cx) / fx
    top, bottom = (-0.5 - cy) / fy, (height - 0.5 - cy) / fy
    rays = np.array([[0, 0, 0], [left, top, 1], [right, top, 1], [right, bottom, 1], [left, bottom, 1]])
    return apply(camera["T_world_camera"], depth * rays)


def extent(cloud: Cloud, cameras: list[Moment]) -> float:
    """How large the scene is, but for what lies far out."""
    centres = np.stack([camera["T_world_camera"][:3, 3] for camera in cameras])
    low, high = np.percentile(np.concatenate((cloud.points, centres)), (5, 95), axis=0)
    return float(np.linalg.norm(high - low)) or 1.0
