"""ScanNet: ROOT/<scene>/color/<int>.jpg|png, pose/<int>.txt (camera to world), depth/<int>.png where exported."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from recal3r.eval.datasets.base import (
    MILLIMETRES,
    About,
    Sequence,
    Shot,
    content,
    depth_png,
    folders_in,
    is_pose,
    numbered,
    numbers,
    picture,
    require,
)


@dataclass(frozen=True)
class Scannet:
    name: ClassVar[str] = "scannet"
    about: ClassVar[About] = About(
        "ScanNet",
        "ROOT/<scene>/color/<number>.jpg, pose/<number>.txt",
        "http://www.scan-net.org after signing its terms; its SensReader exports .sens files to these folders",
    )
    root: Path

    def names(self) -> tuple[str, ...]:
        return tuple(folder.name for folder in folders_in(self.root, type(self)) if (folder / "color").is_dir())

    def open(self, name: str) -> Sequence:
        folder = require(self.root / name, type(self))
        colours = numbered(require(folder / "color", type(self)), r"(\d+)\.(?:jpg|png)")
        poses = numbered(require(folder / "pose", type(self)), r"(\d+)\.txt")
        depths = numbered(folder / "depth", r"(\d+)\.png") if (folder / "depth").is_dir() else {}
        shots: list[Shot] = []
        left_out = {"without a pose file": 0, "with a pose that is not finite": 0}
        for number, path in colours.items():
            if number not in poses:
                left_out["without a pose file"] += 1
                continue
            T_world_camera = numbers(poses[number], (4, 4))
            if not is_pose(T_world_camera):
                left_out["with a pose that is not finite"] += 1
                continue
            depth = depth_png(depths[number], MILLIMETRES) if number in depths else None
            shots.append(Shot(str(number), picture(path), depth, T_world_camera, content=content(path, self.root)))
        return Sequence(name, tuple(shots), left_out)
