"""What a dataset is: sequences by name, and of each its frames, of which nothing is read until it is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from recal3r.errors import EvalError
from recal3r.geometry.pose import pose_from_quaternion, wxyz_from_xyzw
from recal3r.sources.images import pictures_in, read_picture
from recal3r.types import Array, Image

MILLIMETRES = 1000.0
_LARGEST = 65535  # what 16 bits say for "unknown" in 7-Scenes, and cannot mean in the others


class DatasetError(EvalError):
    """A dataset is not where, or not what, it should be."""


@dataclass(frozen=True, eq=False)
class Shot:
    """A frame and the truth about it; picture and depth are read when they are called."""

    id: str
    image: Callable[[], Image]
    depth: Callable[[], Array] | None = None
    """[H, W] metres along z, 0 where nobody knows."""
    T_world_camera: Array | None = None  # [4, 4] float64
    intrinsics: Callable[[int, int], Array] | None = None
    """K [3, 3] for a picture of this width and height; layouts that store none take one camera for granted."""
    timestamp: float | None = None
    content: str = ""
    """Tells other pictures of the same id apart: the file's name and length."""


@dataclass(frozen=True, eq=False)
class Sequence:
    name: str
    shots: tuple[Shot, ...]
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """Why frames are missing, and how many: "without a true pose within 0.02 s": 12."""


class About(NamedTuple):
    title: str
    layout: str
    origin: str
    """Where it comes from, and under which terms."""


class Dataset(Protocol):
    name: ClassVar[str]
    about: ClassVar[About]

    @property
    def root(self) -> Path: ...

    def names(self) -> tuple[str, ...]:
        """Its sequences, sorted."""
        ...

    def open(self, name: str) -> Sequence: ...


# -- folders ---------------------------------------------------------------------------------------------------------


def folders_in(root: Path, dataset: type[Dataset]) -> list[Path]:
    if not root.is_dir():
        raise missing(root, dataset)
    return sorted(path for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))


def missing(path: Path, dataset: type[Dataset]) -> DatasetError:
    about = dataset.about
    return DatasetError(
        f"{path} is not there, but {about.title} is laid out as {about.layout}; it comes from {about.origin}."
    )


def require(path: Path, dataset: type[Dataset]) -> Path:
    if not path.exists():
        raise missing(path, dataset)
    return path


def numbered(folder: Path, pattern: str) -> dict[int, Path]:
    """The files whose whole name matches, by the number that is the pattern's first group, in its order."""
    found = {int(match[1]): path for path in folder.iterdir() if (match := re.fullmatch(pattern, path.name))}
    return dict(sorted(found.items()))


def pictures(folder: Path) -> list[Path]:
    return pictures_in(folder)


def picture(path: Path) -> Callable[[], Image]:
    return partial(read_picture, path)


def content(path: Path, root: Path) -> str:
    return f"{path.relative_to(root).as_posix()}:{path.stat().st_size}"


# -- numbers ---------------------------------------------------------------------------------------------------------


def depth_png(path: Path, steps_per_metre: float, farthest: float = np.inf) -> Callable[[], Array]:
    return partial(read_depth_png, path, steps_per_metre, farthest)


def read_depth_png(path: Path, steps_per_metre: float, farthest: float = np.inf) -> Array:
    """16-bit PNG to metres [H, W] float32; 0, 65535 and what is farther than `farthest` are unknown, which is 0."""
    try:
        with PillowImage.open(path) as opened:
            steps = np.asarray(opened)
    except Exception as error:  # damaged bytes make Pillow raise nearly anything
        raise DatasetError(f"{path} cannot be read as a depth map; fetch it again.") from error
    if steps.ndim != 2:
        raise DatasetError(f"{path} has {steps.ndim} axes and is no depth map; a 16-bit grey PNG would be.")
    depth = steps.astype(np.float32) / np.float32(steps_per_metre)
    return np.where((steps < _LARGEST) & (depth <= farthest), depth, np.float32(0))


def numbers(path: Path, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """The numbers of a text file, in a shape of which one side may be -1; "nan" and "inf" are numbers."""
    try:
        return np.array(path.read_text().split(), dtype=np.float64).reshape(shape)
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} does not hold numbers of the shape {list(shape)}; fetch it again.") from error


def is_pose(T: NDArray[np.float64]) -> bool:
    return bool(np.isfinite(T).all())


def camera_for_granted(focal: float, columns: int = 640) -> Callable[[int, int], Array]:
    """K of a camera of this focal length at so many columns, centred, scaled to the picture."""
    return partial(_centred, focal / columns)


def _centred(focal_share: float, width: int, height: int) -> Array:
    f = focal_share * width
    return np.array([[f, 0, width // 2], [0, f, height // 2], [0, 0, 1.0]])


def rows(path: Path) -> list[list[str]]:
    """The words of each line that is no comment."""
    lines = (line.strip().replace(",", " ") for line in path.read_text().splitlines())
    return [line.split() for line in lines if line and not line.startswith("#")]


def tum_trajectory(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Timestamps [T], sorted, and T_world_camera [T, 4, 4] of a file of `timestamp x y z qx qy qz qw`."""
    try:
        table = np.array([[float(word) for word in row[:8]] for row in rows(path)]).reshape(-1, 8)
    except (OSError, ValueError) as error:
        raise DatasetError(f"{path} is no trajectory; lines of `timestamp x y z qx qy qz qw` would be one.") from error
    table = table[np.argsort(table[:, 0], kind="stable")]
    length = np.linalg.norm(table[:, 4:], axis=1, keepdims=True)
    wxyz = wxyz_from_xyzw(table[:, 4:] / np.where(length > 0, length, np.nan))
    return table[:, 0], pose_from_quaternion(table[:, 1:4], wxyz).astype(np.float64)


def closest(times: NDArray[np.float64], wanted: float, within: float) -> int | None:
    """The place of the time that is nearest, or None where that is farther away than `within`."""
    if not len(times):
        return None
    after = int(np.searchsorted(times, wanted))
    place = min((at for at in (after - 1, after) if 0 <= at < len(times)), key=lambda at: abs(times[at] - wanted))
    return place if abs(times[place] - wanted) <= within else None
