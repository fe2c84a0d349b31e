"""Determinism, the statistics of trajectories, effects, splits and speed."""

import hashlib
import subprocess
import sys
import time
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

import recal3r.sources.synthetic as package
from recal3r.errors import ConfigError
from recal3r.sources.synthetic import (
    Effects,
    HandHeld,
    Looping,
    SyntheticWorld,
    Training,
    Turning,
    Walking,
    WorldConfig,
    draw_scene,
    split_seed,
)
from recal3r.sources.synthetic.poses import between, look_along, rotation_matrix, rotation_vector
from recal3r.sources.synthetic.trajectory import free_space

ALL_EFFECTS = Effects(moving_objects=2, exposure=0.8, motion_blur=0.5, noise=3.0, dropped=0.3)

DIGEST = """
import hashlib
from recal3r.sources.synthetic import Effects, SyntheticWorld, Training, WorldConfig
effects = Effects(moving_objects=2, exposure=0.8, motion_blur=0.5, noise=3.0, dropped=0.3)
digest = hashlib.sha256()
for f in SyntheticWorld(21, WorldConfig(width=64, height=48, trajectory=Training(), effects=effects)).frames(6):
    for array in (f.image, f.depth, f.T_world_camera, f.intrinsics):
        digest.update(array.tobytes())
    digest.update(f"{f.index} {f.timestamp}".encode())
print(digest.hexdigest())
"""


def digest_here() -> str:
    digest = hashlib.sha256()
    world = SyntheticWorld(21, WorldConfig(width=64, height=48, trajectory=Training(), effects=ALL_EFFECTS))
    for f in world.frames(6):
        for array in (f.image, f.depth, f.T_world_camera, f.intrinsics):
            digest.update(array.tobytes())
        digest.update(f"{f.index} {f.timestamp}".encode())
    return digest.hexdigest()


def test_one_seed_gives_the_same_bytes_twice_and_in_another_process():
    source = Path(package.__file__).parents[3]
    other = subprocess.run(
        [sys.executable, "-c", DIGEST],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(source), "PYTHONHASHSEED": "17"},
    )
    assert digest_here() == digest_here() == other.stdout.strip()


def test_another_seed_gives_another_room_and_another_walk_another_way():
    first, second = SyntheticWorld(1).frame(0), SyntheticWorld(2).frame(0)
    assert (first.image != second.image).mean() > 0.5
    again = SyntheticWorld(1, walk=1)
    assert again.spec == SyntheticWorld(1).spec
    assert not np.array_equal(again.frame(0).T_world_camera, first.T_world_camera)


def test_a_frame_does_not_depend_on_how_it_was_reached():
    world = SyntheticWorld(9, WorldConfig(width=64, height=48, effects=ALL_EFFECTS))
    streamed = list(world.frames(12))[-1]
    direct = world.frame(streamed.index)
    np.testing.assert_array_equal(streamed.image, direct.image)
    np.testing.assert_array_equal(streamed.depth, direct.depth)
    resumed = next(world.frames(start=streamed.index))
    np.testing.assert_array_equal(streamed.image, resumed.image)


def steps_and_turns(trajectory, seed: int, length: int) -> tuple[np.ndarray, np.ndarray]:
    """Metres and degrees from each frame to the next."""
    poses = np.stack(list(islice(trajectory.poses(free_space(draw_scene(seed)), seed), length)))
    steps = np.linalg.norm(np.diff(poses[:, :3, 3], axis=0), axis=1)
    turns = [np.linalg.norm(rotation_vector(a[:3, :3].T @ b[:3, :3])) for a, b in pairwise(poses)]
    return steps, np.degrees(turns)


def test_training_steps_are_large_but_bounded():
    per_scene = []
    for seed in range(60):
        steps, turns = steps_and_turns(Training(), seed, 100)
        assert steps.min() > 0.12 - 1e-9
        assert steps.max() < 0.40 + 1e-9
        assert turns.max() < 12.0
        per_scene.append((steps.mean(), turns.mean()))
    step, turn = np.mean(per_scene, axis=0)
    assert 0.18 < step < 0.28
    assert 3.5 < turn < 4.8


def test_half_of_the_training_scenes_keep_turning():
    turning = 0
    for seed in range(100):
        poses = np.stack(list(islice(Training().poses(free_space(draw_scene(seed)), seed), 120)))
        heading = np.unwrap(np.arctan2(poses[:, 1, 2], poses[:, 0, 2]))
        turning += abs(heading[-1] - heading[0]) > 2 * np.pi
    assert 35 <= turning <= 65


