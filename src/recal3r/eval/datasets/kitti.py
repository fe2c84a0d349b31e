"""KITTI-style pose folders: ROOT/sequences/<name>/image_2/000000.png, calib.txt, times.txt, and ROOT/poses/<name>.txt.

A line of the poses is T_world_camera [3, 4], row by row.
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
    content,
    is_pose,
    numbers,
    picture,
    pictures,
    require,
)


@dataclass(frozen=True)
class Kitti:
    name: ClassVar[str] = "kitti"
    about: ClassVar[About] = About(
        "KITTI odometry",
        "ROOT/sequences/<name>/image_2/000000.png, ROOT/poses/<name>.txt",
        "https://www.cvlibs.net/datasets/kitti/eval_odometry.php (CC BY-NC-SA 3.0)",
    )
    root: Path

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(path.stem for path in require(self.root / "poses", type(self)).glob("*.txt")))

    def open(self, name: str) -> Sequence:
        folder = require(self.root / "sequences" / name, type(self))
        poses = numbers(require(self.root / "poses" / f"{name}.txt", type(self)), (-1, 3, 4))
        colours = pictures(require(folder / "image_2", type(self)))
        if len(colours) != len(poses):
            raise DatasetError(f"{folder} has {len(colours)} pictures and {len(poses)} poses; each needs the other.")
        times = numbers(folder / "times.txt", (-1,)) if (folder / "times.txt").is_file() else None
        if times is not None and len(times) != len(poses):
            raise DatasetError(f"{folder / 'times.txt'} has {len(times)} times for {len(poses)} poses; fetch it again.")
        last = np.array([[0, 0, 0, 1.0]])
        shots = tuple(
            Shot(
                path.stem,
                picture(path),
                T_world_camera=np.vstack((poses[k], last)),
                timestamp=None if times is None else float(times[k]),
                content=content(path, self.root),
            )
            for k, path in enumerate(colours)
            if is_pose(poses[k])
        )
        return Sequence(name, shots, {"with a pose that is not finite": len(colours) - len(shots)})
