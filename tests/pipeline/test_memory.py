"""A long run with every sink takes no more at its end than near its beginning: memory, files, threads, time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipeline.runs import EVERYTHING, ONE_THREAD

FRAMES, EARLY, TIMED = 10_000, 1000, 1000
GROWTH, SLOWER = 0.01, 0.10  # the rest of the machine is not ours; test_soak takes turns and holds 3 %
# A process of its own says what it holds after some frames, and how long it has computed for since the last time.
PROGRAM = """
import gc, json, os, sys, threading, time
from pathlib import Path
from recal3r.pipeline.run import Run
from recal3r.pipeline.settings import Settings

class Listener:
    def begin(self, source, done, total): ...
    def frame(self, prediction):
        if (prediction.index + 1) % TIMED == 0:
            gc.collect()
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            files = len(list(Path("/proc/self/fd").iterdir()))
            print(json.dumps([resident, files, threading.active_count(), time.process_time()]), flush=True)

source, out, write, TIMED = *sys.argv[1:4], int(sys.argv[4])
options = {"cloud_points": 20_000, "cloud_edge": 0.05, "least_confidence": 1.0, "threads": 1}
Run(Settings(source, Path(out), write=write, weights="tiny", **options))(Listener())
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads resident memory from /proc")


@pytest.mark.slow
@pytest.mark.xdist_group("every sink")
def test_ten_thousand_frames_with_every_sink(tmp_path: Path, say: Callable[[str], None]) -> None:
    out, frames = tmp_path / "out", int(os.environ.get("RECAL3R_RUN", FRAMES))
    arguments = [f"synthetic:1?frames={frames}&width=128&height=96", out, EVERYTHING, TIMED]
    program = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(program, check=False, capture_output=True, text=True, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    resident, files, threads, computed = (list(column) for column in zip(*told, strict=True))
    early, late = resident[EARLY // TIMED], resident[-1]
    seconds = np.diff(computed)  # of every thousand frames
    say(
        f"{frames} frames with every sink: memory {early / 2**20:.1f} MiB after {EARLY + TIMED}, then "
        f"{late / early - 1:+.2%}; the second thousand took {seconds[0]:.1f} s, the last "
        f"{seconds[-1] / seconds[0] - 1:+.1%}"
    )
    trajectory = np.loadtxt(out / "trajectory.tum.txt")
    assert trajectory.shape == (frames, 8)
    assert np.isfinite(trajectory).all()
    assert len(list((out / "depth").glob("*.png"))) == frames
    assert late <= (1 + GROWTH) * early
    assert files[-1] <= files[EARLY // TIMED]
    assert threads[-1] <= threads[EARLY // TIMED]
    assert seconds[-1] <= (1 + SLOWER) * seconds[0]
