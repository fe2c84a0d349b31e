"""What a run has written, as the programs read it that it was written for, against what the reconstructor said."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow
import pycolmap
import trimesh
from evo.tools import file_interface
from PIL import Image
from plyfile import PlyData

from recal3r.types import Prediction

Told = Sequence[Prediction]
GLTF = np.diag([1.0, -1.0, -1.0, 1.0])  # y up, where ours is down


def check_trajectories(out: Path, told: Told, times: Sequence[float]) -> None:
    tum = file_interface.read_tum_trajectory_file(out / "trajectory.tum.txt")
    kitti = file_interface.read_kitti_poses_file(out / "trajectory.kitti.txt")
    poses = np.stack([prediction.T_world_camera for prediction in told])
    np.testing.assert_allclose(tum.timestamps, times, atol=0.6e-6)  # ffprobe prints six digits
    np.testing.assert_allclose(np.stack(tum.poses_se3)[:, :3, 3], poses[:, :3, 3], rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(np.stack(tum.poses_se3)[:, :3, :3], poses[:, :3, :3], atol=1e-6)
    np.testing.assert_allclose(np.stack(kitti.poses_se3), poses, rtol=1e-9, atol=1e-9)


def check_depth(out: Path, told: Told) -> None:
    for prediction in told:
        stem = out / "depth" / f"{prediction.index:06d}"
        with np.load(stem.with_suffix(".npz")) as arrays:
            np.testing.assert_array_equal(arrays["depth"], prediction.depth)
            np.testing.assert_array_equal(arrays["confidence"], prediction.confidence_camera)
        stored = np.asarray(Image.open(stem.with_suffix(".png")))
        known = stored > 0
        np.testing.assert_allclose(stored[known] / 1000, prediction.depth[known], atol=0.0005001)
        outside = prediction.depth[~known]
        assert ((outside < 0.0005001) | (outside > 65.535) | ~np.isfinite(outside)).all()
    assert len(list((out / "depth").iterdir())) == 2 * len(told)


def check_images(out: Path, images: Sequence[np.ndarray]) -> None:
    for number, image in enumerate(images):
        np.testing.assert_array_equal(np.asarray(Image.open(out / "images" / f"{number:06d}.png")), image)


def check_colmap(out: Path, told: Told, images: Sequence[np.ndarray]) -> int:
    """Every observed point lies, by COLMAP's own camera, within half a pixel of where it is said to have been seen in
    the original picture, and has its colour; so does every ray of the network's picture. The number of points."""
    model = pycolmap.Reconstruction(str(out / "colmap"))
    assert model.num_images() == model.num_cameras() == len(told)
    for prediction, picture in zip(told, images, strict=True):
        image = model.images[prediction.index + 1]
        camera = model.cameras[image.camera_id]
        assert (camera.height, camera.width) == picture.shape[:2]
        assert (out / "images" / image.name).is_file()
        T_camera_world = np.linalg.inv(prediction.T_world_camera)
        # COLMAP keeps unit quaternions; the network's are of unit length in float32.
        np.testing.assert_allclose(image.cam_from_world().matrix(), T_camera_world[:3], atol=1e-6)
        for observation in image.points2D:
            point = model.points3D[observation.point3D_id]
            projected = camera.img_from_cam(image.cam_from_world() * point.xyz)
            assert np.abs(projected - observation.xy).max() < 0.5
            if point.track.elements[-1].image_id == image.image_id:  # the frame that the colour was taken from
                column, row = np.rint(observation.xy - 0.5).astype(int)
                assert point.color.tolist() == picture[row, column].tolist()
        _check_rays(prediction, camera)
    return model.num_points3D()


def _check_rays(prediction: Prediction, camera: pycolmap.Camera) -> None:
    """From the network's pixels out along their rays, and back into the original picture."""
    seen, crop = prediction.camera, prediction.camera.crop
    column, row = (grid.ravel() for grid in np.meshgrid(np.arange(0, seen.width, 7), np.arange(0, seen.height, 7)))
    rays = np.stack((column, row, np.ones_like(row)), -1) @ np.linalg.inv(seen.intrinsics).T
    projected = camera.img_from_cam(2.5 * rays)
    across, down = crop.original[0] / crop.resized[0], crop.original[1] / crop.resized[1]
    expected = np.stack(((column + crop.left + 0.5) * across, (row + crop.top + 0.5) * down), -1)
    assert np.abs(projected - expected).max() < 0.5


