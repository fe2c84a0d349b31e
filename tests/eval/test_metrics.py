"""Metrics on cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recal3r.eval.bootstrap import bootstrap
from recal3r.eval.metrics.depth import abs_rel, inliers
from recal3r.eval.metrics.pose import angle, ate, rotation_drift, rpe, spread, straight_line
from recal3r.geometry.pose import pose_from_quaternion


def walk(seed: int, count: int = 20) -> np.ndarray:
    rng = np.random.default_rng(seed)
    q = np.cumsum(rng.normal(size=(count, 4)) * 0.1, axis=0) + np.array([1, 0, 0, 0])
    return pose_from_quaternion(
        np.cumsum(rng.normal(size=(count, 3)), axis=0), q / np.linalg.norm(q, axis=1, keepdims=True)
    )


@given(st.integers(0, 10**6), st.floats(0.1, 10))
def test_the_truth_in_another_world_is_perfect(seed: int, scale: float) -> None:
    truth = walk(seed)
    other = walk(seed + 1, 1)[0]
    estimate = other @ truth
    estimate[:, :3, 3] *= scale
    assert ate(estimate, truth) == pytest.approx(0, abs=1e-9)
    assert rpe(estimate, truth) == pytest.approx((0, 0), abs=1e-5)
    assert rotation_drift(estimate, truth) == pytest.approx(0, abs=1e-5)


def test_hand_made_trajectories() -> None:
    truth = straight_line(5)
    bent = truth.copy()
    bent[:, 1, 3] = [0, 1, 0, -1, 0]  # the best line through it has the same centre; scale shrinks a little
    assert 0 < ate(bent, truth) < spread(truth) == pytest.approx(np.sqrt(2))
    assert ate(np.tile(np.eye(4), (5, 1, 1)), truth) == pytest.approx(spread(truth))
    turned = truth.copy()
    half = np.radians(30) / 2
    turned[4] = turned[4] @ pose_from_quaternion(np.zeros(3), np.array([np.cos(half), 0, np.sin(half), 0]))
    assert rotation_drift(turned, truth) == pytest.approx(30)
    assert rpe(turned, truth)[1] == pytest.approx(30 / 2)  # one of four steps is off by 30 degrees: sqrt(900 / 4)


@pytest.mark.parametrize("degrees", [0.0, 1e-6, 1.0, 90.0, 179.999, 180.0])
def test_angle(degrees: float) -> None:
    half = np.radians(degrees) / 2
    rotation = pose_from_quaternion(np.zeros(3), np.array([np.cos(half), np.sin(half), 0, 0]))[:3, :3]
    assert np.degrees(angle(rotation)) == pytest.approx(degrees, abs=1e-6)


def test_a_trajectory_that_is_lost_is_nan_and_never_a_number() -> None:
    broken = walk(0)
    broken[3, 0, 3] = np.nan
    assert np.isnan(ate(broken, walk(0)))
    assert np.isnan(rpe(broken, walk(0))).all()


def test_depth() -> None:
    truth = np.array([[1.0, 2.0], [4.0, 0.0]])  # 0: unknown
    assert abs_rel(1.3 * truth, truth) == pytest.approx(0.3)
    assert inliers(1.3 * truth, truth) == 0
    assert inliers(1.2 * truth, truth) == 1
    assert inliers(np.array([[1.0, -2.0], [4.0, 1.0]]), truth) == pytest.approx(2 / 3)
    assert np.isnan(abs_rel(truth, np.zeros((2, 2))))
    assert np.isnan(inliers(truth, np.zeros((2, 2))))


def test_bootstrap() -> None:
    values = np.random.default_rng(0).normal(3.0, 1.0, size=400)
    found = bootstrap(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.low < found.mean < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * values.std() / 20, rel=0.1)
    with_failures = bootstrap(np.array([1.0, np.nan, 3.0]))
    assert (with_failures.mean, with_failures.scenes, with_failures.of) == (2.0, 2, 3)
    assert np.isnan(bootstrap(np.array([np.nan])).mean)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.integers(3, 40))
def test_ate_and_rpe_equal_those_of_evo(seed: int, count: int) -> None:
    metrics, trajectory = pytest.importorskip("evo.core.metrics"), pytest.importorskip("evo.core.trajectory")
    estimate, truth = walk(seed, count), walk(seed + 1, count)
    moved = trajectory.PosePath3D(poses_se3=list(estimate.copy()))
    reference = trajectory.PosePath3D(poses_se3=list(truth))
    moved.align(reference, correct_scale=True)

    def rmse(metric: object) -> float:
        metric.process_data((reference, moved))
        return metric.get_statistic(metrics.StatisticsType.rmse)

    relation = metrics.PoseRelation
    step = {"delta": 1.0, "delta_unit": metrics.Unit.frames, "all_pairs": True}
    assert ate(estimate, truth) == pytest.approx(rmse(metrics.APE(relation.translation_part)), abs=1e-6)
    found = rpe(estimate, truth)
    assert found[0] == pytest.approx(rmse(metrics.RPE(relation.translation_part, **step)), abs=1e-6)
    assert found[1] == pytest.approx(rmse(metrics.RPE(relation.rotation_angle_deg, **step)), abs=1e-6)
