"""What has to be made before a dataset can be read. Files that come with it are never changed, moved or deleted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image as PillowImage

from recal3r.eval.datasets.base import MILLIMETRES, DatasetError, missing, read_depth_png
from recal3r.eval.datasets.register import Registration
from recal3r.eval.datasets.seven_scenes import SevenScenes
from recal3r.sources.synthetic import write_shards

Said = Callable[[str], None]


def prepare_seven_scenes(source: Path, output: Path, said: Said, registration: Registration | None = None) -> int:
    """Registers the Kinect's depth to its colour camera: `frame-XXXXXX.depth.proj.png`, in millimetres.

    Into the source itself, or into a new folder in which everything else is linked to it. What is there already stays;
    returns how many maps were made. A scene without a split, such as a part of the dataset, gets one of all its
    sequences in a new folder, and that is said.
    """
    registration = registration or Registration()
    sequences = sorted(path for path in source.glob("*/seq-*") if path.is_dir())
    if not sequences:
        raise missing(source / "<scene>" / "seq-01", SevenScenes)
    made = 0
    for sequence in sequences:
        target = output / sequence.relative_to(source)
        if target != sequence:
            _link_frames(sequence, target)
        for raw in sorted(sequence.glob("frame-*.depth.png")):
            registered = target / raw.name.replace(".depth.png", ".depth.proj.png")
            if not registered.exists():
                _write_depth(registered, registration(read_depth_png(raw, MILLIMETRES)))
                made += 1
        said(
            f"{sequence.relative_to(source)}: {len(list(target.glob('frame-*.depth.proj.png')))} registered depth maps"
        )
    for scene in sorted({sequence.parent for sequence in sequences}):
        _bring_splits(scene, output / scene.name, said)
    return made


def _link_frames(source: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in _frames(source):
        link = target / path.name
        if not os.path.lexists(link):
            link.symlink_to(path.resolve())


def _frames(sequence: Path) -> Iterator[Path]:
    for kind in ("color.png", "color.jpg", "pose.txt"):
        yield from sequence.glob(f"frame-*.{kind}")


def _bring_splits(scene: Path, target: Path, said: Said) -> None:
    if scene == target:
        return
    for name in ("TrainSplit.txt", "TestSplit.txt"):
        if (scene / name).is_file() and not os.path.lexists(target / name):
            (target / name).symlink_to((scene / name).resolve())
    if not (target / "TestSplit.txt").exists():
        numbers = [int(path.name.removeprefix("seq-")) for path in sorted(target.glob("seq-*"))]
        (target / "TestSplit.txt").write_text("".join(f"sequence{number}\n" for number in numbers))
        said(f"{scene.name} has no TestSplit.txt: all of its {len(numbers)} sequences are taken as tests")


def _write_depth(path: Path, depth: np.ndarray) -> None:
    """Millimetres, 16 bits; the file is whole or not there."""
    millimetres = np.rint(depth.astype(np.float64) * MILLIMETRES)
    unfinished = path.with_name(f"{path.name}.part")
    PillowImage.fromarray(np.where(millimetres < 65535, millimetres, 0).astype(np.uint16)).save(
        unfinished, format="PNG"
    )
    unfinished.replace(path)


def prepare_synthetic(
    output: Path, said: Said, *, scenes: int, frames: int, size: tuple[int, int], workers: int
) -> int:
    """Renders walks through rooms of the test split; a folder that is there already must be of the same kind."""
    if (output / "header.json").is_file():
        said(f"{output} is there already and stays as it is")
        return 0
    if output.exists() and any(output.iterdir()):
        raise DatasetError(f"{output} holds other things; name a folder that is new or empty.")
    write_shards(output, "test", scenes, frames, size, workers=workers)
    said(f"{output}: {scenes} walks of {frames} frames of {size[0]}x{size[1]}")
    return scenes
