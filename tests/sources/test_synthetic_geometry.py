"""The truth a world tells agrees with itself: depth, poses, point maps, colours, and where a camera may be."""

from itertools import islice

import numpy as np
import pytest

from recal3r.errors import ConfigError
from recal3r.sources.synthetic import (
    Effects,
    HandHeld,
    Looping,
    RoomConfig,
    SyntheticFrame,
    SyntheticWorld,
    Training,
    Turning,
    Walking,
    WorldConfig,
    draw_scene,
    points_from_depth,
)
from recal3r.sources.synthetic.trajectory import free_space

TRAJECTORIES = [HandHeld(), Walking(), Turning(), Looping(), Training()]


def reproject(a: SyntheticFrame, b: SyntheticFrame):
    """Points of a seen from b: their depth there, where they fall [N, 2], and which fall into b's image."""
    points = a.points_world().astype(np.float64).reshape(-1, 3)
    R, t = b.T_world_camera[:3, :3], b.T_world_camera[:3, 3]
    seen = (points - t) @ R
    K = b.intrinsics
    pixel = seen[:, :2] / seen[:, 2:] * [K[0, 0], K[1, 1]] + K[:2, 2]
    height, width = b.depth.shape
    inside = (seen[:, 2] > 0.05) & (pixel >= 0).all(1) & (pixel[:, 0] <= width - 1) & (pixel[:, 1] <= height - 1)
    return seen[:, 2], pixel, inside


