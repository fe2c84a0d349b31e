"""7-Scenes: ROOT/<scene>/{TrainSplit,TestSplit}.txt, seq-XX/frame-%06d.{color.png, depth.proj.png, pose.txt}.

`depth.proj.png` is the Kinect's depth as its colour camera would have seen it; `recal3r data prepare 7scenes` makes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

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

FOCAL = 525.0  # of the colour camera at 640 columns
FARTHEST = 10.0  # metres


@dataclass(frozen=True)
class SevenScenes:
    """The sequences of the test split, by `scene/seq-XX`."""

    name: ClassVar[str] = "7scenes"
    about: ClassVar[About] = About(
        "7-Scenes",
        "ROOT/<scene>/TestSplit.txt, seq-XX/frame-000000.{color.png, depth.proj.png, pose.txt}",
        "https://www.microsoft.com/en-us/research/project/rgb-d-dataset-7-scenes/ (non-commercial); "
        "`recal3r data prepare 7scenes` makes depth.proj.png",
    )
    root: Path

    def names(self) -> tuple[str, ...]:
        scenes = [folder for folder in folders_in(self.root, type(self)) if (folder / "TestSplit.txt").is_file()]
        return tuple(f"{scene.name}/seq-{number:02d}" for scene in scenes for number in _split(scene))

    def open(self, name: str) -> Sequence:
        folder = require(self.root / name, type(self))
        colours = numbered(folder, r"frame-(\d{6})\.color\.(?:png|jpg)")
        shots: list[Shot] = []
        left_out = {"without registered depth (depth.proj.png)": 0, "with a pose that is not finite": 0}
        for number, path in colours.items():
            depth = folder / f"frame-{number:06d}.depth.proj.png"
            if not depth.is_file():
                left_out["without registered depth (depth.proj.png)"] += 1
                continue
            T_world_camera = numbers(folder / f"frame-{number:06d}.pose.txt", (4, 4))
            if not is_pose(T_world_camera):
                left_out["with a pose that is not finite"] += 1
                continue
            shots.append(
                Shot(
                    f"{number:06d}",
                    picture(path),
                    depth_png(depth, MILLIMETRES, FARTHEST),
                    T_world_camera,
                    camera_for_granted(FOCAL),
                    content=content(path, self.root),
                )
            )
        return Sequence(name, tuple(shots), left_out)


def _split(scene: Path) -> list[int]:
    lines = (scene / "TestSplit.txt").read_text().split()
    matches = [re.fullmatch(r"(?:sequence|seq-)(\d+)", line) for line in lines]
    if not lines or not all(matches):
        raise DatasetError(f"{scene / 'TestSplit.txt'} is no split; lines such as sequence3 would be one.")
    return sorted(int(match[1]) for match in matches if match)
