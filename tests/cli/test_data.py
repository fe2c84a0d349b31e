"""`recal3r data`: what it makes, what it finds, and that it leaves alone what was there."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from eval.layouts import LAYOUTS
from recal3r.cli.main import main
from recal3r.eval.datasets import dataset
from recal3r.eval.datasets.register import Registration
from recal3r.sources.synthetic import SyntheticWorld, WorldConfig


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_registration_sees_what_the_colour_camera_sees() -> None:
    """Against the renderer: the same room through both of the Kinect's cameras."""
    sizes = {"width": 640, "height": 480}
    colour, kinect = (SyntheticWorld(5, WorldConfig(**sizes, focal=focal)) for focal in (525.0, 585.0))
    T_world_colour = next(colour.poses())
    registration = Registration()
    np.testing.assert_allclose(registration.K_colour, colour.camera.intrinsics())
    np.testing.assert_allclose(registration.K_depth, kinect.camera.intrinsics())
    _, expected = colour.render(T_world_colour)
    _, seen = kinect.render(T_world_colour @ registration.T_colour_depth)
    found = registration(seen)
    known = found > 0
    assert known.mean() > 0.75, "the depth camera sees less at the sides, but nearly no holes within"
    assert known[120:360, 160:480].mean() > 0.98
    error = np.abs(found - expected)[known]
    assert np.median(error) < 0.005
    assert (error < 0.05).mean() > 0.97, "the rest is beside edges"
    unregistered = np.abs(seen - expected)[known]
    assert np.median(unregistered) > 3 * np.median(error)


def test_of_two_points_on_one_pixel_the_nearer_is_seen() -> None:
    near, far = np.array([[100.0, 0, 4], [0, 100, 0], [0, 0, 1]]), np.array([[40.0, 0, 4], [0, 40, 0], [0, 0, 1]])
    depth = np.array([[0, 0, 0, 0, 0, 2, 3, 0, 0]], np.float32)  # columns 5 and 6 are 1 and 2 beside the centre
    found = Registration(near, far, np.eye(4))(depth)  # 0.4 and 0.8 beside the centre
    np.testing.assert_array_equal(found, [[0, 0, 0, 0, 2, 3, 0, 0, 0]])
    farther = np.array([[16.0, 0, 4], [0, 16, 0], [0, 0, 1]])
    both = Registration(near, farther, np.eye(4))
    np.testing.assert_array_equal(both(depth), [[0, 0, 0, 0, 2, 0, 0, 0, 0]])  # 0.16 and 0.32: both at the centre


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    """Two frames as the Kinect gives them."""
    sequence = tmp_path / "raw" / "office" / "seq-02"
    sequence.mkdir(parents=True)
    for k in range(2):
        name = f"frame-{k:06d}"
        Image.fromarray(np.full((480, 640, 3), 90 + k, np.uint8)).save(sequence / f"{name}.color.png")
        depth = np.full((480, 640), 2000, np.uint16)
        depth[:10] = 65535
        Image.fromarray(depth).save(sequence / f"{name}.depth.png")
        (sequence / f"{name}.pose.txt").write_text("1 0 0 0\n0 1 0 0\n0 0 1 0\n0 0 0 1\n")
    return tmp_path / "raw"


def test_prepare_seven_scenes_elsewhere(raw: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = digests(raw)
    ready = tmp_path / "ready"
    assert main(["data", "verify", "7scenes", str(raw)]) == 1
    assert "`recal3r data prepare 7scenes` makes depth.proj.png" in capsys.readouterr().out
    for _ in range(2):  # what is there stays
        assert main(["data", "prepare", "7scenes", str(raw), "--output", str(ready)]) == 0
    assert digests(raw) == before
    assert "all of its 1 sequences are taken as tests" in capsys.readouterr().out
    assert main(["data", "verify", "7scenes", str(ready), "--every"]) == 0
    assert "2 usable frames, 2 with pose, 2 with depth" in capsys.readouterr().out
    depth = dataset("7scenes", ready).open("office/seq-02").shots[0].depth()
    known = depth[depth > 0]
    assert known.size > 0.7 * depth.size
    assert np.median(known) == pytest.approx(2.0, abs=0.02)


def test_prepare_seven_scenes_in_place_adds_and_changes_nothing(raw: Path) -> None:
    (raw / "office" / "TestSplit.txt").write_text("sequence2\n")
    before = digests(raw)
    assert main(["data", "prepare", "7scenes", str(raw)]) == 0
    after = digests(raw)
    assert {name: after[name] for name in before} == before
    assert {name.rpartition(".depth.")[2] for name in set(after) - set(before)} == {"proj.png"}
    assert main(["data", "prepare", "7scenes", str(raw)]) == 0
    assert digests(raw) == after


@pytest.mark.parametrize("name", LAYOUTS)
def test_verify_and_forecast_every_layout(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    root = LAYOUTS[name](tmp_path / "data")
    before = digests(root)
    if name != "synthetic":
        assert main(["data", "prepare", name, str(root)]) == 0
    assert main(["data", "verify", name, str(root)]) == 0
    assert "0 with problems" in capsys.readouterr().out
    assert main(["data", "forecast", name, str(root), "--lengths", "4", "1000"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert rows
    assert all(row[4] == "0" or row[1] == "4" or int(row[3]) == 0 for row in rows)
    assert digests(root) == before


def test_verify_finds_what_is_damaged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    root = LAYOUTS["bonn"](tmp_path / "data")
    folder = root / "rgbd_bonn_balloon2"
    first = sorted((folder / "rgb").iterdir())[0]
    first.write_bytes(first.read_bytes()[:100])
    last = sorted((folder / "depth").iterdir())[-1]
    Image.fromarray(np.ones((3, 3), np.uint16)).save(last)
    (folder / "rgb.txt").write_text((folder / "rgb.txt").read_text() + "99.0 rgb/99.png\n")
    shutil.copytree(folder, root / "rgbd_bonn_empty")
    (root / "rgbd_bonn_empty" / "rgb.txt").write_text("# nothing\n")
    assert main(["data", "verify", "bonn", str(root)]) == 1
    text = capsys.readouterr().out
    assert "cannot be read as a picture" in text
    assert "the picture is 64x48, its depth 3x3" in text
    assert "no frame is usable" in text
    assert "1 without a true pose within 0.02 s" in text
    assert "it comes from https://www.ipb.uni-bonn.de" in text


def test_prepare_synthetic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["data", "prepare", "synthetic", str(tmp_path / "s"), "--scenes", "2", "--frames", "3"]
    assert main([*arguments, "--size", "32", "24"]) == 0
    before = digests(tmp_path)
    assert main([*arguments, "--size", "32", "24"]) == 0
    assert digests(tmp_path) == before
    assert "stays as it is" in capsys.readouterr().out
    assert dataset("synthetic", tmp_path / "s").names() == ("scene-000", "scene-001")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    assert main(["data", "prepare", "synthetic", str(tmp_path / "other")]) == 1
