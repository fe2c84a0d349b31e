"""Every dataset × task on folders in the real layouts: the truth is perfect, known mistakes cost what they should."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from eval.layouts import COUNT, HEIGHT, LAYOUTS, WIDTH, world
from recal3r.errors import EvalError
from recal3r.eval.cuts import Central, Squeezed
from recal3r.eval.datasets import DATASETS, dataset
from recal3r.eval.datasets.base import DatasetError, Sequence, Shot
from recal3r.eval.datasets.sintel import read_cam, read_dpt
from recal3r.eval.metrics.depth import Metric, OriginalScaleAndShift, Scale, ScaleAndShift
from recal3r.eval.tasks import Pose, Reconstruction, Recorded, VideoDepth
from recal3r.eval.tasks.reconstruction import true_points
from recal3r.geometry.pose import apply, inverse, pose_from_quaternion

LaidOut = Callable[[str], Path]
WITH_DEPTH = ("scannet", "tum", "bonn", "7scenes", "nrgbd", "sintel", "synthetic")
WITH_CAMERA = ("7scenes", "nrgbd", "sintel", "synthetic")
POSE, RECONSTRUCTION = Pose(), Reconstruction()


def first_sequence(laid_out: LaidOut, name: str) -> Sequence:
    found = dataset(name, laid_out(name))
    return found.open(found.names()[0])


def true_prediction(sequence: Sequence) -> tuple[list[Shot], Recorded]:
    """What a perfect network would say: everything in the first camera's axes."""
    shots = [shot for shot in sequence.shots if RECONSTRUCTION.usable(shot)]
    T_first_world = inverse(shots[0].T_world_camera)
    points = [apply(T_first_world, true_points(shot, Central(), (HEIGHT, WIDTH))) for shot in shots]
    return shots, Recorded(
        np.stack([T_first_world @ shot.T_world_camera for shot in shots]),
        np.stack([shot.depth() for shot in shots]),
        np.stack(points).astype(np.float32),
    )


# -- datasets --------------------------------------------------------------------------------------------------------


def test_every_dataset_has_a_layout_here() -> None:
    assert {kind.name for kind in DATASETS} == set(LAYOUTS)


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_was_written_is_what_is_read(name: str, laid_out: LaidOut) -> None:
    sequence = first_sequence(laid_out, name)
    seed = {"7scenes": 1}.get(name, 0)
    if name != "synthetic":  # whose rooms are those of the test split
        made = world(seed, 554.2563) if name == "nrgbd" else world(seed)
        by_picture = {frame.image.tobytes(): frame for frame in made.frames(COUNT)}
        for shot in sequence.shots:
            frame = by_picture[shot.image().tobytes()]
            np.testing.assert_allclose(shot.T_world_camera, frame.T_world_camera, atol=1e-6)
            if shot.depth is not None:
                np.testing.assert_allclose(shot.depth(), frame.depth, atol=6e-4)
            if shot.intrinsics is not None:
                np.testing.assert_allclose(shot.intrinsics(WIDTH, HEIGHT), frame.intrinsics, atol=1e-6)
    left_out = {"tum": 1, "nrgbd": 1, "tum-folder": 0}.get(name, 0)
    assert len(sequence.shots) == COUNT - left_out
    assert len({(shot.id, shot.content) for shot in sequence.shots}) == len(sequence.shots)


def test_frames_that_cannot_be_used_are_counted(laid_out: LaidOut) -> None:
    scannet = dataset("scannet", laid_out("scannet"))
    assert scannet.names() == ("scene0707_00", "scene0708_00")
    assert scannet.open("scene0708_00").left_out["with a pose that is not finite"] == 1
    assert len(scannet.open("scene0708_00").shots) == COUNT - 1
    assert first_sequence(laid_out, "nrgbd").left_out['with a pose of "nan"'] == 1
    assert first_sequence(laid_out, "tum").left_out["without a true pose within 0.02 s"] == 1
    by_time = dataset("tum-folder", laid_out("tum-folder")).open("by-time")
    assert len(by_time.shots) == COUNT - 1


def test_seven_scenes_shows_its_test_split(laid_out: LaidOut) -> None:
    assert dataset("7scenes", laid_out("7scenes")).names() == ("chess/seq-02", "chess/seq-03")


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_missing_is_said_with_its_origin(name: str, laid_out: LaidOut, tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"is not there, but .* is laid out as .* it comes from"):
        dataset(name, tmp_path / "nowhere").names()
    with pytest.raises(DatasetError, match=r"is not there|has no"):
        dataset(name, laid_out(name)).open("nothing")


def test_damaged_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.cam").write_bytes(b"x" * 10)
    for read in (read_cam, read_dpt):
        with pytest.raises(DatasetError, match=r"a\.cam is no"):
            read(tmp_path / "a.cam")


# -- tasks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYOUTS)
def test_true_poses_are_perfect_in_any_world(name: str, laid_out: LaidOut) -> None:
    shots = first_sequence(laid_out, name).shots
    truth = np.stack([shot.T_world_camera for shot in shots])
    turned = pose_from_quaternion(np.array([1.0, -2, 0.5]), np.array([0.8, 0, 0.6, 0])) @ truth
    turned[:, :3, 3] *= 3.7
    values, weight = POSE.score(shots, Recorded(poses=turned), Central())
    assert weight == 1
    np.testing.assert_allclose(list(values.values()), 0, atol=2e-5)


