"""Recordings as the rerun SDK reads them back."""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from walks import Shown, interrupted, shown, walk, written

from recal3r.errors import OutputError
from recal3r.sinks import CloudSink, RerunSink, Tee
from recal3r.sinks.base import Sink
from recal3r.sinks.filters import DepthRange
from recal3r.sinks.horizon import memory_horizon
from recal3r.sinks.rrd import Encoder
from recal3r.types import Prediction


@pytest.fixture(scope="module")
def pairs() -> list[Shown]:
    return shown(walk(6))


Rows = list[dict[str, Any]]  # in the order of the file


def read(path: Path) -> dict[str, Rows]:
    """Every row of every entity."""
    from rerun.chunk import RrdReader

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "RRD file has no footer")  # it could not be kept in bounded memory
        reader = RrdReader(path)
    found: dict[str, Rows] = {}
    for chunk in reader.stream():
        found.setdefault(chunk.entity_path.lstrip("/"), []).extend(chunk.to_record_batch().to_pylist())
    return found


def one(row: dict[str, Any], component: str) -> Any:
    (value,) = row[component]
    return value


def test_what_was_written_comes_back(pairs: list[Shown], tmp_path: Path) -> None:
    written(RerunSink(tmp_path / "a.rrd", points_per_frame=300), pairs)
    found = read(tmp_path / "a.rrd")
    assert found["world"][0]["ViewCoordinates:xyz"] == [[3, 2, 5]], "right, down, forward"
    signals = {f"gates/{name}" for name in pairs[1][0].signals}
    parts = {"camera", "camera/picture", "camera/depth", "points", "trajectory"}
    assert set(found) == {"world", "gates/learning_rate", "gates/horizon", *signals, *(f"world/{p}" for p in parts)}
    for place, (prediction, image) in enumerate(pairs):
        rows = {path: rows[place] for path, rows in found.items() if len(rows) == len(pairs)}
        assert all(row["frame"] == prediction.index for row in rows.values())
        assert all(row["time"].total_seconds() == pytest.approx(prediction.timestamp) for row in rows.values())
        assert not any("log" in name for row in rows.values() for name in row), "no time of day"

        camera, T = rows["world/camera"], prediction.T_world_camera
        np.testing.assert_allclose(one(camera, "Transform3D:translation"), T[:3, 3], rtol=1e-6)
        rotation = np.reshape(one(camera, "Transform3D:mat3x3"), (3, 3)).T  # by columns
        np.testing.assert_allclose(rotation, T[:3, :3], atol=1e-6)
        K = np.reshape(one(camera, "Pinhole:image_from_camera"), (3, 3)).T
        np.testing.assert_allclose(K, prediction.camera.intrinsics, rtol=1e-6)
        assert one(camera, "Pinhole:resolution") == [64, 48]
        assert one(camera, "Pinhole:camera_xyz") == [3, 2, 5]

        picture = np.asarray(Image.open(io.BytesIO(bytes(one(rows["world/camera/picture"], "EncodedImage:blob")))))
        expected = np.asarray(Image.fromarray(image).resize((64, 48), Image.Resampling.BILINEAR))
        assert np.abs(picture.mean(-1) - expected.mean(-1)).mean() < 4, "but for JPEG, which is coarse in colour"
        depth = Image.open(io.BytesIO(bytes(one(rows["world/camera/depth"], "EncodedDepthImage:blob"))))
        assert one(rows["world/camera/depth"], "EncodedDepthImage:meter") == 1000
        np.testing.assert_allclose(np.asarray(depth) / 1000, prediction.depth, atol=0.00051)

        points = np.array(rows["world/points"]["Points3D:positions"])
        assert len(points) == 300
        all_points = prediction.points_world.reshape(-1, 3)
        nearest = np.abs(all_points[None] - points[:, None]).max(-1).argmin(1)
        np.testing.assert_allclose(all_points[nearest], points, atol=1e-6)
        assert prediction.confidence_world.ravel()[nearest].min() >= 1.5
        row, column = np.divmod(nearest, 64)  # 96×72 became 64×48
        colours = image[np.rint(1.5 * row + 0.25).astype(int), np.rint(1.5 * column + 0.25).astype(int)]
        packed = np.array(rows["world/points"]["Points3D:colors"], np.uint32)
        np.testing.assert_array_equal(packed >> 24, colours[:, 0])
        np.testing.assert_array_equal(packed >> 16 & 255, colours[:, 1])
        np.testing.assert_array_equal(packed & 255, 255)

        path = np.array(one(rows["world/trajectory"], "LineStrips3D:strips"))
        centres = np.stack([shown.T_world_camera[:3, 3] for shown, _ in pairs[: place + 1]])
        np.testing.assert_allclose(path, [*centres, centres[-1]], atol=1e-6)
        rate = prediction.learning_rate
        expected = [rate.mean(), *np.quantile(rate, (0.1, 0.9))]
        np.testing.assert_allclose(rows["gates/learning_rate"]["Scalars:scalars"], expected, rtol=1e-6)
        assert rows["gates/horizon"]["Scalars:scalars"] == [memory_horizon(rate)]
    assert [row["frame"] for row in found["gates/residual"]] == [1, 2, 3, 4, 5], "no signals on the first frame"
    assert one(found["gates/residual"][0], "Scalars:scalars") == pytest.approx(pairs[1][0].signals["residual"][0])


