"""Poses, cameras, alignment: group axioms, round trips, hand-made cases."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from recal3r.errors import GeometryError
from recal3r.geometry.align import trajectory_error, umeyama
from recal3r.geometry.camera import focal_of, intrinsics_of, ray_map
from recal3r.geometry.pose import (
    apply,
    inverse,
    pose_from_quaternion,
    quaternion_from_rotation,
    wxyz_from_xyzw,
    xyzw_from_wxyz,
)
from recal3r.types import Camera, Crop

parts = st.floats(-1, 1)
quaternions = st.tuples(parts, parts, parts, parts).filter(lambda q: np.linalg.norm(q) > 1e-3)
vectors = st.tuples(*[st.floats(-10, 10)] * 3)


def unit(q: tuple[float, ...]) -> np.ndarray:
    return np.array(q) / np.linalg.norm(q)


@given(quaternions, vectors)
def test_pose_is_rigid_and_its_inverse_undoes_it(q: tuple, t: tuple) -> None:
    pose = pose_from_quaternion(np.array(t), unit(q))
    np.testing.assert_allclose(pose[:3, :3] @ pose[:3, :3].T, np.eye(3), atol=1e-12)
    assert np.linalg.det(pose[:3, :3]) == pytest.approx(1)
    np.testing.assert_allclose(inverse(pose) @ pose, np.eye(4), atol=1e-12)
    points = np.array([[1.0, 2, 3], [-4, 5, 0.5]])
    np.testing.assert_allclose(apply(inverse(pose), apply(pose, points)), points, atol=1e-10)


@given(quaternions)
def test_quaternion_survives_the_matrix(q: tuple) -> None:
    """Up to its sign, which is chosen with w >= 0; half turns and near-identities included."""
    wxyz = unit(q)
    found = quaternion_from_rotation(pose_from_quaternion(np.zeros(3), wxyz)[:3, :3])
    assert found[0] >= 0
    assert abs(found @ wxyz) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, np.pi / 2, np.pi - 1e-9, np.pi])
@pytest.mark.parametrize("axis", np.eye(3).tolist())
def test_quaternion_of_special_angles(axis: list[float], angle: float) -> None:
    wxyz = np.array([np.cos(angle / 2), *(np.sin(angle / 2) * np.array(axis))])
    found = quaternion_from_rotation(pose_from_quaternion(np.zeros(3), wxyz)[:3, :3])
    assert abs(found @ wxyz) == pytest.approx(1, abs=1e-12)


def test_quaternion_order() -> None:
    """A quarter turn about z takes x to y."""
    half = np.sqrt(0.5)
    pose = pose_from_quaternion(np.zeros(3), np.array([half, 0, 0, half]))
    np.testing.assert_allclose(apply(pose, np.array([1.0, 0, 0])), [0, 1, 0], atol=1e-12)
    assert xyzw_from_wxyz(np.array([1, 2, 3, 4])).tolist() == [2, 3, 4, 1]
    assert wxyz_from_xyzw(np.array([2, 3, 4, 1])).tolist() == [1, 2, 3, 4]


@given(quaternions, vectors, st.floats(0.1, 10), st.integers(0, 10**6))
def test_umeyama_finds_the_similarity(q: tuple, t: tuple, scale: float, seed: int) -> None:
    source = np.random.default_rng(seed).normal(size=(12, 3))
    rotation = pose_from_quaternion(np.zeros(3), unit(q))[:3, :3]
    found = umeyama(source, scale * source @ rotation.T + np.array(t))
    assert found.scale == pytest.approx(scale)
    np.testing.assert_allclose(found.rotation, rotation, atol=1e-9)
    np.testing.assert_allclose(found.translation, t, atol=1e-8)


def test_umeyama_never_mirrors() -> None:
    source = np.random.default_rng(0).normal(size=(20, 3))
    found = umeyama(source, source * [1, 1, -1])
    assert np.linalg.det(found.rotation) == pytest.approx(1)


def test_trajectory_error() -> None:
    walk = np.cumsum(np.random.default_rng(0).normal(size=(30, 3)), axis=0)
    assert trajectory_error(3 * walk + 1, walk) == pytest.approx(0, abs=1e-12)
    still = np.zeros((30, 3))
    spread = np.sqrt(np.square(walk - walk.mean(0)).sum(1).mean())
    assert trajectory_error(still, walk) == pytest.approx(spread)
    with pytest.raises(GeometryError, match="cannot be aligned"):
        umeyama(walk, walk[:5])


@pytest.mark.parametrize(("width", "height", "focal"), [(64, 48, 50.0), (63, 41, 80.0), (512, 288, 400.0)])
def test_focal_of_exact_points(width: int, height: int, focal: float) -> None:
    intrinsics = intrinsics_of(focal, width, height)
    column, row = np.meshgrid(np.arange(width), np.arange(height))
    rays = np.stack((column, row, np.ones_like(row)), -1) @ np.linalg.inv(intrinsics).T
    points = rays * np.random.default_rng(0).uniform(0.5, 5, size=(height, width, 1))
    points[: height // 5, :, :2] *= 1.5  # wrong in one place, which a mean would follow and Weiszfeld does not
    assert focal_of(torch.from_numpy(points)[None]).item() == pytest.approx(focal, rel=0.02)
    exact = rays * 2.0
    assert focal_of(torch.from_numpy(exact)[None]).item() == pytest.approx(focal, rel=1e-9)


def test_focal_is_per_sample() -> None:
    draw = torch.Generator().manual_seed(0)
    points = torch.randn(3, 16, 16, 3, generator=draw, dtype=torch.float64)
    alone = [focal_of(points[i : i + 1]).item() for i in range(3)]
    np.testing.assert_allclose(focal_of(points).numpy(), alone)


def test_rays_as_the_weights_know_them() -> None:
    pose = pose_from_quaternion(np.array([1.0, 2, 3]), unit((1, 0.2, 0.3, 0.1)))
    camera = Camera(intrinsics_of(40.0, 8, 6), 8, 6, pose)
    rays = ray_map(camera)
    assert rays.shape == (6, 8, 6)
    expected = pose[:3, :3] @ np.linalg.inv(camera.intrinsics) @ [5, 2, 1] + pose[:3, 3]
    np.testing.assert_allclose(rays[2, 5, 3:], expected / np.linalg.norm(expected))
    np.testing.assert_allclose(rays[..., :3], np.broadcast_to([1.0, 2, 3], (6, 8, 3)))


@pytest.mark.parametrize(
    "crop",
    [
        Crop((640, 480), (512, 384)),
        Crop((1920, 1080), (512, 288)),
        Crop((480, 640), (384, 512), left=8, top=16),
        Crop((101, 77), (512, 390), left=0, top=3),
    ],
)
def test_intrinsics_at_the_original_resolution(crop: Crop) -> None:
    """A picture edge is where it was: the network pixel x covers [x - ½, x + ½] of the resized, shifted picture."""
    camera = Camera(intrinsics_of(300.0, 320, 256), 320, 256, crop=crop)
    original = camera.original
    assert (original.width, original.height) == crop.original
    assert original.original is original
    point = np.array([0.3, -0.2, 2.0])
    x, y = (camera.intrinsics @ point)[:2] / point[2]
    x_original, y_original = (original.intrinsics @ point)[:2] / point[2]
    assert x_original + 0.5 == pytest.approx((x + crop.left + 0.5) * crop.original[0] / crop.resized[0])
    assert y_original + 0.5 == pytest.approx((y + crop.top + 0.5) * crop.original[1] / crop.resized[1])
