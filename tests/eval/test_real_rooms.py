"""The 300 real frames of 7-Scenes: read from the shared folder, never copied."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import recal3r
from recal3r.eval.contestants import Contestant
from recal3r.eval.cuts import Central
from recal3r.eval.datasets import dataset
from recal3r.eval.datasets.base import Shot
from recal3r.eval.datasets.prepare import prepare_seven_scenes
from recal3r.eval.protocol import protocol
from recal3r.eval.score import Job, run_job
from recal3r.eval.tasks import Reconstruction, Recorded
from recal3r.eval.tasks.reconstruction import true_points
from recal3r.geometry.pose import apply, inverse
from recal3r.model.checkpoint import write_safetensors
from recal3r.sources.synthetic import points_from_depth


@pytest.fixture(scope="module")
def redkitchen(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    ready = tmp_path_factory.mktemp("7scenes")
    raw = shared / "real" / "7scenes-raw"
    if not raw.is_dir():
        pytest.skip(f"needs the recording at {raw}")
    said: list[str] = []
    assert prepare_seven_scenes(raw, ready, said.append) == 300
    assert "redkitchen has no TestSplit.txt: all of its 1 sequences are taken as tests" in said
    return ready


def depth_error(one: Shot, other: Shot) -> np.ndarray:
    """Metres by which the depth of one frame, carried into another, is beside what that one saw there."""
    K = one.intrinsics(640, 480)
    depth, seen = one.depth(), other.depth()
    points = apply(one.T_world_camera, points_from_depth(depth, K)[depth > 0].astype(np.float64))
    points = apply(inverse(other.T_world_camera), points)
    pixels = points[points[:, 2] > 0.1] @ K.T
    u, v = (np.rint(pixels[:, axis] / pixels[:, 2]).astype(int) for axis in (0, 1))
    inside = (u >= 0) & (u < 640) & (v >= 0) & (v < 480)
    there = seen[v[inside], u[inside]]
    return np.abs(pixels[inside, 2] - there)[there > 0]


@pytest.mark.slow
def test_registered_depth_fits_onto_neighbouring_frames(redkitchen: Path) -> None:
    shots = dataset("7scenes", redkitchen).open("redkitchen/seq-01").shots
    assert len(shots) == 300
    medians = [np.median(depth_error(shots[at], shots[at + 10])) for at in range(0, 290, 10)]
    assert max(medians) < 0.03
    assert np.median(medians) < 0.02


@pytest.mark.slow
def test_the_whole_reconstruction_task_runs(redkitchen: Path, mini: recal3r.Cut3r, tmp_path: Path) -> None:
    write_safetensors(tmp_path / "mini.safetensors", mini.config, mini.official_state_dict())
    job = Job(
        str(tmp_path / "mini.safetensors"),
        Contestant("recal3r", "recal3r"),
        (protocol("reconstruction/7scenes"),),
        (300,),
        redkitchen,
        "redkitchen/seq-01",
        tmp_path / "store",
    )
    (result,) = run_job(job).results
    assert result.error is None
    assert len(result.frames) == 150, "300 frames at stride 2"
    assert all(math.isfinite(value) for value in result.values.values())
    assert result.values["acc"] > 0.02, "the network is untrained"


@pytest.mark.slow
def test_the_truth_is_perfect_at_full_size(redkitchen: Path) -> None:
    shots = dataset("7scenes", redkitchen).open("redkitchen/seq-01").shots[::30]
    T_first_world = inverse(shots[0].T_world_camera)
    points = [apply(T_first_world, true_points(shot, Central(), (384, 512))).astype(np.float32) for shot in shots]
    task = Reconstruction(most=50_000)
    values = task.score(shots, Recorded(points_world=np.stack(points)), Central()).values
    assert values["acc"] < 1e-5
    assert values["comp"] < 1e-5
    assert values["nc"] == pytest.approx(1, abs=1e-3)
