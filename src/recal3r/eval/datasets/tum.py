"""TUM RGB-D, and Bonn, which is laid out alike.

ROOT/<sequence>/{rgb/, depth/, rgb.txt, depth.txt, groundtruth.txt}
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from recal3r.eval.datasets.base import (
    About,
    Dataset,
    DatasetError,
    Sequence,
    Shot,
    closest,
    content,
    depth_png,
    folders_in,
    is_pose,
    picture,
    require,
    rows,
    tum_trajectory,
)

STEPS_PER_METRE = 5000.0
WITHIN = 0.02  # seconds between a picture and what belongs to it
DYNAMICS = tuple(
    f"rgbd_dataset_freiburg3_{who}_{how}"
    for who in ("sitting", "walking")
    for how in ("static", "xyz", "halfsphere", "rpy")
)


@dataclass(frozen=True)
class Tum:
    name: ClassVar[str] = "tum"
    about: ClassVar[About] = About(
        "TUM RGB-D",
        "ROOT/rgbd_dataset_*/{rgb/, depth/, rgb.txt, depth.txt, groundtruth.txt}",
        "https://cvg.cit.tum.de/data/datasets/rgbd-dataset/download (CC BY 4.0)",
    )
    root: Path

    def names(self) -> tuple[str, ...]:
        return tuple(folder.name for folder in folders_in(self.root, type(self)) if (folder / "rgb.txt").is_file())

    def open(self, name: str) -> Sequence:
        return open_tum(self.root, name, type(self))


def open_tum(root: Path, name: str, dataset: type[Dataset]) -> Sequence:
    """Pictures with what lies nearest to each in time."""
    folder = require(root / name, dataset)
    times, poses = tum_trajectory(require(folder / "groundtruth.txt", dataset))
    depth_times, depth_files = _listed(require(folder / "depth.txt", dataset))
    shots: list[Shot] = []
    left_out = {f"without a true pose within {WITHIN} s": 0}
    without_depth = 0
    for time, file in zip(*_listed(require(folder / "rgb.txt", dataset)), strict=True):
        place = closest(times, time, WITHIN)
        if place is None or not is_pose(poses[place]):
            left_out[f"without a true pose within {WITHIN} s"] += 1
            continue
        depth_place = closest(depth_times, time, WITHIN)
        without_depth += depth_place is None
        path = require(folder / file, dataset)
        depth = None if depth_place is None else depth_png(folder / depth_files[depth_place], STEPS_PER_METRE)
        shots.append(
            Shot(f"{time:.6f}", picture(path), depth, poses[place], timestamp=time, content=content(path, root))
        )
    return Sequence(name, tuple(shots), left_out | {f"usable without depth within {WITHIN} s": without_depth})


def _listed(path: Path) -> tuple[NDArray[np.float64], list[str]]:
    """Timestamps and file names, in the order of time."""
    try:
        found = sorted((float(row[0]), row[1]) for row in rows(path))
    except (ValueError, IndexError) as error:
        raise DatasetError(f"{path} is no list of files; lines of `timestamp file` would be one.") from error
    return np.array([time for time, _ in found]), [file for _, file in found]
