"""Bonn RGB-D Dynamic: ROOT/rgbd_bonn_<sequence>/ in the layout of TUM. Sequences go by their short names."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import ClassVar

from recal3r.eval.datasets.base import About, Sequence, folders_in
from recal3r.eval.datasets.tum import open_tum

PREFIX = "rgbd_bonn_"


@dataclasses.dataclass(frozen=True)
class Bonn:
    name: ClassVar[str] = "bonn"
    about: ClassVar[About] = About(
        "Bonn RGB-D Dynamic",
        "ROOT/rgbd_bonn_<sequence>/{rgb/, depth/, rgb.txt, depth.txt, groundtruth.txt}",
        "https://www.ipb.uni-bonn.de/data/rgbd-dynamic-dataset/",
    )
    root: Path

    def names(self) -> tuple[str, ...]:
        folders = folders_in(self.root, type(self))
        return tuple(folder.name.removeprefix(PREFIX) for folder in folders if folder.name.startswith(PREFIX))

    def open(self, name: str) -> Sequence:
        return dataclasses.replace(open_tum(self.root, f"{PREFIX}{name}", type(self)), name=name)
