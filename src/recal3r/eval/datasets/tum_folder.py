"""Any pictures with a trajectory in TUM's format: ROOT/<sequence>/{*.png or rgb/ or images/, groundtruth.txt}.

Where most names are times of the trajectory (`1311.25.png`), a picture belongs to the pose that is nearest to its name.
Elsewhere there must be as many pictures as poses, and they belong to each other in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from recal3r.eval.datasets.base import (
    About,
    DatasetError,
    Sequence,
    Shot,
    closest,
    content,
    folders_in,
    is_pose,
    picture,
    pictures,
    require,
    tum_trajectory,
)
from recal3r.eval.datasets.tum import WITHIN

_TRAJECTORIES = ("groundtruth.txt", "trajectory.tum.txt", "trajectory.txt")
_FOLDERS = ("rgb", "images", "image", ".")


@dataclass(frozen=True)
class TumFolder:
    name: ClassVar[str] = "tum-folder"
    about: ClassVar[About] = About(
        "a folder with a TUM trajectory",
        "ROOT/<sequence>/{rgb/*.png, groundtruth.txt}",
        "you: any pictures whose poses you know",
    )
    root: Path

    def names(self) -> tuple[str, ...]:
        return tuple(folder.name for folder in folders_in(self.root, type(self)) if _trajectory(folder))

    def open(self, name: str) -> Sequence:
        folder = require(self.root / name, type(self))
        trajectory = _trajectory(folder)
        if trajectory is None:
            raise DatasetError(f"{folder} has no trajectory; put one of {', '.join(_TRAJECTORIES)} there.")
        part = next(folder / part for part in _FOLDERS if (folder / part).is_dir())
        files = pictures(part)
        times, poses = tum_trajectory(trajectory)
        places = _pair(folder, files, times)
        shots = tuple(
            Shot(
                file.stem,
                picture(file),
                T_world_camera=poses[place],
                timestamp=float(times[place]),
                content=content(file, self.root),
            )
            for file, place in zip(files, places, strict=True)
            if place is not None and is_pose(poses[place])
        )
        return Sequence(name, shots, {"without a true pose": len(files) - len(shots)})


def _trajectory(folder: Path) -> Path | None:
    return next((folder / name for name in _TRAJECTORIES if (folder / name).is_file()), None)


def _pair(folder: Path, files: list[Path], times: np.ndarray) -> list[int | None]:
    """The pose of each picture."""
    by_name = [closest(times, time, WITHIN) if (time := _time(file)) is not None else None for file in files]
    if 2 * len({place for place in by_name if place is not None}) > len(files):
        return by_name
    if len(files) != len(times):
        raise DatasetError(
            f"{folder} has {len(files)} pictures, whose names are no times of its {len(times)} poses; "
            "name them by their timestamps, or give as many poses as pictures."
        )
    return list(range(len(files)))


def _time(file: Path) -> float | None:
    try:
        return float(file.stem)
    except ValueError:
        return None