@pytest.mark.parametrize("alignment", [Metric(), Scale(), ScaleAndShift(), OriginalScaleAndShift(steps=3)], ids=str)
@pytest.mark.parametrize("name", WITH_DEPTH)
def test_true_depth_is_perfect(name: str, alignment: object, laid_out: LaidOut) -> None:
    found = dataset(name, laid_out(name))
    shots = [shot for shot in found.open(found.names()[0]).shots if VideoDepth().usable(shot)]
    depth = np.stack([shot.depth() for shot in shots]).astype(np.float32)
    task = VideoDepth(alignment)
    values, pixels = task.score(shots, Recorded(depth=depth), Squeezed())
    slack = 1e-3 if isinstance(alignment, OriginalScaleAndShift) else 1e-6
    assert values["abs_rel"] == pytest.approx(0, abs=slack)
    assert values["delta_1_25"] == 1
    assert pixels == (depth > 0).sum()
    assert dataclasses.replace(task, weigh_by_pixels=False).score(shots, Recorded(depth=depth), Squeezed()).weight == 1


def test_depth_thirty_percent_too_deep(laid_out: LaidOut) -> None:
    shots = first_sequence(laid_out, "bonn").shots
    said = Recorded(depth=1.3 * np.stack([shot.depth() for shot in shots]).astype(np.float32))
    assert VideoDepth(Metric()).score(shots, said, Squeezed()).values["abs_rel"] == pytest.approx(0.3, abs=1e-6)
    assert VideoDepth(Scale()).score(shots, said, Squeezed()).values["abs_rel"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("name", WITH_CAMERA)
def test_true_points_are_perfect_in_any_scale(name: str, laid_out: LaidOut) -> None:
    shots, said = true_prediction(first_sequence(laid_out, name))
    for scale, deeper in ((1, 0), (2.5, 0), (1, 0.7)):
        points = scale * said.points_world + np.array([0, 0, deeper], np.float32)
        values = RECONSTRUCTION.score(shots, Recorded(points_world=points), Central()).values
        assert values["acc"] == pytest.approx(0, abs=1e-5)
        assert values["comp"] == pytest.approx(0, abs=1e-5)
        assert values["nc"] == pytest.approx(1, abs=1e-3)
        assert values["finite"] == 1


def wall(count: int = 2) -> list[Shot]:
    """A camera that looks along a wall at x = 1, from (0, 0, 0)."""
    K = np.array([[40.0, 0, 20], [0, 40, 20], [0, 0, 1]])
    column = np.tile(np.arange(40.0), (40, 1))
    depth = np.where(column > 24, 40 / np.maximum(column - 20, 1), 0).astype(np.float32)
    return [
        Shot(str(k), lambda: np.zeros((40, 40, 3), np.uint8), lambda: depth, np.eye(4), lambda *_: K)
        for k in range(count)
    ]


def test_a_wall_five_centimetres_off() -> None:
    shots = wall()
    points = np.stack([true_points(shot, Central(), (40, 40)) for shot in shots]).astype(np.float32)
    assert np.nanmax(np.abs(points[..., 0] - 1)) < 1e-6
    task = Reconstruction(icp=None)
    said = Recorded(points_world=points + np.array([0.05, 0, 0], np.float32))
    values = task.score(shots, said, Central()).values
    assert (values["acc"], values["comp"], values["nc"]) == pytest.approx((0.05, 0.05, 1), abs=1e-5)
    with_icp = Reconstruction().score(shots, said, Central()).values
    assert with_icp["acc"] < 0.001, "and the last step is there for exactly that"


def test_points_that_are_lost_are_said() -> None:
    shots = wall()
    points = np.stack([true_points(shot, Central(), (40, 40)) for shot in shots]).astype(np.float32)
    points[1] = np.nan
    assert RECONSTRUCTION.score(shots, Recorded(points_world=points), Central()).values["finite"] == 0.5
    with pytest.raises(EvalError, match="unknown or all in one place"):
        RECONSTRUCTION.score(shots, Recorded(points_world=np.full_like(points, np.nan)), Central())


def test_fewer_points_are_drawn_by_the_seed(laid_out: LaidOut) -> None:
    shots, said = true_prediction(first_sequence(laid_out, "synthetic"))
    rough = Recorded(points_world=said.points_world + np.random.default_rng(0).normal(0, 0.05, said.points_world.shape))
    score = partial(lambda task: task.score(shots, rough, Central()).values["acc"])
    one = score(Reconstruction(most=500))
    assert one == score(Reconstruction(most=500))
    assert one != score(Reconstruction(most=500, seed=1))
    assert score(Reconstruction(central=16)) != score(Reconstruction(central=None))


def test_what_was_not_predicted_is_missed(laid_out: LaidOut) -> None:
    shots = first_sequence(laid_out, "synthetic").shots
    for task, what in ((POSE, "pose"), (VideoDepth(), "depth"), (RECONSTRUCTION, "points_world")):
        with pytest.raises(EvalError, match=f"holds no {what}"):
            task.score(shots, Recorded(), Central())
    with pytest.raises(EvalError, match="use Central"):
        RECONSTRUCTION.score(shots, Recorded(), Squeezed())