def test_frames_without_time_points_or_picture(pairs: list[Shown], tmp_path: Path) -> None:
    with RerunSink(tmp_path / "a.rrd", least_confidence=1e9) as sink:
        sink.write(replace(pairs[0][0], timestamp=None, learning_rate=None))
    found = read(tmp_path / "a.rrd")
    assert found["world/points"][0]["Points3D:positions"] == []
    assert "time" not in found["world/camera"][0]
    assert not any(path.startswith("gates") for path in found)


def test_reliability_is_a_picture(pairs: list[Shown], tmp_path: Path) -> None:
    with RerunSink(tmp_path / "a.rrd") as sink:
        sink.write(replace(pairs[1][0], reliability=np.full((48, 64), 1.0)), pairs[1][1])
    (row,) = read(tmp_path / "a.rrd")["world/camera/reliability"]
    picture = np.asarray(Image.open(io.BytesIO(bytes(one(row, "EncodedImage:blob")))))
    np.testing.assert_allclose(picture, np.broadcast_to([253, 231, 37], (48, 64, 3)), atol=6)


def test_filters_and_the_fused_cloud(pairs: list[Shown], tmp_path: Path) -> None:
    cloud = CloudSink(tmp_path / "c.ply", edge=0.1)
    written(Tee(cloud, RerunSink(tmp_path / "a.rrd", cloud=cloud, keep=DepthRange(0.5, 2.0))), pairs)
    found = read(tmp_path / "a.rrd")
    (row,) = found["world/cloud"]
    assert "frame" not in row, "static: there at any time"
    np.testing.assert_allclose(row["Points3D:positions"], cloud.voxels.cloud().points, atol=1e-5)
    for (prediction, _), points in zip(pairs, found["world/points"], strict=True):
        T_camera_world = np.linalg.inv(prediction.T_world_camera)
        depth = np.array(points["Points3D:positions"]) @ T_camera_world[2, :3] + T_camera_world[2, 3]
        assert len(depth) > 50
        assert 0.49 < depth.min() <= depth.max() < 2.01


def alone(path: Path) -> Sink:
    return RerunSink(path.with_suffix(".rrd"), points_per_frame=50)


def together(path: Path) -> Sink:
    cloud = CloudSink(path.with_suffix(".ply"), edge=0.1)
    return Tee(cloud, RerunSink(path.with_suffix(".rrd"), points_per_frame=50, cloud=cloud))


@pytest.mark.parametrize("make", [alone, together])
@pytest.mark.parametrize(("at", "lost"), [(0, 2), (3, 2), (5, 1)])
def test_resumed_files_are_the_same(
    pairs: list[Shown], tmp_path: Path, make: Callable[[Path], Sink], at: int, lost: int
) -> None:
    written(make(tmp_path / "whole"), pairs)
    interrupted(make, tmp_path / "killed", pairs, at, lost)
    assert (tmp_path / "killed.rrd").read_bytes() == (tmp_path / "whole.rrd").read_bytes()


def test_another_process_writes_the_same(pairs: list[Shown], tmp_path: Path) -> None:
    written(RerunSink(tmp_path / "here.rrd"), pairs[:3])
    program = (
        "import sys; from pathlib import Path; from walks import shown, walk, written; from recal3r.sinks import "
        "RerunSink; written(RerunSink(Path(sys.argv[1])), shown(walk(6))[:3])"
    )
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}; {program}", str(tmp_path / "there.rrd")]
    subprocess.run(command, check=True)
    assert (tmp_path / "there.rrd").read_bytes() == (tmp_path / "here.rrd").read_bytes()


def test_readable_after_every_frame(pairs: list[Shown], tmp_path: Path) -> None:
    with RerunSink(tmp_path / "a.rrd") as sink:
        assert read(tmp_path / "a.rrd").keys() == {"world"}
        for count, (prediction, image) in enumerate(pairs[:3], start=1):
            sink.write(prediction, image)
            assert len(read(tmp_path / "a.rrd")["world/camera"]) == count


def test_recordings_have_names(tmp_path: Path) -> None:
    from rerun.chunk import RrdReader

    written(RerunSink(tmp_path / "a.rrd", recording="seven"), [])
    with pytest.warns(match="no footer"):
        (entry,) = RrdReader(tmp_path / "a.rrd").recordings()
    assert (entry.application_id, entry.recording_id) == ("recal3r", "seven")


def test_wrong_use_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.rrd"
    with RerunSink(path) as sink, pytest.raises(OutputError, match="needs 'camera'"):
        sink.write(Prediction(0))
    with pytest.raises(OutputError, match="exists already"), RerunSink(path):
        pass
    with pytest.raises(OutputError, match="not open"):
        RerunSink(path).write(Prediction(0))
    monkeypatch.setitem(sys.modules, "rerun", None)
    monkeypatch.setitem(sys.modules, "rerun.chunk", None)
    with pytest.raises(OutputError, match=r"install recal3r\[rerun\]"), RerunSink(tmp_path / "b.rrd"):
        pass
    assert not (tmp_path / "b.rrd").exists()


def test_an_unknown_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import rerun

    encoder = Encoder(rerun, "x")
    monkeypatch.setattr("recal3r.sinks.rrd._MAGIC", b"RRF9")
    with pytest.raises(OutputError, match="a form unknown here"):
        encoder.beginning()
