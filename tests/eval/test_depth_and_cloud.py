"""Depth alignment, clouds and medians against cases worked out by hand, brute force and other programs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recal3r.eval.metrics.cloud import normals, surface_error
from recal3r.eval.metrics.depth import (
    Line,
    Metric,
    OriginalScaleAndShift,
    Scale,
    ScaleAndShift,
    depth_error,
    in_one_piece,
)
from recal3r.eval.metrics.icp import Icp
from recal3r.eval.metrics.median import median
from recal3r.geometry.pose import apply, pose_from_quaternion

SEEDS = st.integers(0, 10**6)


def depths(seed: int, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.uniform(0.5, 8, count)
    return (truth * rng.normal(1, 0.05, count)).clip(0.1), truth


# -- median ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(allow_nan=False, width=64), min_size=1, max_size=60), st.integers(1, 7))
def test_median_in_pieces_is_the_median(numbers: list[float], size: int) -> None:
    def pieces() -> list[np.ndarray]:
        return [np.array(numbers[at : at + size]) for at in range(0, len(numbers), size)]

    expected = sorted(numbers)[(len(numbers) - 1) // 2]
    assert median(lambda: iter(pieces())) == expected
    assert median(lambda: iter(pieces()), in_memory=0) == expected


def test_median_of_nothing_is_nan() -> None:
    assert np.isnan(median(lambda: iter([])))


# -- depth -----------------------------------------------------------------------------------------------------------


def test_too_deep_by_thirty_percent() -> None:
    _, truth = depths(0)
    pairs = in_one_piece(1.3 * truth, truth)
    error, count = depth_error(pairs, Metric().line(pairs))
    assert count == 400
    assert error.abs_rel == pytest.approx(0.3)
    assert error.sq_rel == pytest.approx(0.09 * truth.mean())
    assert error.rmse == pytest.approx(0.3 * np.sqrt((truth**2).mean()))
    assert error.log_rmse == pytest.approx(np.log(1.3))
    assert error[4:] == (0, 1, 1)
    for alignment in (Scale(), ScaleAndShift()):
        assert depth_error(pairs, alignment.line(pairs))[0].abs_rel == pytest.approx(0, abs=1e-6)


def test_pieces_change_nothing() -> None:
    estimate, truth = depths(1)
    whole = in_one_piece(estimate, truth)
    parts = [slice(0, 17), slice(17, 300), slice(300, None)]

    def pieces() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return iter([(estimate[part], truth[part]) for part in parts])

    for alignment in (Metric(), Scale(), ScaleAndShift(), OriginalScaleAndShift(steps=20)):
        assert alignment.line(pieces) == pytest.approx(alignment.line(whole), rel=1e-9)
        assert depth_error(pieces)[0] == pytest.approx(depth_error(whole)[0])


def test_no_valid_pixel_is_nan() -> None:
    error, count = depth_error(lambda: iter([]))
    assert count == 0
    assert np.isnan(error).all()


@settings(max_examples=50, deadline=None)
@given(SEEDS, st.floats(0.3, 3))
def test_scale_is_the_least_absolute_one(seed: int, factor: float) -> None:
    """Against all candidates: the best scale makes some pixel exact."""
    estimate, truth = depths(seed, 60)
    estimate = factor * estimate
    candidates = truth / estimate
    best = np.abs(candidates[:, None] * estimate - truth).sum(1).min()
    found = Scale(steps=200).line(in_one_piece(estimate, truth)).scale
    assert np.abs(found * estimate - truth).sum() == pytest.approx(best, rel=1e-3)


@settings(max_examples=50, deadline=None)
@given(SEEDS, st.floats(0.3, 3), st.floats(-0.4, 2))
def test_scale_and_shift_is_exact(seed: int, factor: float, shift: float) -> None:
    """Against brute force: the best line goes through two of the pixels."""
    estimate, truth = depths(seed, 30)
    estimate = factor * estimate + shift
    first, second = np.triu_indices(len(estimate), 1)
    scales = (truth[first] - truth[second]) / (estimate[first] - estimate[second])
    shifts = truth[first] - scales * estimate[first]
    best = np.abs(scales[:, None] * estimate + shifts[:, None] - truth).sum(1).min()
    line = ScaleAndShift().line(in_one_piece(estimate, truth))
    assert np.abs(line.scale * estimate + line.shift - truth).sum() == pytest.approx(best, rel=1e-9)


def test_the_original_optimiser_barely_moves() -> None:
    estimate, truth = depths(3)
    pairs = in_one_piece(2 * estimate + 1, truth)
    start = np.median(truth) / np.median(2 * estimate + 1)
    line = OriginalScaleAndShift().line(pairs)
    assert abs(line.scale - start) < 0.15
    assert abs(line.shift) < 0.15
    exact = ScaleAndShift().line(pairs)
    assert depth_error(pairs, exact)[0].abs_rel < depth_error(pairs, line)[0].abs_rel
    assert exact == pytest.approx(Line(0.5, -0.5), abs=0.05)


# -- clouds ----------------------------------------------------------------------------------------------------------


def cloud(seed: int, count: int) -> np.ndarray:
    """Points on a wavy sheet."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0, 1, (2, count))
    return np.column_stack((x, y, 0.1 * np.sin(5 * x) + 0.02 * rng.normal(size=count)))


