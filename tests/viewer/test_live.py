"""Frames of a folder that grows, and of a stream that nothing may hold up."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from room import HEIGHT, WIDTH, truth, write_run

from pipeline.conftest import SMALL
from recal3r.cli.main import main
from recal3r.errors import OutputError
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.load import untrained
from recal3r.sinks.base import Mark
from recal3r.sinks.frames import FramesSink, view_frame
from recal3r.sources.synthetic import SyntheticFrame
from recal3r.types import Prediction
from recal3r.viewer import FolderFrames, Viewer, ViewerSink
from recal3r.viewer.frames import LiveFrames


def until(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_folder_that_grows(frames: list[SyntheticFrame], tmp_path: Path) -> None:
    there = FolderFrames(tmp_path)
    assert there.indices() == []
    assert there.status() == "waiting for more"
    write_run(tmp_path, frames[:3])
    assert there.indices() == [0, 1, 2]
    assert there.status() == "finished"
    np.testing.assert_array_equal(there.frame(2).picture, frames[2].image)
    assert there.frame(2) is there.frame(2), "what was read lately is not read again"
    assert there.frame(7) is None


def test_a_frame_that_has_gone_since_the_folder_was_listed(frames: list[SyntheticFrame], tmp_path: Path) -> None:
    there = FolderFrames(write_run(tmp_path, frames[:3]))
    (tmp_path / "frames" / "000001.npz").unlink()
    assert there.frame(1) is None


def test_another_run_in_the_same_folder(frames: list[SyntheticFrame], tmp_path: Path) -> None:
    there = FolderFrames(write_run(tmp_path, frames[:3]))
    there.indices()
    epoch, first = there.epoch, there.frame(0)
    with FramesSink(tmp_path / "frames", overwrite=True) as sink:
        sink.write(replace(truth(frames[5], frames[0]), index=0))
    there.indices()
    assert there.epoch == epoch + 1
    assert not np.array_equal(there.frame(0).depth, first.depth)


def test_folders_that_cannot_be_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", str(tmp_path / "nowhere")]) == 1
    assert "nowhere is no folder" in capsys.readouterr().err
    (tmp_path / "run.json").write_text(json.dumps({"complete": True}))
    assert main(["view", str(tmp_path)]) == 1
    assert "a finished run without frames" in capsys.readouterr().err


def test_a_stream_is_held_in_bounded_memory(frames: list[SyntheticFrame]) -> None:
    live, frame = LiveFrames(budget=10), view_frame(truth(frames[0], frames[0]), frames[0].image, None)
    for index in range(100):
        live.add(replace(frame, index=index))
        assert len(live.indices()) <= 10
    assert live.indices() == list(range(0, 100, 16))
    assert live.frame(96).index == 96
    assert live.frame(97) is None


def shown(viewer: Viewer, points: int) -> bool:
    return viewer.shown is not None and viewer.shown.passing == points == viewer.sent


def test_a_damaged_frame_is_named_and_the_others_are_shown(frames: list[SyntheticFrame], tmp_path: Path) -> None:
    folder = write_run(tmp_path, frames[:4])
    (folder / "frames" / "000001.npz").write_bytes(b"half of")
    with Viewer(FolderFrames(folder), port=0) as viewer:
        until(lambda: shown(viewer, 3 * WIDTH * HEIGHT))
        assert list(viewer.unreadable) == [1]
        assert "000001.npz is no frame of a run" in viewer.unreadable[1]


def test_a_stream_is_shown_as_it_comes(frames: list[SyntheticFrame]) -> None:
    with ViewerSink(port=0) as sink:
        assert sink.url.startswith("http://127.0.0.1:")
        for count, frame in enumerate(frames[:6], 1):
            sink.write(truth(frame, frames[0]), frame.image)
            until(lambda count=count: shown(sink.viewer, count * WIDTH * HEIGHT))
        until(lambda: sink.viewer.index == 5)
        assert sink.dropped == 0
        sink.linger(0.0)


def test_the_stream_does_not_wait_for_a_viewer_that_stands_still(
    frames: list[SyntheticFrame], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest frames win; those that were dropped are counted."""
    came, go_on, taken = threading.Event(), threading.Event(), list[int]()

    def stand_still(self: LiveFrames, frame: object) -> None:
        came.set()
        assert go_on.wait(20)
        taken.append(frame.index)

    monkeypatch.setattr(LiveFrames, "add", stand_still)
    with ViewerSink(port=0) as sink:
        sink.write(truth(frames[0], frames[0]))
        assert came.wait(20)
        for _ in range(1000):
            sink.write(truth(frames[1], frames[0]))
        for frame in frames[8:]:
            sink.write(truth(frame, frames[0]))
        assert sink.dropped == 1000
        go_on.set()
    assert taken == [0, *range(8, 16)], "and what waited at the end is still shown"


def test_the_sink_says_what_it_cannot_do_without(frames: list[SyntheticFrame]) -> None:
    with ViewerSink(port=0) as sink:
        with pytest.raises(OutputError, match="ViewerSink needs 'depth'"):
            sink.write(Prediction(0))
        assert sink.mark() == Mark()


def test_a_viewer_that_fails_says_so_to_who_waits(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object, index: int) -> None:
        raise RuntimeError("a mistake in the viewer")

    monkeypatch.setattr(FolderFrames, "frame", fail)
    with Viewer(FolderFrames(run), port=0) as viewer, pytest.raises(RuntimeError, match="a mistake in the viewer"):
        viewer.wait(20)


def test_a_run_that_is_watched(tmp_path: Path) -> None:
    """`--live` says where to look, the page shows the run, stays when it has ended, and Ctrl-C closes it."""
    weights, out = tmp_path / "w.safetensors", tmp_path / "out"
    write_safetensors(weights, SMALL, untrained(SMALL, device="cpu", dtype="float32").official_state_dict())
    asked = ["run", "synthetic:1?frames=6&width=64&height=48", "-o", out, "--weights", weights, "--write", "tum"]
    program = [sys.executable, "-W", "error", "-m", "recal3r.cli.main", *map(str, asked), "--live", "--port", "0"]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said: list[str] = []
        for line in process.stderr:
            said.append(line)
            if "stays open until Ctrl-C" in line:
                break
        else:
            raise AssertionError("".join(said))
        url = next(line.split()[1] for line in said if line.startswith("open "))
        with urllib.request.urlopen(url) as page:
            assert page.status == 200
        assert json.loads((out / "run.json").read_text())["complete"], "the files are whole while people still look"
        assert len((out / "trajectory.tum.txt").read_text().splitlines()) == 6
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(20) == 0, rest