def sample_inverse_depth(frame: SyntheticFrame, pixel: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Depth between pixels, and how much the four around differ. On a plane 1/z is linear, so this is exact."""
    inverse = 1.0 / frame.depth.astype(np.float64)
    height, width = inverse.shape
    x0 = np.minimum(pixel[:, 0].astype(int), width - 2)
    y0 = np.minimum(pixel[:, 1].astype(int), height - 2)
    x, y = pixel[:, 0] - x0, pixel[:, 1] - y0
    four = np.stack([inverse[y0 + dy, x0 + dx] for dy in (0, 1) for dx in (0, 1)])
    blend = ((1 - x) * four[0] + x * four[1]) * (1 - y) + ((1 - x) * four[2] + x * four[3]) * y
    return 1.0 / blend, 1.0 / four.min(0) - 1.0 / four.max(0)


@pytest.mark.parametrize("trajectory", TRAJECTORIES, ids=lambda t: type(t).__name__)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_depth_of_one_frame_agrees_with_the_depth_of_another(seed: int, trajectory):
    frames = list(SyntheticWorld(seed, WorldConfig(trajectory=trajectory)).frames(5))
    for a, b in ((frames[0], frames[1]), (frames[1], frames[4])):
        z, pixel, inside = reproject(a, b)
        there, spread = sample_inverse_depth(b, pixel[inside])
        z = z[inside]
        visible = (spread < 0.25 * there) & (np.abs(there - z) < 0.05)  # no depth edge, not hidden by something nearer
        assert visible.sum() > 0.3 * a.depth.size
        assert np.median(np.abs(there - z)[visible]) < 1e-4
        # Nothing is seen through: what b sees is never clearly behind a's surface, apart from edges.
        assert ((there - z > 0.05) & (spread < 0.02)).mean() < 0.01


def test_colours_follow_the_geometry():
    """What one frame paints on a surface, the next one finds there: that is what matching is learned from."""
    config = WorldConfig(width=256, height=192, trajectory=Walking(step=0.04))
    a, b = islice(SyntheticWorld(11, config).frames(), 2)
    _, pixel, inside = reproject(a, b)
    nearest = np.rint(pixel[inside]).astype(int)
    there = b.image[nearest[:, 1], nearest[:, 0]].astype(float)
    moved = np.abs(a.image.reshape(-1, 3)[inside] - there).mean()
    unmoved = np.abs(a.image.astype(float) - b.image).mean()
    assert moved < 0.6 * unmoved


def test_depth_is_z_and_pixel_centres_are_integers():
    """A camera square to a wall at a known distance reads that distance in every pixel of the bare wall."""
    config = WorldConfig(width=64, height=48, room=RoomConfig(furniture=(0, 0), side=(4.0, 4.0), height=(2.6, 2.6)))
    world = SyntheticWorld(3, config)
    pose = np.eye(4)
    pose[:3, :3] = np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])  # forward = +x, right = −y, down = −z
    pose[:3, 3] = (1.0, 2.0, 1.3)
    _, depth = world.render(pose)
    K = world.camera.intrinsics()
    assert depth[24, 32] == pytest.approx(3.0, abs=1e-5)
    assert np.abs(depth[14:34, 22:43] - 3.0).max() < 1e-5
    points = points_from_depth(depth, K)
    assert points[24, 32, :2] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert points[24, 33, 0] == pytest.approx(3.0 / K[0, 0], rel=1e-5)
    assert points[25, 32, 1] == pytest.approx(3.0 / K[1, 1], rel=1e-5)
    # Left in the image is +y in the world: the wall y = 4 bounds the left edge.
    world_points = points @ pose[:3, :3].T + pose[:3, 3]
    assert world_points[24, 0, 1] > world_points[24, 63, 1]
    assert world_points[0, 32, 2] > world_points[47, 32, 2]


def test_every_point_lies_on_a_wall_or_a_box():
    world = SyntheticWorld(4, WorldConfig(trajectory=Walking()))
    room = np.array(world.spec.room)
    for frame in world.frames(3):
        points = frame.points_world().reshape(-1, 3)
        to_surface = np.minimum(np.abs(points), np.abs(points - room)).min(1)
        for box in world.spec.boxes:
            outside = np.abs(points - box.centre) - 0.5 * np.array(box.size)
            signed = np.linalg.norm(np.maximum(outside, 0), axis=1) + np.minimum(outside.max(1), 0)
            to_surface = np.minimum(to_surface, np.abs(signed))
        assert to_surface.max() < 1e-4


def test_camera_keeps_its_distance_from_walls_and_boxes():
    """50 rooms, 500 frames of each kind of way through them."""
    for seed in range(50):
        spec = draw_scene(seed, movers=seed % 3)
        room = np.array(spec.room)
        centres = np.array([box.centre for box in spec.boxes])
        halves = 0.5 * np.array([box.size for box in spec.boxes])
        for trajectory in TRAJECTORIES:
            poses = np.stack(list(islice(trajectory.poses(free_space(spec), seed), 500)))
            at = poses[:, :3, 3]
            assert np.isfinite(poses).all()
            assert (np.minimum(at, room - at).min(0) >= 0.25).all(), (seed, trajectory)
            gap = np.maximum(np.abs(at[:, None] - centres) - halves, 0.0)
            assert np.linalg.norm(gap, axis=2).min() >= 0.25, (seed, trajectory)


def test_moving_boxes_keep_their_distance_from_the_camera_and_from_furniture():
    for seed in range(50):
        spec = draw_scene(seed, movers=2)
        low, high = np.array(spec.free_low), np.array(spec.free_high)
        for time in np.linspace(0, 300, 61):
            places = [mover.place(time)[0] for mover in spec.movers]
            for mover, place in zip(spec.movers, places, strict=True):
                reach = 0.5 * np.hypot(*mover.box.size[:2])
                outside = np.maximum(np.maximum(low - place, np.array(place) - high), 0)[:2]
                assert np.linalg.norm(outside) - reach >= 0.25
                for box in spec.boxes:
                    gap = np.maximum(np.abs(np.array(place) - box.centre) - 0.5 * np.array(box.size), 0)[:2]
                    assert np.linalg.norm(gap) > reach
            assert abs(places[0][1] - places[1][1]) > 0.44


def test_rotations_are_rotations():
    for trajectory in TRAJECTORIES:
        for pose in islice(trajectory.poses(free_space(draw_scene(8)), 8), 50):
            R = pose[:3, :3]
            np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
            assert np.linalg.det(R) == pytest.approx(1.0)
            assert R[2, 1] < 0, "the camera's y axis looks down"


@pytest.mark.parametrize("trajectory", TRAJECTORIES, ids=lambda t: type(t).__name__)
def test_a_trajectory_can_start_anywhere(trajectory):
    space = free_space(draw_scene(5))
    from_zero = list(islice(trajectory.poses(space, 5), 60))[40:]
    from_forty = list(islice(trajectory.poses(space, 5, 40), 20))
    np.testing.assert_array_equal(from_zero, from_forty)


def test_a_camera_outside_of_the_room_is_refused():
    world = SyntheticWorld(0)
    pose = np.eye(4)
    pose[:3, 3] = (-1.0, 1.0, 1.0)
    with pytest.raises(ConfigError, match="outside of the room"):
        world.render(pose)


def test_supersampling_changes_colour_and_not_depth():
    plain = SyntheticWorld(6, WorldConfig(width=64, height=48)).frame(3)
    smooth = SyntheticWorld(6, WorldConfig(width=64, height=48, supersample=3)).frame(3)
    np.testing.assert_array_equal(plain.depth, smooth.depth)
    difference = np.abs(plain.image.astype(int) - smooth.image).mean()
    assert 0.1 < difference < 15.0


@pytest.mark.parametrize(
    "build",
    [
        lambda: WorldConfig(width=1),
        lambda: WorldConfig(fov_degrees=0),
        lambda: WorldConfig(focal=-1.0),
        lambda: WorldConfig(supersample=0),
        lambda: WorldConfig(frame_rate=0),
        lambda: RoomConfig(margin=0.1),
        lambda: RoomConfig(side=(1.5, 2.0)),
        lambda: RoomConfig(height=(1.0, 2.0)),
        lambda: RoomConfig(furniture=(3, 1)),
        lambda: Walking(step=0.0),
        lambda: HandHeld(turn=float("nan")),
        lambda: Training(shortest=0.3, longest=0.2),
        lambda: Effects(moving_objects=5),
        lambda: Effects(dropped=1.0),
        lambda: Effects(motion_blur=2.0),
        lambda: Effects(noise=-1.0),
        lambda: SyntheticWorld(-1),
        lambda: SyntheticWorld(0).frame(-1),
    ],
)
def test_what_describes_no_world_is_refused(build):
    with pytest.raises(ConfigError):
        build()