def check_nerfstudio(out: Path, told: Told) -> None:
    entries = json.loads((out / "transforms.json").read_text())["frames"]
    assert len(entries) == len(told)
    for prediction, entry in zip(told, entries, strict=True):
        camera = prediction.camera.original
        np.testing.assert_allclose(np.array(entry["transform_matrix"]) @ GLTF, camera.T_world_camera, atol=1e-12)
        found = [entry["fl_x"], entry["fl_y"], entry["cx"] - 0.5, entry["cy"] - 0.5]
        K = camera.intrinsics
        np.testing.assert_allclose(found, [K[0, 0], K[1, 1], K[0, 2], K[1, 2]], rtol=1e-12)
        assert (entry["w"], entry["h"]) == (camera.width, camera.height)
        assert (out / entry["file_path"]).is_file()


def check_clouds(out: Path, told: Told, budget: int) -> int:
    """The number of points, in the PLY and in the GLB."""
    vertex = PlyData.read(str(out / "cloud.ply"))["vertex"]
    points = np.stack([vertex[axis] for axis in "xyz"], -1)
    assert 0 < len(points) <= budget
    assert vertex["confidence"].min() > 0
    world = np.concatenate([prediction.points_world.reshape(-1, 3) for prediction in told])
    assert (points >= world.min(0) - 1e-6).all()
    assert (points <= world.max(0) + 1e-6).all()
    scene = trimesh.load(out / "cloud.glb")
    cloud = scene.geometry["cloud"].copy().apply_transform(scene.graph.get("cloud")[0])
    np.testing.assert_allclose(cloud.vertices, points @ GLTF[:3, :3].T, atol=1e-6, rtol=1e-6)
    content = (out / "cloud.glb").read_bytes()
    described = json.loads(content[20 : 20 + int.from_bytes(content[12:16], "little")])
    assert 0 < len(described["cameras"]) <= 200
    return len(points)


def check_gates(out: Path, told: Told) -> None:
    with pyarrow.OSFile(str(out / "gates.arrow")) as file, pyarrow.ipc.open_stream(file) as reader:
        table = reader.read_all()
    assert table["index"].to_pylist() == [prediction.index for prediction in told]
    means = [prediction.learning_rate.mean(dtype=np.float64) for prediction in told]
    np.testing.assert_allclose(table["learning_rate_mean"].to_numpy(), means, rtol=1e-6)
    for name in ("reliability", "deviation", "entropy", "residual"):
        column = table[name].combine_chunks()
        rows = (column if name == "residual" else column.flatten()).to_numpy().reshape(len(told), -1)
        expected = np.stack([np.broadcast_to(p.signals.get(name, np.nan), rows.shape[1:]) for p in told])
        np.testing.assert_allclose(rows, expected, atol=1e-3, rtol=1e-3)  # float16


def check_recording(out: Path, told: Told) -> None:
    from rerun.chunk import RrdReader

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "RRD file has no footer")  # it could not be kept in bounded memory
        reader = RrdReader(out / "recording.rrd")
    rows: dict[str, list[dict]] = {}
    for chunk in reader.stream():
        rows.setdefault(chunk.entity_path.lstrip("/"), []).extend(chunk.to_record_batch().to_pylist())
    for path in ("world/camera", "world/camera/picture", "world/camera/depth", "world/points", "world/trajectory"):
        assert [row["frame"] for row in rows[path]] == [prediction.index for prediction in told], path
    for row, prediction in zip(rows["world/camera"], told, strict=True):
        (where,), (pinhole,) = row["Transform3D:translation"], row["Pinhole:image_from_camera"]
        np.testing.assert_allclose(where, prediction.T_world_camera[:3, 3], rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(np.reshape(pinhole, (3, 3)).T, prediction.camera.intrinsics, rtol=1e-6)


def check_frames(out: Path, told: Told) -> None:
    for prediction in told:
        with np.load(out / "frames" / f"{prediction.index:06d}.npz") as arrays:
            np.testing.assert_array_equal(arrays["T_world_camera"], prediction.T_world_camera)
            np.testing.assert_allclose(arrays["depth"], prediction.depth, rtol=1e-3, atol=1e-3)


def check_report(out: Path, told: Told) -> None:
    page = _Page()
    page.feed((out / "report.html").read_text())
    assert not page.loaded
    assert page.pictures >= 3 * min(len(told), 8)
    assert page.charts >= 4


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.pictures = self.charts = 0
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        self.pictures += tag == "img"
        self.charts += tag == "figure" and known.get("class") == "chart"
        places = [known[name] or "" for name in ("src", "href") if name in known]
        self.loaded += [place for place in places if not place.startswith("data:")]