def test_neighbouring_training_frames_overlap():
    shares = []
    for seed in range(20):
        frames = list(SyntheticWorld(seed, WorldConfig(width=64, height=48, trajectory=Training())).frames(12))
        for a, b in pairwise(frames):
            points = (a.points_world().reshape(-1, 3) - b.T_world_camera[:3, 3]) @ b.T_world_camera[:3, :3]
            pixel = points[:, :2] / points[:, 2:] * b.intrinsics[0, 0] + b.intrinsics[:2, 2]
            inside = (points[:, 2] > 0) & (pixel > -0.5).all(1) & (pixel < [63.5, 47.5]).all(1)
            shares.append(inside.mean())
    assert min(shares) > 0.3
    assert np.mean(shares) > 0.7


def test_a_walk_is_slow():
    """The stream that a reconstruction in the hand sees: some centimetres and one or two degrees a frame."""
    for seed in range(5):
        steps, turns = steps_and_turns(Walking(step=0.03, turn=1.5), seed, 300)
        assert 0.015 < steps.mean() < 0.04
        assert steps.max() < 0.045
        assert 1.0 < turns.mean() < 2.5


def test_steps_scale_with_their_parameter():
    for kind, factor in ((HandHeld, 1.0), (Turning, 1.0), (Walking, 0.85)):
        for step in (0.01, 0.04):
            mean = np.mean([steps_and_turns(kind(step=step), seed, 200)[0].mean() for seed in range(8)])
            assert mean == pytest.approx(factor * step, rel=0.35), kind


def test_turning_turns_and_looping_returns():
    poses = np.stack(list(islice(Turning(turn=3.0).poses(free_space(draw_scene(2)), 2), 241)))
    heading = np.unwrap(np.arctan2(poses[:, 1, 2], poses[:, 0, 2]))
    assert abs(heading[-1] - heading[0]) == pytest.approx(np.radians(720), abs=0.5)

    at = np.stack([p[:3, 3] for p in islice(Looping(step=0.05).poses(free_space(draw_scene(2)), 2), 400)])
    steps = np.linalg.norm(np.diff(at, axis=0), axis=1)
    assert steps.mean() == pytest.approx(0.05, rel=0.1)
    distance = np.linalg.norm(at[20:, :2] - at[0, :2], axis=1)
    assert distance.max() > 1.0
    assert distance.min() < 0.02, "a lap ends where it began"


def test_depth_of_a_moving_box_is_exact():
    """Pixels that change because a box moved lie on the box where it is at that moment."""
    config = WorldConfig(width=128, height=96, effects=Effects(moving_objects=1), trajectory=HandHeld())
    hits = 0
    for seed in range(6):
        world = SyntheticWorld(seed, config)
        mover = world.spec.movers[0]
        target = np.array(mover.place(0)[0])
        eye = np.array([*world.spec.free_low[:2], 1.2])
        yaw = np.arctan2(target[1] - eye[1], target[0] - eye[0])
        pose = look_along((float(eye[0]), float(eye[1]), 1.2), float(yaw), -0.2, 0.0)
        depth = {t: world.render(pose, t)[1] for t in (0.0, 7.5, 20.0)}
        for t in (7.5, 20.0):
            nearer = depth[t] < depth[0.0] - 1e-3  # only the box can have come in front
            points = points_of(world, depth[t], pose)[nearer]
            centre, turn = mover.place(t)
            c, s = np.cos(turn), np.sin(turn)
            local = (points - centre) @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
            outside = np.abs(local) - 0.5 * np.array(mover.box.size)
            assert np.abs(outside.max(1)).max(initial=0.0) < 1e-4
            hits += nearer.sum()
    assert hits > 200


def points_of(world: SyntheticWorld, depth: np.ndarray, pose: np.ndarray) -> np.ndarray:
    points = package.points_from_depth(depth, world.camera.intrinsics()).astype(np.float64)
    return points @ pose[:3, :3].T + pose[:3, 3]


