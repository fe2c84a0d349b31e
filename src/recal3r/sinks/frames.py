"""What a viewer needs of each frame, one file a frame, never more than a budget of them.

H, W: the network's picture
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from recal3r.errors import OutputError
from recal3r.sinks.base import Mark, asked_for
from recal3r.sinks.files import FrameFiles
from recal3r.types import Array, Camera, Image, Prediction

Half = NDArray[np.float16]
FARTHEST = float(np.finfo(np.float16).max)
BUDGET = 2000  # frames

_PATTERN = "[0-9]" * 6 + "*.npz"
_MEMBERS = ("thumbnail", "depth", "confidence", "K", "T_world_camera", "timestamp")


@dataclass(frozen=True)
class ViewFrame:
    """One frame as it is looked at, in about ten bytes a pixel."""

    index: int
    timestamp: float | None
    picture: Image  # [H, W, 3]
    depth: Half  # [H, W], inf where it is too far for 16 bits
    confidence: Half  # [H, W]
    intrinsics: Array  # K [3, 3]
    T_world_camera: Array  # [4, 4]
    reliability: Half | None = None  # [H, W] in [0, 1]; None where the rule knows of none


def view_frame(prediction: Prediction, image: Image | None, asks: object) -> ViewFrame:
    """What is kept of a prediction; `asks` is who cannot do without it."""
    depth = asked_for(prediction.depth, "depth", asks)
    confidence = asked_for(prediction.confidence_camera, "confidence_camera", asks)
    camera = asked_for(prediction.camera, "camera", asks)
    with np.errstate(over="ignore"):
        return ViewFrame(
            index=prediction.index,
            timestamp=prediction.timestamp,
            picture=_picture(image, camera),
            depth=depth.astype(np.float16),
            confidence=np.minimum(confidence, FARTHEST).astype(np.float16),
            intrinsics=camera.intrinsics.astype(np.float64),
            T_world_camera=asked_for(prediction.T_world_camera, "pose", asks).astype(np.float64),
            reliability=None if prediction.reliability is None else prediction.reliability.astype(np.float16),
        )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _picture(image: Image | None, camera: Camera) -> Image:
    """The window of the picture that the network saw, at its resolution; grey where there is no picture."""
    size = camera.width, camera.height
    if image is None:
        return np.full((*size[::-1], 3), 128, np.uint8)
    if camera.crop is None:
        box = (0.0, 0.0, float(image.shape[1]), float(image.shape[0]))
    else:
        (sx, sy), left, top = camera.crop.scale, camera.crop.left, camera.crop.top
        box = (left / sx, top / sy, (left + camera.width) / sx, (top + camera.height) / sy)
    return np.asarray(PillowImage.fromarray(image).resize(size, PillowImage.Resampling.BOX, box))


def write_frame(frame: ViewFrame) -> bytes:
    """The frame as an NPZ: the same bytes for the same frame."""
    arrays: dict[str, NDArray[np.generic]] = {
        "thumbnail": frame.picture,
        "depth": frame.depth,
        "confidence": frame.confidence,
        "K": frame.intrinsics,
        "T_world_camera": frame.T_world_camera,
        "timestamp": np.array(np.nan if frame.timestamp is None else frame.timestamp),
    }
    if frame.reliability is not None:
        arrays["reliability"] = frame.reliability
    content = BytesIO()
    np.savez_compressed(content, **arrays)  # pyright: ignore[reportArgumentType]  # its one named flag is no array
    return content.getvalue()


def read_frame(path: Path) -> ViewFrame:
    """A frame that `write_frame` wrote; nothing in the file is executed. FileNotFoundError where there is none."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            picture, depth, confidence, K, T_world_camera, timestamp = (_array(arrays[name]) for name in _MEMBERS)
            reliability = _array(arrays["reliability"]) if "reliability" in arrays else None
    except FileNotFoundError:
        raise
    except Exception as error:  # damaged bytes make zipfile and NumPy raise nearly anything
        raise OutputError(f"{path} is no frame of a run ({_first_line(error)}); let the run write it again.") from error
    shapes = {
        depth.shape,
        confidence.shape,
        picture.shape[:2],
        depth.shape if reliability is None else reliability.shape,
    }
    if len(shapes) > 1 or depth.ndim != 2 or (K.shape, T_world_camera.shape, timestamp.shape) != ((3, 3), (4, 4), ()):
        raise OutputError(f"{path} is no frame of a run: its arrays do not fit together; let the run write it again.")
    arrays_read = (picture, depth, confidence, K, T_world_camera, timestamp)
    if any(array.dtype.kind not in "fu" for array in arrays_read):
        raise OutputError(f"{path} is no frame of a run: its arrays hold no numbers; let the run write it again.")
    known = None if np.isnan(timestamp) else float(timestamp)
    return ViewFrame(int(path.stem), known, picture, depth, confidence, K, T_world_camera, reliability)


