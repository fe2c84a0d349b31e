"""Frames for a viewer: exact to their format, bounded in number, and nothing lost that was not theirs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recal3r.errors import OutputError
from recal3r.sinks.frames import EveryKth, FramesSink, frame_files, read_frame
from recal3r.types import Camera, Crop, Image, Prediction


def prediction(index: int, *, reliability: bool = False, timestamp: float | None = None) -> Prediction:
    rng = np.random.default_rng(index)
    pose = np.eye(4)
    pose[:3, 3] = rng.normal(size=3)
    camera = Camera(np.array([[9.0, 0, 4], [0, 9.0, 3], [0, 0, 1]]), 8, 6, pose, Crop((80, 60), (8, 6)))
    return Prediction(
        index,
        timestamp,
        pose,
        camera,
        depth=rng.uniform(0.1, 9, (6, 8)),
        confidence_camera=1 + rng.exponential(4, (6, 8)),
        reliability=rng.random((6, 8)) if reliability else None,
    )


def picture(index: int) -> Image:
    """Blocks of 10×10 pixels, each of one colour: what a picture of a tenth of the size shows."""
    return np.random.default_rng(index).integers(0, 256, (6, 8, 3), np.uint8).repeat(10, 0).repeat(10, 1)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def write(folder: Path, indices: range, budget: int = 2000) -> FramesSink:
    with FramesSink(folder, budget=budget) as sink:
        for index in indices:
            sink.write(prediction(index), picture(index))
    return sink


def test_a_frame_comes_back(tmp_path: Path) -> None:
    shown = [prediction(0, reliability=True, timestamp=0.25), prediction(1)]
    with FramesSink(tmp_path / "frames") as sink:
        for one in shown:
            sink.write(one, picture(one.index))
    for one, path in zip(shown, frame_files(tmp_path / "frames").values(), strict=True):
        frame = read_frame(path)
        assert (frame.index, frame.timestamp) == (one.index, one.timestamp)
        np.testing.assert_array_equal(frame.depth, one.depth.astype(np.float16))
        np.testing.assert_array_equal(frame.confidence, one.confidence_camera.astype(np.float16))
        np.testing.assert_array_equal(frame.T_world_camera, one.T_world_camera)
        np.testing.assert_array_equal(frame.intrinsics, one.camera.intrinsics)
        assert frame.picture.shape == (6, 8, 3)
        if one.reliability is None:
            assert frame.reliability is None
        else:
            np.testing.assert_array_equal(frame.reliability, one.reliability.astype(np.float16))


def test_the_picture_is_the_window_that_the_network_saw(tmp_path: Path) -> None:
    """Of a picture that was shrunk to a tenth, and that is twice as wide as the window, the middle."""
    seen = picture(0)
    wide = np.pad(seen, ((0, 0), (40, 40), (0, 0)))
    one = prediction(0)
    camera = Camera(one.camera.intrinsics, 8, 6, one.T_world_camera, Crop((160, 60), (16, 6), left=4))
    with FramesSink(tmp_path) as sink:
        sink.write(Prediction(0, None, one.T_world_camera, camera, depth=one.depth, confidence_camera=one.depth), wide)
        sink.write(prediction(1))
    np.testing.assert_array_equal(read_frame(tmp_path / "000000.npz").picture, seen[::10, ::10])
    assert (read_frame(tmp_path / "000001.npz").picture == 128).all(), "grey where there was no picture"


def test_numbers_too_large_for_16_bits(tmp_path: Path) -> None:
    one = prediction(0)
    far = Prediction(
        0, None, one.T_world_camera, one.camera, depth=one.depth * 1e6, confidence_camera=one.depth * 0 + 1e9
    )
    with FramesSink(tmp_path) as sink:
        sink.write(far)
    frame = read_frame(tmp_path / "000000.npz")
    assert np.isinf(frame.depth).all()
    assert (frame.confidence == 65504).all()


def test_a_long_stream_keeps_every_kth_frame(tmp_path: Path) -> None:
    write(tmp_path, range(75), budget=20)
    assert list(frame_files(tmp_path)) == list(range(0, 75, 4))


@given(st.integers(2, 30), st.integers(1, 400))
def test_what_is_kept_is_spread_evenly(budget: int, length: int) -> None:
    every, here = EveryKth(budget), set[int]()
    for index in range(length):
        if every.takes(index):
            here.add(index)
            here -= set(every.add(index))
    assert sorted(here) == every.kept == list(range(0, length, every.stride))
    assert len(here) <= budget
    assert every.stride == 1 or len(here) > budget // 4, "and no more is forgotten than has to be"


@pytest.mark.parametrize(("marked", "killed"), [(0, 9), (5, 9), (17, 70), (60, 70), (20, 21)])
def test_a_killed_run_ends_with_the_same_files(tmp_path: Path, marked: int, killed: int) -> None:
    """Whatever was written after the mark, and forgotten for it, before the run was killed."""
    write(tmp_path / "whole", range(75), budget=20)
    sink = FramesSink(tmp_path / "killed", budget=20).__enter__()
    for index in range(marked):
        sink.write(prediction(index), picture(index))
    mark = sink.mark()
    for index in range(marked, killed):
        sink.write(prediction(index), picture(index))
    (tmp_path / "killed" / f"{killed:06d}.npz.part").write_bytes(b"PK half of it") if killed == 70 else None

    resumed = FramesSink(tmp_path / "killed", budget=20, overwrite=True)
    resumed.resume(mark)
    with resumed:
        for index in range(marked, 75):
            resumed.write(prediction(index), picture(index))
    here = {name: content for name, content in contents(tmp_path / "killed").items() if not name.endswith(".part")}
    assert here == contents(tmp_path / "whole")


def test_nothing_is_taken_from_a_folder_unasked(tmp_path: Path) -> None:
    write(tmp_path, range(3))
    before = contents(tmp_path)
    with pytest.raises(OutputError, match="not empty"):
        FramesSink(tmp_path).__enter__()
    assert contents(tmp_path) == before


def test_overwriting_takes_away_the_frames_of_an_earlier_run_and_nothing_else(tmp_path: Path) -> None:
    write(tmp_path, range(5))
    (tmp_path / "notes.txt").write_text("mine")
    np.savez(tmp_path / "000099.npz", mine=np.arange(3))
    with FramesSink(tmp_path, overwrite=True) as sink:
        sink.write(prediction(0), picture(0))
    assert sorted(contents(tmp_path)) == ["000000.npz", "000099.npz", "notes.txt"]


@pytest.mark.parametrize("damage", [b"", b"not an archive", None, "other"])
def test_a_damaged_file_is_named(tmp_path: Path, damage: bytes | str | None) -> None:
    write(tmp_path, range(1))
    path = tmp_path / "000000.npz"
    if damage == "other":
        np.savez(path, depth=np.zeros((2, 2)))
    else:
        path.write_bytes(path.read_bytes()[:-200] if damage is None else damage)
    with pytest.raises(OutputError, match=r"000000\.npz is no frame of a run"):
        read_frame(path)


def test_arrays_that_do_not_fit_together(tmp_path: Path) -> None:
    write(tmp_path, range(1))
    arrays = dict(np.load(tmp_path / "000000.npz"))
    np.savez(tmp_path / "000000.npz", **arrays | {"confidence": np.ones((2, 2), np.float16)})
    with pytest.raises(OutputError, match="do not fit together"):
        read_frame(tmp_path / "000000.npz")


def test_what_it_needs_must_be_there(tmp_path: Path) -> None:
    with FramesSink(tmp_path) as sink, pytest.raises(OutputError, match="'camera'"):
        sink.write(Prediction(0, depth=np.ones((6, 8)), confidence_camera=np.ones((6, 8))))


def test_a_budget_that_shows_nothing(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="budget of 1 frames"):
        FramesSink(tmp_path, budget=1)
