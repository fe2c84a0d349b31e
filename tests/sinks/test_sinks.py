"""Files are whole, exact to their format, and never take the place of others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recal3r.errors import OutputError
from recal3r.geometry.pose import pose_from_quaternion, wxyz_from_xyzw
from recal3r.sinks import CloudSink, KittiSink, Tee, TumSink
from recal3r.sinks.cloud import Cloud, VoxelMap, write_ply
from recal3r.types import Camera, Crop, Prediction


def prediction(index: int, timestamp: float | None = None, points: np.ndarray | None = None) -> Prediction:
    rng = np.random.default_rng(index)
    q = rng.normal(size=4)
    pose = pose_from_quaternion(rng.normal(size=3), q / np.linalg.norm(q))
    points = rng.normal(size=(6, 8, 3)) if points is None else points
    camera = Camera(np.eye(3), 8, 6, pose, Crop((80, 60), (8, 6)))
    confidence = np.full(points.shape[:2], 3.0)
    return Prediction(
        index, timestamp, pose, camera, points_world=points.astype(np.float32), confidence_world=confidence
    )


def read_ply(path: Path) -> np.ndarray:
    header, _, body = path.read_bytes().partition(b"end_header\n")
    names = {"float": "<f4", "uchar": "u1"}
    rows = [line.split() for line in header.decode().splitlines() if line.startswith("property")]
    vertex = np.dtype([(name, names[kind]) for _, kind, name in rows])
    return np.frombuffer(body, vertex)


def test_tum_round_trip(tmp_path: Path) -> None:
    shown = [prediction(i, timestamp=1_700_000_000.25 + i if i else None) for i in range(5)]
    with TumSink(tmp_path / "trajectory.txt") as sink:
        for one in shown:
            sink.write(one)
            lines = (tmp_path / "trajectory.txt").read_text().splitlines()
            assert len(lines) == one.index + 1, "every line is on disk as soon as it is written"
    rows = np.loadtxt(tmp_path / "trajectory.txt")
    assert rows[0, 0] == 0
    np.testing.assert_allclose(rows[1:, 0], [1_700_000_000.25 + i for i in range(1, 5)], atol=1e-3)
    found = pose_from_quaternion(rows[:, 1:4], wxyz_from_xyzw(rows[:, 4:]))
    np.testing.assert_allclose(found, np.stack([one.T_world_camera for one in shown]), atol=1e-7)


def test_kitti_round_trip(tmp_path: Path) -> None:
    shown = [prediction(i) for i in range(4)]
    with KittiSink(tmp_path / "poses.txt") as sink:
        for one in shown:
            sink.write(one)
    found = np.loadtxt(tmp_path / "poses.txt").reshape(-1, 3, 4)
    np.testing.assert_allclose(found, np.stack([one.T_world_camera[:3] for one in shown]), atol=1e-8)


def test_nothing_is_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "there"
    path.write_text("mine")
    for sink in (TumSink(path), KittiSink(path), CloudSink(path)):
        with pytest.raises(OutputError, match="exists already"), sink:
            pass
        assert path.read_text() == "mine"
    with TumSink(path, overwrite=True) as sink:
        sink.write(prediction(0))
    assert path.read_text() != "mine"
    for sink in (TumSink(tmp_path / "no" / "x"), CloudSink(tmp_path / "no" / "x")):
        with pytest.raises(OutputError, match="cannot be written"), sink:
            pass


def test_wrong_use_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not open"):
        TumSink(tmp_path / "a").write(prediction(0))
    with CloudSink(tmp_path / "b") as sink, pytest.raises(OutputError, match="needs 'points_world'"):
        sink.write(Prediction(0))
    with pytest.raises(OutputError, match="make no cloud"):
        VoxelMap(0.0, 5)


def test_tee_closes_everything(tmp_path: Path) -> None:
    tee = Tee(TumSink(tmp_path / "t.txt"), CloudSink(tmp_path / "c.ply", edge=1e-3))

    def interrupted() -> None:
        with tee:
            tee.write(prediction(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(np.loadtxt(tmp_path / "t.txt", ndmin=2)) == 1
    assert len(read_ply(tmp_path / "c.ply")) == 48

    taken = Tee(TumSink(tmp_path / "fresh.txt"), CloudSink(tmp_path / "c.ply"))
    with pytest.raises(OutputError), taken:
        pass
    with pytest.raises(OutputError, match="not open"):
        taken.write(prediction(1))


def test_points_colours_and_filters(tmp_path: Path) -> None:
    points = np.zeros((6, 8, 3))
    points[..., 0] = np.arange(48).reshape(6, 8)
    image = np.zeros((60, 80, 3), np.uint8)
    image[:, 40:] = (200, 100, 50)
    shown = prediction(0, points=points)
    shown.confidence_world[0, 0] = 1.2
    shown.points_world[0, 1] = np.nan
    with CloudSink(tmp_path / "c.ply", edge=0.5) as sink:
        sink.write(shown, image)
    rows = read_ply(tmp_path / "c.ply")
    assert sorted(rows["x"]) == list(range(2, 48))
    right = rows["x"] % 8 >= 4
    assert (rows["red"][right] == 200).all()
    assert (rows["red"][~right] == 0).all()
    assert (rows["confidence"] == 3).all()


def test_weighted_means_by_hand() -> None:
    voxels = VoxelMap(1.0, 100)
    colours = np.array([[0, 0, 0], [200, 200, 200]], np.uint8)
    voxels.add(np.array([[0.1, 0.1, 0.1], [0.5, 0.1, 0.1]]), colours, np.array([1.0, 3.0]))
    cloud = voxels.cloud()
    np.testing.assert_allclose(cloud.points, [[0.4, 0.1, 0.1]])
    assert cloud.colours.tolist() == [[150, 150, 150]]
    assert cloud.weights.tolist() == [4.0]


@given(st.integers(0, 10**6), st.integers(1, 200), st.floats(1e-3, 2.0))
def test_bounded_and_nothing_is_lost(seed: int, budget: int, edge: float) -> None:
    rng = np.random.default_rng(seed)
    voxels, total = VoxelMap(edge, budget), 0.0
    for _ in range(4):
        weights = rng.uniform(1, 5, 100)
        voxels.add(rng.normal(size=(100, 3)) * 3, rng.integers(0, 256, (100, 3)).astype(np.uint8), weights)
        total += weights.sum()
        assert len(voxels) <= budget
    assert voxels.cloud().weights.sum() == pytest.approx(total)


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    cloud = Cloud(np.zeros((3, 3)), np.zeros((3, 3), np.uint8), np.ones(3))
    with pytest.raises(OutputError, match="cannot be written"):
        write_ply(tmp_path / "no" / "c.ply", cloud)
    assert not list(tmp_path.iterdir())