def brute_normals(points: np.ndarray, neighbours: int) -> np.ndarray:
    found = []
    for point in points:
        around = points[np.argsort(((points - point) ** 2).sum(1), kind="stable")[:neighbours]]
        found.append(np.linalg.svd(around - around.mean(0))[2][2])
    return np.array(found)


@settings(max_examples=50, deadline=None)
@given(SEEDS, st.integers(35, 120), st.integers(35, 120))
def test_acc_comp_and_nc_equal_brute_force(seed: int, many: int, others: int) -> None:
    estimate, truth = cloud(seed, many), cloud(seed + 1, others)
    distance = np.sqrt(((estimate[:, None] - truth[None]) ** 2).sum(2))
    n_estimate, n_truth = brute_normals(estimate, 30), brute_normals(truth, 30)
    forth = np.abs((n_estimate * n_truth[distance.argmin(1)]).sum(1))
    back = np.abs((n_truth * n_estimate[distance.argmin(0)]).sum(1))
    found = surface_error(estimate, truth)
    assert found.acc == pytest.approx(distance.min(1).mean(), abs=1e-6)
    assert found.comp == pytest.approx(distance.min(0).mean(), abs=1e-6)
    assert found.nc == pytest.approx((forth.mean() + back.mean()) / 2, abs=1e-6)
    assert found.acc_median == pytest.approx(np.median(distance.min(1)), abs=1e-6)
    assert found.comp_median == pytest.approx(np.median(distance.min(0)), abs=1e-6)
    assert found.nc_median == pytest.approx((np.median(forth) + np.median(back)) / 2, abs=1e-6)


def plane() -> np.ndarray:
    x, y = np.meshgrid(np.arange(0, 3, 0.1), np.arange(0, 3, 0.1))
    return np.column_stack((x.ravel(), y.ravel(), np.full(x.size, 2.0)))


def test_a_plane_five_centimetres_off() -> None:
    found = surface_error(plane() + np.array([0, 0, 0.05]), plane())
    assert found == pytest.approx((0.05, 0.05, 1, 0.05, 0.05, 1), abs=1e-9)
    assert surface_error(plane(), plane()) == pytest.approx((0, 0, 1, 0, 0, 1), abs=1e-9)


def test_normals_of_a_tilted_plane() -> None:
    tilt = pose_from_quaternion(np.zeros(3), np.array([np.cos(0.3), np.sin(0.3), 0, 0]))
    found = normals(apply(tilt, plane()))
    np.testing.assert_allclose(np.abs(found @ tilt[:3, 2]), 1, atol=1e-9)


def test_unknown_points_are_left_out_and_nothing_is_nan() -> None:
    broken = np.concatenate((plane(), np.full((5, 3), np.nan)))
    assert surface_error(broken, plane()).acc == 0
    assert np.isnan(surface_error(np.full((5, 3), np.nan), plane())).all()


def test_icp_finds_a_small_motion_and_no_other() -> None:
    rng = np.random.default_rng(0)
    target = rng.uniform(0, 1, (3000, 3))
    small = pose_from_quaternion(np.array([0.01, -0.01, 0.005]), np.array([np.cos(0.004), 0, 0, np.sin(0.004)]))
    np.testing.assert_allclose(Icp(steps=100, tolerance=0)(apply(small, target), target), target, atol=1e-6)
    far = target + 10
    assert Icp()(far, target) is far, "what has no partner within reach stays where it is"
    scaled = 1.02 * (target - 0.5) + 0.5
    moved = Icp()(scaled, target)
    assert np.ptp(moved, 0) == pytest.approx(np.ptp(scaled, 0), rel=1e-3), "there is no scale"
