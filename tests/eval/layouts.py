"""A short walk through a made-up room, written in the layout of every dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from recal3r.geometry.pose import inverse
from recal3r.sinks.trajectory import kitti_line, tum_line
from recal3r.sources.synthetic import SyntheticFrame, SyntheticWorld, Training, WorldConfig, write_shards
from recal3r.sources.synthetic.export import (
    NRGBD_FOCAL,
    SEVEN_SCENES_FOCAL,
    write_bonn,
    write_nrgbd,
    write_scannet,
    write_seven_scenes,
    write_tum,
)

WIDTH, HEIGHT, COUNT = 64, 48, 8


def world(seed: int = 0, focal: float = SEVEN_SCENES_FOCAL) -> SyntheticWorld:
    return SyntheticWorld(
        seed, WorldConfig(width=WIDTH, height=HEIGHT, focal=focal * WIDTH / 640, trajectory=Training())
    )


def frames(seed: int = 0, focal: float = SEVEN_SCENES_FOCAL, count: int = COUNT) -> Iterator[SyntheticFrame]:
    return world(seed, focal).frames(count)


def scannet(root: Path) -> Path:
    folder = write_scannet(root, "scene0707_00", frames(0))
    (folder / "depth").mkdir()
    for frame in frames(0):
        millimetres = np.rint(1000 * frame.depth).astype(np.uint16)
        Image.fromarray(millimetres).save(folder / "depth" / f"{frame.index}.png")
    write_scannet(root, "scene0708_00", frames(1))
    (root / "scene0708_00" / "pose" / "3.txt").write_text("-inf " * 16)
    return root


def tum(root: Path) -> Path:
    folder = write_tum(root, "rgbd_dataset_freiburg3_sitting_xyz", frames())
    lines = (folder / "groundtruth.txt").read_text().splitlines(keepends=True)
    (folder / "groundtruth.txt").write_text("".join(lines[:-1]))  # the last frame has no pose within 0.02 s
    return root


def bonn(root: Path) -> Path:
    write_bonn(root, "balloon2", frames())
    return root


def seven_scenes(root: Path) -> Path:
    write_seven_scenes(root, "chess", [frames(0)], [frames(1), frames(2)])
    return root


def nrgbd(root: Path) -> Path:
    folder = write_nrgbd(root, "kitchen", frames(focal=NRGBD_FOCAL))
    lines = (folder / "poses.txt").read_text().splitlines(keepends=True)
    lines[4:8] = ["nan nan nan nan\n"] * 4
    (folder / "poses.txt").write_text("".join(lines))
    return root


def sintel(root: Path) -> Path:
    for part in ("final", "camdata_left", "depth"):
        (root / part / "alley_1").mkdir(parents=True)
    tag = np.float32(202021.25).tobytes()
    for frame in frames():
        name = f"alley_1/frame_{frame.index + 1:04d}"
        Image.fromarray(frame.image).save(root / "final" / f"{name}.png")
        camera = np.concatenate((frame.intrinsics.ravel(), inverse(frame.T_world_camera)[:3].ravel()))
        (root / "camdata_left" / f"{name}.cam").write_bytes(tag + camera.astype("<f8").tobytes())
        size = np.array([WIDTH, HEIGHT], "<i4").tobytes()
        (root / "depth" / f"{name}.dpt").write_bytes(tag + size + frame.depth.astype("<f4").tobytes())
    return root


def kitti(root: Path) -> Path:
    (root / "sequences" / "00" / "image_2").mkdir(parents=True)
    (root / "poses").mkdir()
    walk = list(frames())
    for frame in walk:
        Image.fromarray(frame.image).save(root / "sequences" / "00" / "image_2" / f"{frame.index:06d}.png")
    (root / "poses" / "00.txt").write_text("\n".join(kitti_line(frame.T_world_camera) for frame in walk) + "\n")
    (root / "sequences" / "00" / "times.txt").write_text("\n".join(str(frame.timestamp) for frame in walk) + "\n")
    return root


def tum_folder(root: Path) -> Path:
    by_order, by_time = root / "by-order", root / "by-time"
    for folder in (by_order / "images", by_time / "rgb"):
        folder.mkdir(parents=True)
    walk = list(frames())
    for frame in walk:
        Image.fromarray(frame.image).save(by_order / "images" / f"IMG_{frame.index}.png")
        if frame.index != 2:
            Image.fromarray(frame.image).save(by_time / "rgb" / f"{frame.timestamp:.4f}.png")
    text = "\n".join(tum_line(frame.timestamp, frame.T_world_camera) for frame in walk) + "\n"
    (by_order / "trajectory.tum.txt").write_text(text)
    (by_time / "groundtruth.txt").write_text("# a comment\n" + text)
    return root


def synthetic(root: Path) -> Path:
    root.rmdir()
    return write_shards(root, "test", 2, COUNT, (WIDTH, HEIGHT))


LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "scannet": scannet,
    "tum": tum,
    "bonn": bonn,
    "7scenes": seven_scenes,
    "nrgbd": nrgbd,
    "sintel": sintel,
    "kitti": kitti,
    "tum-folder": tum_folder,
    "synthetic": synthetic,
}
