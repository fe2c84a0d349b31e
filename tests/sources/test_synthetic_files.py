"""Clips, shards, and each dataset layout read back with plain code."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recal3r.errors import ConfigError, Recal3rError
from recal3r.sources.synthetic import (
    RoomConfig,
    SyntheticFrame,
    SyntheticWorld,
    Training,
    Walking,
    WorldConfig,
    open_shards,
    render_clip,
    split_seed,
    write_shards,
)
from recal3r.sources.synthetic.clips import ShardError
from recal3r.sources.synthetic.export import (
    NRGBD_FOCAL,
    SEVEN_SCENES_FOCAL,
    ExportError,
    write_bonn,
    write_nrgbd,
    write_scannet,
    write_seven_scenes,
    write_tum,
)


def some_frames(count: int = 4, focal: float | None = None, seed: int = 2) -> list[SyntheticFrame]:
    config = WorldConfig(width=64, height=48, focal=focal and focal * 64 / 640)
    return list(SyntheticWorld(seed, config).frames(count))


def read_depth(path: Path, steps: float) -> np.ndarray:
    with Image.open(path) as image:
        assert image.mode == "I;16"
        return np.asarray(image).astype(np.float64) / steps


def read_image(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        assert image.mode == "RGB"
        return np.asarray(image)


def rotation_from_xyzw(q: np.ndarray) -> np.ndarray:
    x, y, z, w = q
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_a_clip_is_the_stream_of_its_world():
    clip = render_clip(5, 4)
    world = SyntheticWorld(5, WorldConfig(width=64, height=48, trajectory=Training()))
    frames = list(world.frames(4))
    assert clip.images.shape == (4, 48, 64, 3)
    assert clip.depth.dtype == np.float32
    np.testing.assert_array_equal(clip.images, [f.image for f in frames])
    np.testing.assert_array_equal(clip.depth, [f.depth for f in frames])
    np.testing.assert_array_equal(clip.poses, [f.T_world_camera for f in frames])
    np.testing.assert_array_equal(clip.intrinsics, frames[0].intrinsics)
    half = render_clip(5, 2, width=32, height=24, depth_type="float16")
    assert half.depth.dtype == np.float16
    assert half.images.shape == (2, 24, 32, 3)


def test_shards_hold_the_clips_of_their_split(tmp_path: Path):
    folder = write_shards(tmp_path / "train", "train", 3, 4, (32, 24), first=7)
    shards = open_shards(folder)
    assert shards.images.shape == (3, 4, 24, 32, 3)
    assert (shards.images.dtype, shards.depth.dtype, shards.poses.dtype) == (np.uint8, np.float16, np.float32)
    assert shards.seeds.tolist() == [split_seed("train", 7 + k) for k in range(3)]
    clip = render_clip(split_seed("train", 8), 4, width=32, height=24)
    np.testing.assert_array_equal(shards.images[1], clip.images)
    np.testing.assert_allclose(shards.depth[1], clip.depth, rtol=1e-3)
    np.testing.assert_allclose(shards.poses[1], clip.poses, atol=1e-6)
    np.testing.assert_allclose(shards.intrinsics[1], clip.intrinsics, rtol=1e-6)
    assert shards.header["trajectory"] == "Training"
    assert shards.header["world"]["width"] == 32
    assert [p.name for p in tmp_path.iterdir()] == ["train"], "no unfinished folder is left"


def test_shards_of_another_world_say_so(tmp_path: Path):
    config = WorldConfig(trajectory=Walking(step=0.05), room=RoomConfig(posters=(3, 5)))
    shards = open_shards(write_shards(tmp_path / "w", "train", 1, 3, (32, 24), config=config))
    clip = render_clip(0, 3, config=replace(config, width=32, height=24))
    np.testing.assert_array_equal(shards.images[0], clip.images)
    assert shards.header["trajectory"] == "Walking"
    assert shards.header["world"]["trajectory"]["step"] == 0.05
    assert shards.header["world"]["room"]["posters"] == [3, 5]


def test_shards_are_the_same_however_many_workers_write_them(tmp_path: Path):
    one = write_shards(tmp_path / "one", "validation", 3, 2, (32, 24), workers=1)
    two = write_shards(tmp_path / "two", "validation", 3, 2, (32, 24), workers=2)
    names = sorted(p.name for p in one.iterdir())
    assert names == ["depth.npy", "header.json", "images.npy", "intrinsics.npy", "poses.npy", "seeds.npy"]
    for name in names:
        assert (one / name).read_bytes() == (two / name).read_bytes(), name


def test_shards_never_overwrite_and_never_appear_half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "mine.txt").write_text("keep")
    with pytest.raises(ShardError, match="never overwritten"):
        write_shards(busy, "train", 1, 1)
    assert (busy / "mine.txt").read_text() == "keep"

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("recal3r.sources.synthetic.clips._fill", fail)
    with pytest.raises(OSError, match="disk full"):
        write_shards(tmp_path / "new", "train", 1, 1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["busy"]


def test_folders_that_are_no_shards_are_refused(tmp_path: Path):
    with pytest.raises(ShardError, match="no complete folder"):
        open_shards(tmp_path)
    folder = write_shards(tmp_path / "s", "test", 1, 1, (32, 24))
    header = json.loads((folder / "header.json").read_text())
    for change, words in (({"format": "other"}, "format"), ({"clips": 9}, "does not hold")):
        (folder / "header.json").write_text(json.dumps(header | change))
        with pytest.raises(ShardError, match=words):
            open_shards(folder)
    with pytest.raises(ConfigError, match="no work"):
        write_shards(tmp_path / "t", "test", 0, 1)
    with pytest.raises(ConfigError, match="empty"):
        render_clip(0, 0)


def test_scannet(tmp_path: Path):
    frames = some_frames()
    folder = write_scannet(tmp_path, "scene0707_00", iter(frames))
    assert folder == tmp_path / "scene0707_00"
    assert sorted(p.name for p in folder.iterdir()) == ["color", "pose"]
    assert sorted(int(p.stem) for p in (folder / "color").iterdir()) == [0, 1, 2, 3]
    for frame in frames:
        np.testing.assert_array_equal(read_image(folder / "color" / f"{frame.index}.png"), frame.image)
        pose = np.loadtxt(folder / "pose" / f"{frame.index}.txt")
        np.testing.assert_allclose(pose, frame.T_world_camera, atol=1e-8)


@pytest.mark.parametrize(("writer", "name"), [(write_tum, "rgbd_dataset_x"), (write_bonn, "rgbd_bonn_x")])
def test_tum_and_bonn(tmp_path: Path, writer, name: str):
    frames = some_frames(5)
    folder = writer(tmp_path, "x" if writer is write_bonn else name, iter(frames))
    assert folder == tmp_path / name
    lists = {
        kind: [line.split() for line in (folder / f"{kind}.txt").read_text().splitlines() if not line.startswith("#")]
        for kind in ("rgb", "depth", "groundtruth")
    }
    assert {len(rows) for rows in lists.values()} == {5}
    for k, frame in enumerate(frames):
        assert float(lists["rgb"][k][0]) == pytest.approx(frame.timestamp, abs=1e-6)
        np.testing.assert_array_equal(read_image(folder / lists["rgb"][k][1]), frame.image)
        depth = read_depth(folder / lists["depth"][k][1], 5000.0)
        np.testing.assert_allclose(depth, frame.depth, atol=0.51 / 5000)
        stamp, *numbers = map(float, lists["groundtruth"][k])
        assert stamp == pytest.approx(frame.timestamp, abs=1e-6)
        np.testing.assert_allclose(numbers[:3], frame.T_world_camera[:3, 3], atol=1e-8)
        np.testing.assert_allclose(rotation_from_xyzw(np.array(numbers[3:])), frame.T_world_camera[:3, :3], atol=1e-7)


def test_seven_scenes(tmp_path: Path):
    train, test = some_frames(2, SEVEN_SCENES_FOCAL, 3), some_frames(3, SEVEN_SCENES_FOCAL, 4)
    folder = write_seven_scenes(tmp_path, "chess", [train], [test])
    assert (folder / "TrainSplit.txt").read_text().split() == ["sequence1"]
    assert (folder / "TestSplit.txt").read_text().split() == ["sequence2"]
    for sequence, frames in (("seq-01", train), ("seq-02", test)):
        assert len(list((folder / sequence).iterdir())) == 3 * len(frames)
        for k, frame in enumerate(frames):
            stem = folder / sequence / f"frame-{k:06d}"
            np.testing.assert_array_equal(read_image(Path(f"{stem}.color.png")), frame.image)
            depth = read_depth(Path(f"{stem}.depth.proj.png"), 1000.0)
            np.testing.assert_allclose(depth, frame.depth, atol=0.51e-3)
            np.testing.assert_allclose(np.loadtxt(f"{stem}.pose.txt"), frame.T_world_camera, atol=1e-8)


def test_nrgbd(tmp_path: Path):
    frames = some_frames(3, NRGBD_FOCAL)
    folder = write_nrgbd(tmp_path, "kitchen", iter(frames))
    poses = np.loadtxt(folder / "poses.txt").reshape(-1, 4, 4)
    assert len(poses) == 3
    poses[:, :, 1:3] *= -1  # OpenGL to OpenCV
    for k, frame in enumerate(frames):
        np.testing.assert_array_equal(read_image(folder / "images" / f"img{k}.png"), frame.image)
        np.testing.assert_allclose(read_depth(folder / "depth" / f"depth{k}.png", 1000.0), frame.depth, atol=0.51e-3)
        np.testing.assert_allclose(poses[k], frame.T_world_camera, atol=1e-8)


def test_depth_that_does_not_fit_is_marked_invalid(tmp_path: Path):
    frame = some_frames(1)[0]
    far = frame.depth.copy()
    far[0, 0], far[0, 1] = 20.0, np.inf
    changed = SyntheticFrame(frame.image, far, frame.T_world_camera, frame.intrinsics, 0, 0.0)
    folder = write_tum(tmp_path, "far", [changed])
    depth = read_depth(folder / "depth" / "0.000000.png", 5000.0)
    assert depth[0, 0] == depth[0, 1] == 0
    assert depth[1, 0] > 0


def test_a_folder_with_something_in_it_is_refused_and_kept(tmp_path: Path):
    frames = some_frames(1, SEVEN_SCENES_FOCAL)
    writers = (
        ("a", lambda: write_scannet(tmp_path, "a", frames)),
        ("b", lambda: write_tum(tmp_path, "b", frames)),
        ("rgbd_bonn_c", lambda: write_bonn(tmp_path, "c", frames)),
        ("d", lambda: write_seven_scenes(tmp_path, "d", [frames], [])),
        ("e", lambda: write_nrgbd(tmp_path, "e", frames)),
    )
    for name, write in writers:
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.txt").write_text("keep")
        with pytest.raises(ExportError, match="never overwritten") as caught:
            write()
        assert isinstance(caught.value, Recal3rError)
        assert [p.name for p in (tmp_path / name).iterdir()] == ["mine.txt"]


def test_a_camera_that_readers_would_mistake_is_refused(tmp_path: Path):
    frames = some_frames(1)
    with pytest.raises(ExportError, match="525"):
        write_seven_scenes(tmp_path, "s", [frames], [])
    with pytest.raises(ExportError, match="554"):
        write_nrgbd(tmp_path, "n", frames)
