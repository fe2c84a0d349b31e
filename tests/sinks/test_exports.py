"""What we write for other programs, read back by them, on an exactly known world."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pycolmap
import pytest
from PIL import Image

from recal3r.errors import OutputError
from recal3r.geometry.pose import apply, inverse
from recal3r.sinks import ColmapSink, DepthSink, NerfstudioSink, Tee
from recal3r.sources.synthetic import SyntheticFrame, SyntheticWorld, WorldConfig
from recal3r.types import Camera, Crop, Prediction


def truth(frame: SyntheticFrame) -> Prediction:
    """A perfect prediction at a smaller size, cut on each side."""
    crop = Crop((128, 96), (77, 58), left=4, top=3)
    height, width = 48, 64
    sx, sy = crop.scale
    # x_network + ½ = s (x + ½) - left
    to_network = np.array([[sx, 0, (sx - 1) / 2 - crop.left], [0, sy, (sy - 1) / 2 - crop.top], [0, 0, 1]])
    intrinsics = to_network @ frame.intrinsics
    camera = Camera(intrinsics, width, height, frame.T_world_camera, crop)
    column, row = np.meshgrid(np.arange(width), np.arange(height))
    # The depth at a pixel of the network: that of the original picture where its centre lies.
    x, y = (column + crop.left + 0.5) / sx - 0.5, (row + crop.top + 0.5) / sy - 0.5
    nearest = frame.depth[np.rint(y).astype(int).clip(0, 95), np.rint(x).astype(int).clip(0, 127)]
    rays = np.stack((column, row, np.ones_like(row)), -1) @ np.linalg.inv(intrinsics).T
    points = apply(frame.T_world_camera, rays * nearest[..., None])
    return Prediction(
        frame.index,
        frame.timestamp,
        frame.T_world_camera,
        camera,
        depth=nearest,
        points_world=points,
        confidence_camera=np.full((height, width), 2.0),
        confidence_world=np.full((height, width), 2.0),
    )


@pytest.fixture(scope="module")
def walk() -> list[SyntheticFrame]:
    return list(SyntheticWorld(3, WorldConfig(width=128, height=96)).frames(5))


def test_the_camera_at_the_original_resolution_is_the_true_one(walk: list[SyntheticFrame]) -> None:
    original = truth(walk[0]).camera.original
    np.testing.assert_allclose(original.intrinsics, walk[0].intrinsics, atol=1e-9)


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "text"])
def test_colmap(walk: list[SyntheticFrame], tmp_path: Path, binary: bool) -> None:
    with ColmapSink(tmp_path / "sparse", binary=binary, points_per_frame=100) as sink:
        for frame in walk:
            sink.write(truth(frame), frame.image)
    model = pycolmap.Reconstruction(str(tmp_path / "sparse"))
    assert (model.num_images(), model.num_cameras()) == (5, 5)
    assert model.num_points3D() > 400
    long_tracks = [point for point in model.points3D.values() if point.track.length() > 1]
    assert len(long_tracks) > 250, "neighbouring frames see the same points"

    for frame in walk:
        image = model.images[frame.index + 1]
        assert image.name == f"{frame.index:06d}.png"
        np.testing.assert_allclose(image.cam_from_world().matrix(), inverse(frame.T_world_camera)[:3], atol=1e-9)
        camera = model.cameras[image.camera_id]
        assert (camera.width, camera.height) == (128, 96)
        k = frame.intrinsics
        np.testing.assert_allclose(camera.params, [k[0, 0], k[1, 1], k[0, 2] + 0.5, k[1, 2] + 0.5], atol=1e-6)
        for observation in image.points2D:
            point = model.points3D[observation.point3D_id]
            projected = camera.img_from_cam(image.cam_from_world() * point.xyz)
            assert np.abs(projected - observation.xy).max() < 1e-3, "half a pixel would be one convention mixed up"
            row, column = np.rint(observation.xy[::-1] - 0.5).astype(int)
            if point.track.elements[-1].image_id == frame.index + 1:  # the frame that the colour was taken from
                assert point.color.tolist() == frame.image[row, column].tolist()


def test_colmap_is_readable_at_any_frame(walk: list[SyntheticFrame], tmp_path: Path) -> None:
    """Text and binary count what they hold, and neither takes another's place."""
    for binary in (True, False):
        folder = tmp_path / str(binary)
        with ColmapSink(folder, binary=binary) as sink:
            sink.write(truth(walk[0]), walk[0].image)
        with pytest.raises(OutputError, match="exists already"), ColmapSink(folder, binary=binary):
            pass
    with pytest.raises(OutputError, match="is not open"):
        ColmapSink(tmp_path / "other").write(truth(walk[0]))
    with ColmapSink(tmp_path / "third") as sink, pytest.raises(OutputError, match="needs 'camera'"):
        sink.write(Prediction(0))


def test_nerfstudio(walk: list[SyntheticFrame], tmp_path: Path) -> None:
    path = tmp_path / "transforms.json"
    with NerfstudioSink(path) as sink:
        assert json.loads(path.read_text() or "{}").get("frames", []) == []
        for frame in walk:
            sink.write(truth(frame), frame.image)
            found = json.loads(path.read_text())
            assert len(found["frames"]) == frame.index + 1, "whole JSON after every frame"
    for frame, entry in zip(walk, found["frames"], strict=True):
        pose = np.array(entry["transform_matrix"])
        ahead = pose[:3, :3] @ [0, 0, -1]  # OpenGL looks along -z, y up
        np.testing.assert_allclose(ahead, frame.T_world_camera[:3, 2], atol=1e-12)
        np.testing.assert_allclose(pose[:3, 1], -frame.T_world_camera[:3, 1], atol=1e-12)
        np.testing.assert_allclose(entry["fl_x"], frame.intrinsics[0, 0])
        np.testing.assert_allclose([entry["cx"], entry["cy"]], frame.intrinsics[:2, 2] + 0.5, atol=1e-9)
        assert (entry["w"], entry["h"]) == (128, 96)
    with pytest.raises(OutputError, match="exists already"), NerfstudioSink(path):
        pass


def test_depth(walk: list[SyntheticFrame], tmp_path: Path) -> None:
    shown = truth(walk[0])
    shown.depth[0, :4] = [np.nan, np.inf, -1.0, 70.0]
    with Tee(DepthSink(tmp_path / "depth")) as sink:
        sink.write(shown)
    stored = np.asarray(Image.open(tmp_path / "depth" / "000000.png"))
    assert stored.dtype == np.uint16
    assert stored[0, :4].tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(stored[1:] / 1000, shown.depth[1:], atol=0.0005001)
    with np.load(tmp_path / "depth" / "000000.npz") as arrays:
        assert np.array_equal(arrays["depth"], shown.depth.astype(np.float32), equal_nan=True)
        assert (arrays["confidence"] == 2).all()
    assert len(list((tmp_path / "depth").iterdir())) == 2
    with pytest.raises(OutputError, match="not empty"), DepthSink(tmp_path / "depth"):
        pass
