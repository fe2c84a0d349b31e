"""The page in a real browser: what people see, and what their hands do."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import Watcher
from PIL import Image
from room import HEIGHT, WIDTH, truth, write_run

from recal3r.sinks.frames import FramesSink
from recal3r.sources.synthetic import SyntheticFrame
from recal3r.viewer import FolderFrames, Viewer


def colours_in_the_middle(watcher: Watcher) -> int:
    seen = np.asarray(Image.open(io.BytesIO(watcher.page.screenshot())).convert("RGB"))[100:620, 320:960]
    return len(np.unique(seen.reshape(-1, 3), axis=0))


def test_a_finished_run(browser: Any, run: Path, frames: list[SyntheticFrame]) -> None:
    every = len(frames) * WIDTH * HEIGHT
    with Viewer(FolderFrames(run), port=0) as viewer, Watcher(browser, viewer.url) as watcher:
        watcher.until(lambda: f"{every:,} of {every:,} points" in watcher.text())
        watcher.until(lambda: watcher.points_drawn() == every)
        assert "frame 0 · 0.00 s · 1 of 16" in watcher.text()
        assert "finished" in watcher.text()
        watcher.until(lambda: colours_in_the_middle(watcher) > 2000)  # the room is painted

        before = watcher.pictures()
        watcher.slider("frame").press("End")
        watcher.until(lambda: "frame 15" in watcher.text())
        watcher.until(lambda: len(watcher.pictures() - before) == 2)

        confidence = np.concatenate([1 + 2 / np.maximum(frame.depth, 0.2) for frame in frames]).astype(np.float16)
        sure = int((confidence >= 2.5).sum())
        watcher.type("least conf.", 2.5)
        watcher.until(lambda: watcher.status() == (sure, sure))
        watcher.until(lambda: watcher.points_drawn() == sure)

        watcher.choose("show", "this frame")
        alone = int(((1 + 2 / np.maximum(frames[15].depth, 0.2)).astype(np.float16) >= 2.5).sum())
        watcher.until(lambda: watcher.status() == (alone, alone))

        header, _, body = watcher.download("Points as PLY").partition(b"end_header\n")
        assert f"element vertex {alone}".encode() in header
        assert len(body) == alone * 19
        assert Image.open(io.BytesIO(watcher.download("Screenshot"))).size[1] > 500
        assert watcher.errors == []


@pytest.mark.slow
def test_a_run_that_is_still_written(browser: Any, frames: list[SyntheticFrame], tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    a_frame = WIDTH * HEIGHT
    with Viewer(FolderFrames(out), port=0) as viewer, Watcher(browser, viewer.url) as watcher:
        watcher.until(lambda: "waiting for the first frame" in watcher.text())
        with FramesSink(out / "frames") as sink:
            for frame in frames[:5]:
                sink.write(truth(frame, frames[0]), frame.image)
            watcher.until(lambda: watcher.status() == (5 * a_frame, 5 * a_frame))
            assert "waiting for more" in watcher.text()
            watcher.until(lambda: "frame 4" in watcher.text())
            for frame in frames[5:]:
                sink.write(truth(frame, frames[0]), frame.image)
        watcher.until(lambda: watcher.status() == (16 * a_frame, 16 * a_frame))
        watcher.until(lambda: "frame 15" in watcher.text())
        watcher.until(lambda: watcher.points_drawn() == 16 * a_frame)

        with FramesSink(out / "frames", overwrite=True) as sink:
            for frame in frames[:3]:
                sink.write(truth(frame, frames[0]), frame.image)
        watcher.until(lambda: watcher.status() == (3 * a_frame, 3 * a_frame))
        assert watcher.errors == []


@pytest.mark.slow
def test_playing_and_colouring(browser: Any, frames: list[SyntheticFrame], tmp_path: Path) -> None:
    """The run knows of no reliability, and the page says so."""
    folder = write_run(tmp_path / "out", frames, reliable=False)
    every = len(frames) * WIDTH * HEIGHT
    with Viewer(FolderFrames(folder), port=0, budget=40_000) as viewer, Watcher(browser, viewer.url) as watcher:
        watcher.until(lambda: watcher.status() == (40_000, every))
        watcher.until(lambda: watcher.points_drawn() == 40_000)
        watcher.choose("colour by", "depth")
        watcher.until(lambda: "depth: " in watcher.text())
        watcher.choose("colour by", "reliability")
        watcher.until(lambda: "has no token reliability" in watcher.text())
        watcher.until(lambda: "depth: " not in watcher.text())

        watcher.choose("show", "until now")
        watcher.until(lambda: watcher.status() == (WIDTH * HEIGHT, WIDTH * HEIGHT))
        watcher.click("Play")
        watcher.until(lambda: watcher.status() == (40_000, every))
        watcher.click("Pause")
        watcher.until(lambda: "Play" in watcher.text())
        stands = viewer.index
        watcher.page.wait_for_timeout(500)
        assert viewer.index == stands

        where = next(iter(viewer.clients())).camera.position.copy()
        watcher.page.get_by_label("follow camera").check()
        watcher.until(lambda: np.abs(next(iter(viewer.clients())).camera.position - where).max() > 0.05)
        assert watcher.errors == []


@pytest.mark.slow
def test_strangers_and_crowds(browser: Any, run: Path) -> None:
    """On an address that others can reach, the token opens the page, once; and only so many fit in."""
    with Viewer(FolderFrames(run), host="0.0.0.0", port=0, token="a-token-of-the-tests", clients=1) as viewer:
        address = f"http://127.0.0.1:{viewer.url.split(':')[2].split('/')[0]}/"
        with Watcher(browser, address) as stranger:
            assert stranger.response.status == 403
            assert "needs its token" in stranger.text()
        with Watcher(browser, f"{address}?token=another-token-of-tests") as stranger:
            assert stranger.response.status == 403
        with Watcher(browser, f"{address}?token=a-token-of-the-tests") as watcher:
            watcher.until(lambda: "16 frames" in watcher.text())
            assert watcher.page.url == address, "the token does not stay where people copy addresses from"
            watcher.until(lambda: viewer.watching == 1)
            with Watcher(browser, f"{address}?token=a-token-of-the-tests") as latecomer:
                assert latecomer.response.status == 503
                assert "come back later" in latecomer.text()
            assert watcher.errors == []
        with Watcher(browser, f"{address}?token=a-token-of-the-tests") as watcher:
            watcher.until(lambda: "16 frames" in watcher.text())
