"""`open_source` chooses, says what it chose, and says what would work."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from footage import number_of, write_pictures, write_video

import recal3r
from networks import MINI
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.config import Cut3rConfig
from recal3r.model.load import untrained
from recal3r.sources.base import Source, SourceError
from recal3r.sources.images import Images
from recal3r.sources.live import Live
from recal3r.sources.made_up import MadeUp
from recal3r.sources.open import open_source
from recal3r.sources.raw import RawPipe
from recal3r.sources.synthetic import SyntheticWorld, WorldConfig
from recal3r.sources.video import Video
from recal3r.sources.watch import WatchedFolder
from test_project import run_example


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_pictures(tmp_path / "scans", [1, 2, 10])
    write_pictures(tmp_path / "odd[1]", [3])
    write_video(tmp_path / "clip.MP4", 5)
    (tmp_path / "notes.txt").write_text("words")
    monkeypatch.chdir(tmp_path)
    return tmp_path


CHOICES = {
    "scans": (Images, "pictures scans: 3 of 3"),
    "scans/img*.png": (Images, "pictures scans/img*.png: 3 of 3"),
    "scans/img2.png": (Images, "pictures scans/img2.png: 1 of 1"),
    "odd[1]": (Images, "pictures odd[1]: 1 of 1"),
    "clip.MP4": (Video, "video clip.MP4: h264 64x48, 5 frames, 0.17 s"),
    "rtsp://camera.local/1": (Live, "live stream rtsp://camera.local/1, newest frame first"),
    "https://host/x.m3u8": (Live, "live stream https://host/x.m3u8"),
    "watch:scans": (WatchedFolder, "pictures as they appear in scans, until STOP lies there"),
    "synthetic:7": (MadeUp, "synthetic world 7: 128x96, without an end"),
    "synthetic:7?frames=300&width=64": (MadeUp, "synthetic world 7: 64x48, 300 frames"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_what_is_chosen(place: Path, name: str) -> None:
    kind, description = CHOICES[name]
    with open_source(name) as source:
        assert isinstance(source, kind)
        assert isinstance(source, Source)
        assert source.description.startswith(description)


@pytest.mark.skipif(sys.platform != "linux", reason="names of cameras are the system's")
@pytest.mark.parametrize("device", [0, "0", "/dev/video0"])
def test_cameras(device: int | str) -> None:
    source = open_source(device, options={"video_size": "640x480"})
    assert isinstance(source, Live)
    assert (source.address, source.container_format) == ("/dev/video0", "v4l2")
    assert source.options == {"video_size": "640x480"}


def test_a_path_and_options(place: Path) -> None:
    assert [number_of(frame.image) for frame in open_source(place / "scans", start=1)] == [2, 10]
    assert [number_of(frame.image) for frame in open_source(place / "clip.MP4", stride=2)] == [0, 2, 4]
    raw = open_source("-", width=4, height=3, rate=5)
    assert isinstance(raw, RawPipe)
    assert raw.description == "raw rgb24 pictures of 4x3 at 5 frames/s from a pipe"
    assert open_source(raw) is raw


SENTENCES = {
    "missing": r"'missing' is not there, and is nothing .*a folder of pictures, .*synthetic:SEED",
    "missing.mp4": r"'missing\.mp4' is not there",
    "notes.txt": r"'notes\.txt' is nothing that frames can be had from",
    "": "''",
    "synthetic:": "names no synthetic world; give synthetic:SEED",
    "synthetic:1?frames=many": "names no synthetic world",
    "synthetic:1?frames=0": "frames=0 of a synthetic world",
    "synthetic:1?colour=3": r"\['colour'\] do not fit .*it takes frames, width, height",
    "watch:missing": "no folder that could be watched",
    "scans/*.jpg": r"Of 0 pictures in scans/\*\.jpg",
    "-": "do not say how large they are; give width and height",
}


@pytest.mark.parametrize("name", SENTENCES)
def test_what_would_work(place: Path, name: str) -> None:
    with pytest.raises(SourceError, match=SENTENCES[name]) as caught:
        open_source(name)
    assert "\n" not in str(caught.value)


def test_wrong_options(place: Path) -> None:
    with pytest.raises(SourceError, match=r"\['fps'\] do not fit scans .*it takes stride, start, end, skip_broken"):
        open_source("scans", fps=3)
    with pytest.raises(SourceError, match="is open already and takes no stride"):
        open_source(open_source("scans"), stride=2)
    with pytest.raises(SourceError, match="A float is no source"):
        open_source(1.5)  # type: ignore[arg-type]


def test_videos_without_pyav(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("recal3r.sources.video", "recal3r.sources.live", "recal3r.sources.pyav"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, "av", None)
    for name in ("clip.MP4", "rtsp://host", "0"):
        with pytest.raises(SourceError, match=r"needs PyAV, .*install recal3r\[video\]"):
            open_source(name)
    assert open_source("scans").frames == 3


def test_synthetic_frames_are_the_world() -> None:
    frames = list(open_source("synthetic:5?frames=4&width=32&height=24"))
    world = list(SyntheticWorld(5, WorldConfig(width=32, height=24)).frames(4))
    assert [frame.timestamp for frame in frames] == [frame.timestamp for frame in world]
    for frame, expected in zip(frames, world, strict=True):
        np.testing.assert_array_equal(frame.image, expected.image)
    assert open_source("synthetic:5", frames=9).frames == 9


def test_public_name() -> None:
    assert recal3r.open_source is open_source


def test_example_video(place: Path) -> None:
    model = untrained(Cut3rConfig(**MINI, head="linear"))
    write_safetensors(place / "mini.safetensors", model.config, model.official_state_dict())
    lines = run_example("02_video.py", place / "mini.safetensors", place / "clip.MP4").splitlines()
    assert lines[0].startswith("video ")
    assert [line.split(":")[0] for line in lines[1:]] == [f"{k} at {k / 30:.3f} s" for k in range(5)]
    positions = [[float(word) for word in line.split()[-3:]] for line in lines[1:]]
    assert np.isfinite(positions).all()
    pictures = run_example("02_video.py", place / "mini.safetensors", place / "scans").splitlines()
    assert [line.split(":")[0] for line in pictures[1:]] == ["0", "1", "2"]
