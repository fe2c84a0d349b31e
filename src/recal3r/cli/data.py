"""`recal3r data`: get datasets ready for evaluation, and see what is missing."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from pathlib import Path
from typing import Literal

from recal3r.cli.command import Command

Name = Literal["scannet", "tum", "bonn", "7scenes", "nrgbd", "sintel", "kitti", "tum-folder", "synthetic"]
_ROOT = {"help": "the dataset's folder"}


@dataclasses.dataclass(frozen=True)
class Prepare:
    """Make what a dataset lacks: 7-Scenes its depth as the colour camera sees it, the synthetic world itself.

    The others need nothing. Files that come with a dataset are never changed or deleted.
    """

    name: Name = field(metadata={"help": "the dataset"})
    root: Path = field(metadata=_ROOT)
    output: Path | None = field(
        default=None, metadata={"help": "a folder of its own for what is made (default: the dataset's)"}
    )
    scenes: int = field(default=8, metadata={"help": "synthetic: how many rooms"})
    frames: int = field(default=400, metadata={"help": "synthetic: how many frames each"})
    size: tuple[int, int] = field(default=(128, 96), metadata={"help": "synthetic: width and height"})
    workers: int = field(default=1, metadata={"help": "synthetic: processes that render"})

    def run(self) -> int:
        from recal3r.eval.datasets import dataset
        from recal3r.eval.datasets.prepare import prepare_seven_scenes, prepare_synthetic

        output = self.output or self.root
        if self.name == "7scenes":
            prepare_seven_scenes(self.root, output, print)
        elif self.name == "synthetic":
            prepare_synthetic(
                output, print, scenes=self.scenes, frames=self.frames, size=self.size, workers=self.workers
            )
        else:
            count = len(dataset(self.name, self.root).names())
            print(f"{self.root}: {self.name} is read as it comes; {count} sequences are there, nothing had to be made")
        return 0


@dataclasses.dataclass(frozen=True)
class Verify:
    """Check a dataset's layout and pairing, count usable frames, and say what is missing and where it comes from."""

    name: Name = field(metadata={"help": "the dataset"})
    root: Path = field(metadata=_ROOT)
    every: bool = field(default=False, metadata={"help": "read every frame, not the first, middle and last alone"})

    def run(self) -> int:
        from recal3r.eval.datasets import dataset
        from recal3r.eval.datasets.verify import verify

        found = dataset(self.name, self.root)
        findings = verify(found, every=self.every)
        for one in findings:
            print(f"{one.sequence}: {one.frames} usable frames, {one.with_pose} with pose, {one.with_depth} with depth")
            for why, count in one.left_out.items():
                print(f"  {count} {why}")
            for problem in one.problems:
                print(f"  PROBLEM: {problem}")
        broken = sum(bool(one.problems) for one in findings)
        print(f"{len(findings)} sequences, {sum(one.frames for one in findings)} usable frames, {broken} with problems")
        if not findings or broken:
            print(f"{found.about.title} is laid out as {found.about.layout}; it comes from {found.about.origin}")
        return 1 if broken or not findings else 0


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Say what the protocols would take of a dataset: sequences, frames, and how many sequences are too short."""

    name: Name = field(metadata={"help": "the dataset"})
    root: Path = field(metadata=_ROOT)
    lengths: tuple[int, ...] = field(default=(), metadata={"help": "stream lengths (default: whole sequences)"})

    def run(self) -> int:
        from recal3r.eval.datasets import dataset
        from recal3r.eval.datasets.verify import forecast

        print(f"{'protocol':32} {'frames':>7} {'sequences':>10} {'long enough':>12} {'missing':>8} {'pictures':>9}")
        for one in forecast(dataset(self.name, self.root), self.lengths or (None,)):
            length = "all" if one.length is None else one.length
            print(f"{one.protocol:32} {length:>7} {one.sequences:>10} {one.whole:>12} {one.missing:>8} {one.frames:>9}")
        return 0


COMMAND: dict[str, type[Command]] = {"prepare": Prepare, "verify": Verify, "forecast": Forecast}
