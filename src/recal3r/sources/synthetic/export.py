"""Sequences written in the folder layouts of the real datasets, so that their readers can be tried without them.

Every writer makes one folder under `root` and refuses a folder that has something in it. Nothing is ever deleted.
Frames are written as they come; none is kept.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from recal3r.errors import Recal3rError
from recal3r.geometry.pose import quaternion_from_rotation, xyzw_from_wxyz
from recal3r.sources.synthetic.world import SyntheticFrame

SEVEN_SCENES_FOCAL = 525.0  # pixels at 640 columns
NRGBD_FOCAL = 554.2563
_TUM_STEPS = 5000.0  # of depth per metre
_MILLIMETRES = 1000.0
_CAMERA_TO_OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])  # y up and z backwards


class ExportError(Recal3rError):
    """A sequence cannot be written where, or as what, it was asked for."""


def write_scannet(root: str | Path, scene: str, frames: Iterable[SyntheticFrame]) -> Path:
    """ROOT/<scene>/color/<int>.png and pose/<int>.txt."""
    folder = _new_folder(Path(root) / scene)
    for name in ("color", "pose"):
        (folder / name).mkdir()
    for frame in frames:
        _save_image(folder / "color" / f"{frame.index}.png", frame.image)
        _save_pose(folder / "pose" / f"{frame.index}.txt", frame.T_world_camera)
    return folder


def write_tum(root: str | Path, sequence: str, frames: Iterable[SyntheticFrame]) -> Path:
    """ROOT/<sequence>/{rgb/, depth/, rgb.txt, depth.txt, groundtruth.txt}; depth × 5000, quaternions with w last."""
    folder = _new_folder(Path(root) / sequence)
    for name in ("rgb", "depth"):
        (folder / name).mkdir()
    comment = "# {0}\n# file: '" + sequence + "'\n# {1}\n"
    with (
        (folder / "rgb.txt").open("w") as rgb,
        (folder / "depth.txt").open("w") as depth,
        (folder / "groundtruth.txt").open("w") as truth,
    ):
        rgb.write(comment.format("color images", "timestamp filename"))
        depth.write(comment.format("depth maps", "timestamp filename"))
        truth.write(comment.format("ground truth trajectory", "timestamp tx ty tz qx qy qz qw"))
        for frame in frames:
            stamp = f"{frame.timestamp:.6f}"
            _save_image(folder / "rgb" / f"{stamp}.png", frame.image)
            _save_depth(folder / "depth" / f"{stamp}.png", frame.depth, _TUM_STEPS)
            rgb.write(f"{stamp} rgb/{stamp}.png\n")
            depth.write(f"{stamp} depth/{stamp}.png\n")
            xyzw = xyzw_from_wxyz(quaternion_from_rotation(frame.T_world_camera[:3, :3]))
            numbers = np.concatenate((frame.T_world_camera[:3, 3], xyzw)).tolist()
            truth.write(f"{stamp} " + " ".join(f"{number:.9f}" for number in numbers) + "\n")
    return folder


def write_bonn(root: str | Path, sequence: str, frames: Iterable[SyntheticFrame]) -> Path:
    """ROOT/rgbd_bonn_<sequence>/ in the layout of TUM."""
    return write_tum(root, f"rgbd_bonn_{sequence}", frames)


def write_seven_scenes(
    root: str | Path,
    scene: str,
    train: Sequence[Iterable[SyntheticFrame]],
    test: Sequence[Iterable[SyntheticFrame]],
) -> Path:
    """ROOT/<scene>/{TrainSplit,TestSplit}.txt and seq-XX/frame-%06d.{color.png, depth.proj.png, pose.txt}.

    Sequences are numbered from 1, those of `train` first; frames are numbered from 0 in each, as in the dataset.
    """
    folder = _new_folder(Path(root) / scene)
    _write_split(folder / "TrainSplit.txt", range(1, len(train) + 1))
    _write_split(folder / "TestSplit.txt", range(len(train) + 1, len(train) + len(test) + 1))
    for number, frames in enumerate([*train, *test], 1):
        sequence = folder / f"seq-{number:02d}"
        sequence.mkdir()
        for k, frame in enumerate(frames):
            _require_focal(frame, SEVEN_SCENES_FOCAL, "7-Scenes")
            _save_image(sequence / f"frame-{k:06d}.color.png", frame.image)
            _save_depth(sequence / f"frame-{k:06d}.depth.proj.png", frame.depth, _MILLIMETRES)
            _save_pose(sequence / f"frame-{k:06d}.pose.txt", frame.T_world_camera)
    return folder


def write_nrgbd(root: str | Path, scene: str, frames: Iterable[SyntheticFrame]) -> Path:
    """ROOT/<scene>/{images/img<i>.png, depth/depth<i>.png, poses.txt}; i from 0, poses in OpenGL axes, depth in mm."""
    folder = _new_folder(Path(root) / scene)
    for name in ("images", "depth"):
        (folder / name).mkdir()
    with (folder / "poses.txt").open("w") as poses:
        for k, frame in enumerate(frames):
            _require_focal(frame, NRGBD_FOCAL, "NRGBD")
            _save_image(folder / "images" / f"img{k}.png", frame.image)
            _save_depth(folder / "depth" / f"depth{k}.png", frame.depth, _MILLIMETRES)
            poses.write(_matrix_text(frame.T_world_camera @ _CAMERA_TO_OPENGL))
    return folder


def _new_folder(folder: Path) -> Path:
    """An empty folder, made where there is none."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExportError(f"{folder} has something in it and is never overwritten; name a folder that is new or empty.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _require_focal(frame: SyntheticFrame, focal: float, layout: str) -> None:
    """The layout stores no intrinsics: its readers take one camera for granted, scaled to the image's size."""
    height, width = frame.depth.shape
    K = frame.intrinsics
    wanted = (focal * width / 640.0, focal * width / 640.0, width // 2, height // 2)
    if not np.allclose((K[0, 0], K[1, 1], K[0, 2], K[1, 2]), wanted, atol=1e-6):
        raise ExportError(
            f"A frame of focal length {K[0, 0]:.4f} is not the camera that readers of {layout} take for granted; "
            f"use WorldConfig(focal={focal} * width / 640)."
        )


def _write_split(path: Path, numbers: Iterable[int]) -> None:
    path.write_text("".join(f"sequence{number}\n" for number in numbers))


def _save_image(path: Path, image: NDArray[np.uint8]) -> None:
    Image.fromarray(image).save(path)


def _save_depth(path: Path, depth: NDArray[np.float32], steps_per_metre: float) -> None:
    """16-bit PNG; what does not fit becomes 0, which every layout reads as invalid."""
    steps = np.rint(depth.astype(np.float64) * steps_per_metre)
    fits = np.isfinite(steps) & (steps < 65535)
    Image.fromarray(np.where(fits, steps, 0).astype(np.uint16)).save(path)


def _save_pose(path: Path, T_world_camera: NDArray[np.float64]) -> None:
    path.write_text(_matrix_text(T_world_camera))


def _matrix_text(matrix: NDArray[np.float64]) -> str:
    return "".join(" ".join(f"{number:.9f}" for number in row) + "\n" for row in matrix)
