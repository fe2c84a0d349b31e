"""nerfstudio's `transforms.json`: one camera a frame, at the resolution the pictures came in.

nerfstudio's cameras look along -z with y up (OpenGL), and its pixel centres lie at halves.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from recal3r.sinks.base import Mark, asked_for, not_open
from recal3r.sinks.files import GrowingFile
from recal3r.types import Camera, Image, Prediction

_HEAD = b'{"camera_model": "OPENCV", "frames": ['
_TAIL = b"\n]}\n"
OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])  # camera axes: y up, looking along -z


class NerfstudioSink:
    """The file is whole JSON after every frame: each is written over the closing brackets, which then follow anew."""

    needs = frozenset({"pose", "camera"})

    def __init__(self, path: str | Path, *, names: str = "images/{index:06d}.png", overwrite: bool = False) -> None:
        self._path, self._names, self._overwrite = Path(path), names, overwrite
        self._file: GrowingFile | None = None
        self._mark: Mark | None = None

    def __enter__(self) -> Self:
        if self._mark is None:
            self._file = GrowingFile.begin(self._path, overwrite=self._overwrite)
            self._file.append(_HEAD + _TAIL)
        else:  # what came after the mark stands where the closing brackets were
            self._file = GrowingFile.go_on(self._path, self._mark.numbers["length"])
            self._file.write_at(self._file.length - len(_TAIL), _TAIL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        del image
        file = self._open()
        camera = asked_for(prediction.camera, "camera", self)
        entry = json.dumps(frame_entry(camera.original, self._names.format(index=prediction.index)))
        end = file.length - len(_TAIL)
        file.write_at(end, (b"\n" if end == len(_HEAD) else b",\n") + entry.encode() + _TAIL)

    def mark(self) -> Mark:
        return Mark({"length": self._open().sync()})

    def resume(self, mark: Mark) -> None:
        self._mark = mark

    def _open(self) -> GrowingFile:
        if self._file is None:
            raise not_open(self._path)
        return self._file


def frame_entry(camera: Camera, name: str) -> dict[str, object]:
    k = camera.intrinsics
    return {
        "file_path": name,
        "w": camera.width,
        "h": camera.height,
        "fl_x": float(k[0, 0]),
        "fl_y": float(k[1, 1]),
        "cx": float(k[0, 2]) + 0.5,
        "cy": float(k[1, 2]) + 0.5,
        "transform_matrix": (camera.T_world_camera @ OPENGL).tolist(),
    }
