"""glTF as trimesh reads it: points, colours and cameras where they were, in glTF's axes."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
import trimesh
from walks import Shown, interrupted, shown, walk, written

from recal3r.errors import OutputError
from recal3r.sinks import CloudSink, GlbSink, Tee
from recal3r.sinks.base import Sink
from recal3r.sinks.cloud import Cloud
from recal3r.sinks.filters import DepthRange
from recal3r.sinks.glb import scene
from recal3r.sinks.palette import linear, shade
from recal3r.types import Prediction

GLTF_WORLD = np.diag([1.0, -1, -1, 1])  # y up, where ours is down


@pytest.fixture(scope="module")
def pairs() -> list[Shown]:
    return shown(walk(8))


def content(path: Path) -> dict[str, object]:
    """The JSON chunk, after the sizes of the file and of its chunks were checked."""
    data = path.read_bytes()
    magic, version, length = struct.unpack_from("<4sII", data)
    assert (magic, version, length) == (b"glTF", 2, len(data))
    size, kind = struct.unpack_from("<I4s", data, 12)
    assert kind == b"JSON"
    assert size % 4 == 0
    rest = data[20 + size :]
    if rest:
        binary, kind = struct.unpack_from("<I4s", rest)
        assert kind == b"BIN\0"
        assert binary % 4 == 0
        assert len(rest) == 8 + binary
    return json.loads(data[20 : 20 + size])


def test_points_and_colours(pairs: list[Shown], tmp_path: Path) -> None:
    with Tee(cloud := CloudSink(tmp_path / "c.ply", edge=0.05), GlbSink(tmp_path / "c.glb", cloud=cloud)) as sink:
        for prediction, image in pairs:
            sink.write(prediction, image)
    expected = cloud.voxels.cloud()
    found = trimesh.load(tmp_path / "c.glb")
    points = found.geometry["cloud"]
    moved = points.copy().apply_transform(found.graph.get("cloud")[0]).vertices
    np.testing.assert_allclose(moved, expected.points @ GLTF_WORLD[:3, :3].T, atol=1e-6)
    np.testing.assert_allclose(points.colors[:, :3] / 255, linear(expected.colours), atol=0.005)
    accessors = content(tmp_path / "c.glb")["accessors"]
    np.testing.assert_allclose(accessors[0]["min"], moved.min(0), atol=1e-6)
    np.testing.assert_allclose(accessors[0]["max"], moved.max(0), atol=1e-6)


def test_cameras(pairs: list[Shown], tmp_path: Path) -> None:
    written(GlbSink(tmp_path / "c.glb", edge=0.05), pairs)
    found = trimesh.load(tmp_path / "c.glb")
    cameras = {camera["name"]: camera["perspective"] for camera in content(tmp_path / "c.glb")["cameras"]}
    frusta = found.geometry["frusta"].copy().apply_transform(found.graph.get("frusta")[0])
    path = found.geometry["trajectory"].copy().apply_transform(found.graph.get("trajectory")[0])
    assert len(path.vertices) == 2 * 7
    assert len(frusta.vertices) == 8 * 8 * 2
    for place, (prediction, _) in enumerate(pairs):
        name = f"camera {prediction.index:06d}"
        T_gltf_camera, _ = found.graph.get(name)
        # In our world again, and looking along -z with y up.
        np.testing.assert_allclose(GLTF_WORLD @ T_gltf_camera @ GLTF_WORLD, prediction.T_world_camera, atol=1e-9)
        K = prediction.camera.intrinsics
        assert 2 * np.tan(cameras[name]["yfov"] / 2) == pytest.approx(prediction.camera.height / K[1, 1])
        assert cameras[name]["aspectRatio"] == pytest.approx(prediction.camera.width / prediction.camera.height)
        corners = (
            np.linalg.inv(T_gltf_camera) @ np.c_[frusta.vertices, np.ones(len(frusta.vertices))][16 * place :][:16].T
        )
        ahead = corners[:, corners[2] < -1e-6]
        ahead = ahead[:2] / -ahead[2]
        assert np.abs(ahead[1]).max() == pytest.approx(np.tan(cameras[name]["yfov"] / 2), rel=0.05)
        assert (np.abs(path.vertices - T_gltf_camera[:3, 3]).max(1) < 1e-5).any(), "the path leads through it"


def test_cameras_are_budgeted(pairs: list[Shown], tmp_path: Path) -> None:
    written(GlbSink(tmp_path / "c.glb", edge=0.1, cameras=3), pairs)
    names = [camera["name"] for camera in content(tmp_path / "c.glb")["cameras"]]
    assert names == ["camera 000000", "camera 000004"]
    assert len(trimesh.load(tmp_path / "c.glb").geometry["frusta"].vertices) == 2 * 8 * 2


def alone(path: Path) -> Sink:
    return GlbSink(path.with_suffix(".glb"), edge=0.05, budget=500, cameras=4, keep=DepthRange(0.5, 5))


def together(path: Path) -> Sink:
    cloud = CloudSink(path.with_suffix(".ply"), edge=0.05, budget=500)
    return Tee(cloud, GlbSink(path.with_suffix(".glb"), cloud=cloud, cameras=4))


@pytest.mark.parametrize("make", [alone, together])
@pytest.mark.parametrize(("at", "lost"), [(0, 2), (3, 2), (5, 3)])
def test_resumed_files_are_the_same(pairs: list[Shown], tmp_path: Path, make: object, at: int, lost: int) -> None:
    written(make(tmp_path / "whole"), pairs)
    interrupted(make, tmp_path / "killed", pairs, at, lost)
    assert (tmp_path / "killed.glb").read_bytes() == (tmp_path / "whole.glb").read_bytes()


def test_scenes_of_nothing_are_valid(tmp_path: Path) -> None:
    written(GlbSink(tmp_path / "empty.glb"), [])
    assert content(tmp_path / "empty.glb")["scenes"] == [{"name": "reconstruction"}]
    nothing = Cloud(np.empty((0, 3)), np.empty((0, 3), np.uint8), np.empty(0))
    one = {"index": np.array(0), "T_world_camera": np.eye(4), "lens": np.array([50.0, 50, 32, 24, 64, 48])}
    (tmp_path / "one.glb").write_bytes(scene(nothing, [one]))
    assert list(trimesh.load(tmp_path / "one.glb").geometry) == ["frusta"]


def test_wrong_use_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(OutputError, match="exists already"), GlbSink(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"
    with pytest.raises(OutputError, match="does not exist"), GlbSink(tmp_path / "no" / "c.glb"):
        pass
    with GlbSink(tmp_path / "c.glb") as sink, pytest.raises(OutputError, match="needs 'camera'"):
        sink.write(Prediction(0))
    with pytest.raises(OutputError, match="give keep to that one"):
        GlbSink(tmp_path / "d.glb", cloud=CloudSink(tmp_path / "d.ply"), keep=DepthRange())


def test_time_is_coloured(pairs: list[Shown], tmp_path: Path) -> None:
    written(GlbSink(tmp_path / "c.glb", edge=0.1), pairs)
    data, parts = (tmp_path / "c.glb").read_bytes(), content(tmp_path / "c.glb")
    mesh = next(mesh for mesh in parts["meshes"] if mesh["name"] == "frusta")
    accessor = parts["accessors"][mesh["primitives"][0]["attributes"]["COLOR_0"]]
    view = parts["bufferViews"][accessor["bufferView"]]
    binary = data[len(data) - parts["buffers"][0]["byteLength"] - (-parts["buffers"][0]["byteLength"] % 4) :]
    light = np.frombuffer(binary, "<f4", 3 * accessor["count"], view["byteOffset"]).reshape(-1, 3)
    np.testing.assert_allclose(light[[0, -1]], linear(shade(np.array([0.0, 1.0]))), atol=1e-6)