def test_dropped_frames_leave_gaps_in_index_and_time():
    world = SyntheticWorld(3, WorldConfig(width=32, height=24, effects=Effects(dropped=0.4), frame_rate=20.0))
    frames = list(world.frames(60))
    index = np.array([f.index for f in frames])
    assert len(frames) == 60
    assert index[0] == 0
    assert 80 < index[-1] < 130
    np.testing.assert_allclose([f.timestamp for f in frames], index / 20.0)
    whole = SyntheticWorld(3, WorldConfig(width=32, height=24))
    np.testing.assert_array_equal(frames[7].T_world_camera, whole.frame(frames[7].index).T_world_camera)
    np.testing.assert_array_equal(frames[7].image, whole.frame(frames[7].index).image)


@pytest.mark.parametrize("effects", [Effects(exposure=1.0), Effects(motion_blur=1.0), Effects(noise=5.0)])
def test_effects_change_the_picture_and_never_the_truth(effects: Effects):
    clean, touched = (
        list(SyntheticWorld(13, WorldConfig(effects=e, trajectory=Walking(step=0.05))).frames(6))
        for e in (Effects(), effects)
    )
    for a, b in zip(clean, touched, strict=True):
        np.testing.assert_array_equal(a.depth, b.depth)
        np.testing.assert_array_equal(a.T_world_camera, b.T_world_camera)
        assert (a.image != b.image).mean() > 0.05


def test_noise_has_the_strength_asked_for():
    clean = SyntheticWorld(13).frame(0).image.astype(float)
    noisy = SyntheticWorld(13, WorldConfig(effects=Effects(noise=6.0))).frame(0).image.astype(float)
    middle = (clean > 40) & (clean < 215)  # where nothing is clipped
    assert (noisy - clean)[middle].std() == pytest.approx(6.0, rel=0.05)


def test_motion_blur_weakens_edges():
    def edges(effects: Effects) -> float:
        config = WorldConfig(width=256, height=192, effects=effects, trajectory=Turning(turn=5.0))
        return float(np.abs(np.diff(SyntheticWorld(13, config).frame(5).image.astype(float), axis=1)).mean())

    assert edges(Effects(motion_blur=1.0, blur_samples=9)) < 0.8 * edges(Effects())


def test_between_is_a_geodesic():
    a, b = look_along((1.0, 2.0, 1.5), 0.3, -0.1, 0.05), look_along((1.2, 2.1, 1.4), 0.9, 0.2, -0.1)
    np.testing.assert_allclose(between(a, b, 0.0), a, atol=1e-12)
    np.testing.assert_allclose(between(a, b, 1.0), b, atol=1e-12)
    middle = between(a, b, 0.5)
    np.testing.assert_allclose(between(a, middle, 2.0), b, atol=1e-12)
    tiny = np.array([1e-11, -2e-11, 1e-11])
    np.testing.assert_allclose(rotation_vector(rotation_matrix(tiny)), tiny, atol=1e-15)


def test_splits_share_no_seed():
    counts = (0, 1, 12345, (1 << 40) - 1)
    seeds = {split: [split_seed(split, k) for k in counts] for split in ("train", "validation", "test")}
    assert max(seeds["train"]) < min(seeds["validation"])
    assert max(seeds["validation"]) < min(seeds["test"])
    for split in seeds:
        for wrong in (-1, 1 << 40):
            with pytest.raises(ConfigError, match="does not exist"):
                split_seed(split, wrong)
    with pytest.raises(ConfigError, match="no split"):
        split_seed("dev", 0)  # type: ignore[arg-type]


def test_neighbouring_frames_can_be_told_apart_at_the_size_of_training():
    """At 64×48 there is texture in every frame, and neighbours differ by far more than rounding."""
    for seed in range(20):
        frames = list(SyntheticWorld(seed, WorldConfig(width=64, height=48, trajectory=Training())).frames(6))
        for a, b in pairwise(frames):
            assert np.abs(a.image.astype(int) - b.image).mean() > 2.0
            assert a.image.reshape(-1, 3).std(axis=0).max() > 8.0


@pytest.mark.parametrize(("size", "required"), [((128, 96), 200.0), ((64, 48), 500.0)])
def test_speed_on_one_core(size: tuple[int, int], required: float):
    """Frames per second of the stream, best of several short runs in a room full of furniture."""
    seed = max(range(40), key=lambda k: len(draw_scene(k).boxes))
    world = SyntheticWorld(seed, WorldConfig(width=size[0], height=size[1], trajectory=Training()))
    assert len(world.spec.boxes) >= 25
    best = 0.0
    for _ in range(8):
        begin = time.process_time()  # of this process alone: what else runs on the machine does not count
        for _ in world.frames(25):
            pass
        best = max(best, 25 / (time.process_time() - begin))
    assert best >= required
