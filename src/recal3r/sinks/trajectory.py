"""Trajectories as text, one line a frame, readable at any cut."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

from recal3r.geometry.pose import quaternion_from_rotation, xyzw_from_wxyz
from recal3r.sinks.base import Mark, asked_for, not_open
from recal3r.sinks.files import GrowingFile
from recal3r.types import Array, Image, Prediction


def tum_line(timestamp: float, T_world_camera: Array) -> str:
    """`timestamp x y z qx qy qz qw`, the quaternion's real part last."""
    xyzw = xyzw_from_wxyz(quaternion_from_rotation(T_world_camera[:3, :3]))
    numbers = " ".join(f"{number:.9g}" for number in (*T_world_camera[:3, 3], *xyzw))
    return f"{timestamp:.15g} {numbers}"  # clocks that count from 1970 have ten digits before the point


def kitti_line(T_world_camera: Array) -> str:
    """The upper three rows of the matrix, row by row."""
    return " ".join(f"{number:.9e}" for number in T_world_camera[:3].ravel())


class LineSink:
    """A text file that grows by a line a frame."""

    needs = frozenset({"pose"})

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self._path, self._overwrite = Path(path), overwrite
        self._file: GrowingFile | None = None
        self._mark: Mark | None = None

    def __enter__(self) -> Self:
        if self._mark is None:
            self._file = GrowingFile.begin(self._path, overwrite=self._overwrite)
        else:
            self._file = GrowingFile.go_on(self._path, self._mark.numbers["length"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        del image
        self._open().append(f"{self._line(prediction)}\n".encode())

    def mark(self) -> Mark:
        return Mark({"length": self._open().sync()})

    def resume(self, mark: Mark) -> None:
        self._mark = mark

    def _open(self) -> GrowingFile:
        if self._file is None:
            raise not_open(self._path)
        return self._file

    def _line(self, prediction: Prediction) -> str:
        raise NotImplementedError


class TumSink(LineSink):
    """TUM's format. A frame without a timestamp gets its index."""

    def _line(self, prediction: Prediction) -> str:
        pose = asked_for(prediction.T_world_camera, "pose", self)
        return tum_line(prediction.index if prediction.timestamp is None else prediction.timestamp, pose)


class KittiSink(LineSink):
    """KITTI's format: poses only."""

    def _line(self, prediction: Prediction) -> str:
        return kitti_line(asked_for(prediction.T_world_camera, "pose", self))
