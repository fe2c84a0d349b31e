"""Real recordings through `run` with every sink, and each export back through the program it was written for."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pipeline import readback
from pipeline.runs import EVERYTHING
from recal3r.pipeline.run import Run
from recal3r.pipeline.settings import Settings
from recal3r.sources.base import Source
from recal3r.sources.open import open_source
from recal3r.types import Prediction

FRAMES = {"clips/bedroom.mp4": 200, "clips/valley.mp4": 11, "7scenes-raw/redkitchen/seq-01/*.color.jpg": 300}
BUDGET = 20_000


class Listener:
    """Remembers what the reconstructor said."""

    def __init__(self) -> None:
        self.told: list[Prediction] = []

    def begin(self, source: Source, done: int, total: int | None) -> None:
        assert total is not None

    def frame(self, prediction: Prediction) -> None:
        self.told.append(prediction)


def there(shared: Path, name: str) -> str:
    if not any((shared / "real").glob(name)):
        pytest.skip(f"needs the recording real/{name} in the shared folder")
    return str(shared / "real" / name)


def times_by_ffprobe(path: str) -> list[float]:
    if shutil.which("ffprobe") is None:
        pytest.skip("needs ffprobe (Debian: apt-get install ffmpeg)")
    command = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "json"]
    printed = subprocess.run([*command, path], check=True, capture_output=True, text=True).stdout
    return [float(frame["pts_time"]) for frame in json.loads(printed)["frames"]]


def run_and_read_back(source: str, stride: int, times: list[float], weights: Path, out: Path) -> None:
    settings = Settings(
        source,
        out,
        write=EVERYTHING,  # pyright: ignore[reportArgumentType]  # names with commas between are fine
        weights=str(weights),
        stride=stride,
        least_confidence=1.0,
        cloud_points=BUDGET,
        threads=1,
    )
    listener = Listener()
    summary = Run(settings)(listener)
    with open_source(source, stride=stride) as frames:
        images = [frame.image for frame in frames]
    assert summary.frames == len(listener.told) == len(images) == len(times)
    readback.check_trajectories(out, listener.told, times)
    readback.check_depth(out, listener.told)
    readback.check_images(out, images)
    assert readback.check_colmap(out, listener.told, images) > 10 * len(images)
    readback.check_nerfstudio(out, listener.told)
    assert readback.check_clouds(out, listener.told, BUDGET) > 100
    readback.check_gates(out, listener.told)
    readback.check_recording(out, listener.told)
    readback.check_frames(out, listener.told)
    readback.check_report(out, listener.told)


@pytest.mark.parametrize(
    ("name", "stride"),
    [
        ("clips/valley.mp4", 1),
        ("clips/bedroom.mp4", 40),
        ("7scenes-raw/redkitchen/seq-01/*.color.jpg", 60),
        pytest.param("clips/bedroom.mp4", 1, marks=pytest.mark.slow),
        pytest.param("7scenes-raw/redkitchen/seq-01/*.color.jpg", 1, marks=pytest.mark.slow),
    ],
)
def test_every_sink_is_read_back(shared: Path, weights: Path, tmp_path: Path, name: str, stride: int) -> None:
    source = there(shared, name)
    if name.endswith(".mp4"):
        times = times_by_ffprobe(source)
        assert len(times) == FRAMES[name]
        times = times[::stride]
    else:  # pictures have no times: they are numbered
        times = np.arange(len(range(0, FRAMES[name], stride)), dtype=float).tolist()
    run_and_read_back(source, stride, times, weights, tmp_path / "out")
