"""Trajectories as text, one line a frame, readable at any cut."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from recal3r.errors import OutputError
from recal3r.geometry.pose import quaternion_from_rotation, xyzw_from_wxyz
from recal3r.sinks.base import asked_for
from recal3r.types import Array, Image, Prediction


def tum_line(timestamp: float, T_world_camera: Array) -> str:
    """`timestamp x y z qx qy qz qw`, the quaternion's real part last."""
    xyzw = xyzw_from_wxyz(quaternion_from_rotation(T_world_camera[:3, :3]))
    return " ".join(f"{number:.9g}" for number in (timestamp, *T_world_camera[:3, 3], *xyzw))


def kitti_line(T_world_camera: Array) -> str:
    """The upper three rows of the matrix, row by row."""
    return " ".join(f"{number:.9e}" for number in T_world_camera[:3].ravel())


class _LineSink:
    """A text file that grows by a line a frame."""

    def __init__(self, path: str | Path, *, overwrite: bool = False) -> None:
        self._path, self._overwrite = Path(path), overwrite
        self._file: TextIO | None = None

    def __enter__(self) -> Self:
        try:
            self._file = self._path.open("w" if self._overwrite else "x", encoding="utf-8", buffering=1)
        except FileExistsError as error:
            raise OutputError(f"{self._path} exists already; name a new file, or ask to overwrite it.") from error
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written ({error.strerror}); name another file.") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        del image
        if self._file is None:
            raise OutputError(f"{self._path} is not open; write inside a `with` block.")
        self._file.write(self._line(prediction) + "\n")

    def _line(self, prediction: Prediction) -> str:
        raise NotImplementedError


class TumSink(_LineSink):
    """TUM's format. A frame without a timestamp gets its index."""

    def _line(self, prediction: Prediction) -> str:
        pose = asked_for(prediction.T_world_camera, "pose", self)
        return tum_line(prediction.index if prediction.timestamp is None else prediction.timestamp, pose)


class KittiSink(_LineSink):
    """KITTI's format: poses only."""

    def _line(self, prediction: Prediction) -> str:
        return kitti_line(asked_for(prediction.T_world_camera, "pose", self))