def _array(member: object) -> NDArray[Any]:
    """NumPy hands out the bytes of a member that it does not take for an array."""
    if not isinstance(member, np.ndarray):
        raise TypeError("a member is no array")
    return cast("NDArray[Any]", member)


def frame_files(folder: Path) -> dict[int, Path]:
    """The files of a `FramesSink` by the number of their frame, in order."""
    return dict(sorted((int(path.stem), path) for path in folder.glob(_PATTERN) if path.stem.isdecimal()))


@dataclass
class EveryKth:
    """Which frames of a stream without an end are kept: every k-th. Changes with the stream.

    k doubles when there would be more than `budget`, and every other frame is forgotten: what is kept is spread evenly
    over the stream, and depends on nothing but how long it is.
    """

    budget: int
    stride: int = 1
    kept: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        if self.budget < 2:
            raise OutputError(f"A budget of {self.budget} frames shows no stream; allow at least 2.")

    def takes(self, index: int) -> bool:
        return index % self.stride == 0

    def add(self, index: int) -> list[int]:
        """Keeps a frame that it takes, and says which ones are forgotten for it."""
        self.kept.append(index)
        forgotten: list[int] = []
        while len(self.kept) > self.budget:
            self.stride *= 2
            forgotten += [index for index in self.kept if not self.takes(index)]
            self.kept = [index for index in self.kept if self.takes(index)]
        return forgotten


class FramesSink:
    """For frame 12: `000012.npz` with `thumbnail` (uint8, at the network's resolution), `depth` and `confidence`
    (float16), `K` and `T_world_camera` (float64), `timestamp` (NaN where there is none) and, where the rule knows of
    it, `reliability` (float16).

    budget: the most frames that are kept; of longer streams every second, fourth ... frame.
    overwrite: takes away the frames that an earlier run left in the folder, and no other file.
    """

    needs = frozenset({"pose", "camera", "depth", "confidence_camera"})

    def __init__(self, folder: str | Path, *, budget: int = BUDGET, overwrite: bool = False) -> None:
        self._folder, self._overwrite = Path(folder), overwrite
        self._files = FrameFiles(self._folder, overwrite=overwrite)
        self._every = EveryKth(budget)
        self._resumed = False

    def __enter__(self) -> Self:
        self._files.enter()
        if self._overwrite and not self._resumed:
            for path in frame_files(self._folder).values():
                if _is_frame(path):
                    path.unlink()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        if not self._every.takes(prediction.index):
            return
        self._files.write(f"{prediction.index:06d}.npz", write_frame(view_frame(prediction, image, self)))
        forgotten = self._every.add(prediction.index)
        if forgotten:
            self._files.mark()  # files that still wait to reach the disk must be there
            for index in forgotten:
                (self._folder / f"{index:06d}.npz").unlink(missing_ok=True)  # gone already where a run is repeated

    def mark(self) -> Mark:
        self._files.mark()
        return Mark({"stride": self._every.stride}, {"kept": np.array(self._every.kept, np.int64)})

    def resume(self, mark: Mark) -> None:
        self._files.resume(Mark())
        self._every.stride, self._every.kept = int(mark.numbers["stride"]), mark.arrays["kept"].tolist()
        self._resumed = True


def _is_frame(path: Path) -> bool:
    try:
        read_frame(path)
    except OutputError:
        return False
    return True
