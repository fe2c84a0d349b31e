"""nerfstudio's `transforms.json`: one camera a frame, at the resolution the pictures came in.

nerfstudio's cameras look along -z with y up (OpenGL), and its pixel centres lie at halves.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from recal3r.errors import OutputError
from recal3r.types import Camera, Image, Prediction

_TAIL = b"\n]}\n"
OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])  # camera axes: y up, looking along -z


class NerfstudioSink:
    """The file is whole JSON after every frame: each is written over the closing brackets, which then follow anew."""

    def __init__(self, path: str | Path, *, names: str = "images/{index:06d}.png", overwrite: bool = False) -> None:
        self._path, self._names, self._overwrite = Path(path), names, overwrite
        self._file: BinaryIO | None = None
        self._empty = True

    def __enter__(self) -> Self:
        try:
            self._file = self._path.open("wb" if self._overwrite else "xb")
        except FileExistsError as error:
            raise OutputError(f"{self._path} exists already; name a new file, or ask to overwrite it.") from error
        except OSError as error:
            raise OutputError(f"{self._path} cannot be written ({error.strerror}); name another file.") from error
        self._file.write(b'{"camera_model": "OPENCV", "frames": [' + _TAIL)
        self._empty = True
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
        if prediction.camera is None:
            raise OutputError("NerfstudioSink needs 'camera', which was not asked for; add it to outputs.")
        entry = json.dumps(frame_entry(prediction.camera.original, self._names.format(index=prediction.index)))
        self._file.seek(-len(_TAIL), 2)
        self._file.write((b"\n" if self._empty else b",\n") + entry.encode() + _TAIL)
        self._file.flush()
        self._empty = False


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
