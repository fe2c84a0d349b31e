"""NRGBD (Neural RGB-D): ROOT/<scene>/{images/img<i>.png, depth/depth<i>.png, poses.txt}.

Poses are four lines each in OpenGL's axes; a pose of "nan" is none (the research programs take it for the identity).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from recal3r.eval.datasets.base import (
    MILLIMETRES,
    About,
    DatasetError,
    Sequence,
    Shot,
    camera_for_granted,
    content,
    depth_png,
    folders_in,
    is_pose,
    numbered,
    numbers,
    picture,
    require,
)

FOCAL = 554.2563  # at 640 columns
_CAMERA_TO_OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])


@dataclass(frozen=True)
class Nrgbd:
    name: ClassVar[str] = "nrgbd"
    about: ClassVar[About] = About(
        "NRGBD",
        "ROOT/<scene>/{images/img0.png, depth/depth0.png, poses.txt}",
        "https://github.com/dazinovic/neural-rgbd-surface-reconstruction",
    )
    root: Path

    def names(self) -> tuple[str, ...]:
        return tuple(folder.name for folder in folders_in(self.root, type(self)) if (folder / "poses.txt").is_file())

    def open(self, name: str) -> Sequence:
        folder = require(self.root / name, type(self))
        poses = numbers(require(folder / "poses.txt", type(self)), (-1, 4, 4))
        colours = numbered(require(folder / "images", type(self)), r"img(\d+)\.png")
        depths = numbered(require(folder / "depth", type(self)), r"depth(\d+)\.png")
        if colours and max(colours) >= len(poses):
            raise DatasetError(f"{folder} has a picture {max(colours)} and {len(poses)} poses; fetch poses.txt again.")
        shots: list[Shot] = []
        left_out = {"without depth": 0, 'with a pose of "nan"': 0}
        for number, path in colours.items():
            if number not in depths:
                left_out["without depth"] += 1
            elif not is_pose(poses[number]):
                left_out['with a pose of "nan"'] += 1
            else:
                shots.append(
                    Shot(
                        str(number),
                        picture(path),
                        depth_png(depths[number], MILLIMETRES),
                        poses[number] @ _CAMERA_TO_OPENGL,
                        camera_for_granted(FOCAL),
                        content=content(path, self.root),
                    )
                )
        return Sequence(name, tuple(shots), left_out)
