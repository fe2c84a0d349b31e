"""A long run with every sink holds no more at its end than near its beginning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.runs import EVERYTHING, ONE_THREAD
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.config import Cut3rConfig
from recal3r.model.load import untrained

FRAMES, EARLY = 3000, 300
# As small as networks are: 3,000 frames are to take a minute, and what is looked at is the run around it.
SMALLEST = Cut3rConfig(
    encoder_width=64,
    encoder_depth=1,
    encoder_heads=2,
    decoder_width=24,
    decoder_depth=2,
    image_heads=2,
    state_heads=2,
    state_tokens=8,
    memory_slots=4,
    image_size=32,
    head="linear",
)
# A process of its own says the most that it has held so far, after each frame.
PROGRAM = """
import json, sys
from pathlib import Path
from recal3r.pipeline.run import Run
from recal3r.pipeline.settings import Settings
from recal3r.pipeline.timings import peak_memory

class Listener:
    def begin(self, source, done, total): ...
    def frame(self, prediction):
        if prediction.index + 1 in (EARLY, FRAMES):
            print(prediction.index + 1, peak_memory(), flush=True)

source, out, weights, write, EARLY, FRAMES = *sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6])
options = {"cloud_points": 2000, "cloud_edge": 0.05, "least_confidence": 1.0, "threads": 1}
Run(Settings(source, Path(out), write=write, weights=weights, **options))(Listener())
"""


@pytest.mark.slow
def test_three_thousand_frames_with_every_sink(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights, out = tmp_path / "w.safetensors", tmp_path / "out"
    write_safetensors(weights, SMALLEST, untrained(SMALLEST, device="cpu", dtype="float32").official_state_dict())
    arguments = [f"synthetic:1?frames={FRAMES}&width=32&height=24", out, weights, EVERYTHING, EARLY, FRAMES]
    program = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(program, check=True, capture_output=True, text=True, env=ONE_THREAD)
    peaks = {int(frame): int(peak) for frame, peak in (line.split() for line in done.stdout.splitlines())}
    with capsys.disabled():
        timings = json.loads((out / "timings.json").read_text())
        sys.stdout.write(
            f"\npeak memory {peaks[EARLY] / 2**20:.1f} MiB at frame {EARLY}, {peaks[FRAMES] / 2**20:.1f} MiB at frame "
            f"{FRAMES} ({peaks[FRAMES] / peaks[EARLY] - 1:+.1%}); {timings['seconds']:.0f} s\n"
        )
    assert peaks[FRAMES] <= 1.05 * peaks[EARLY]
    assert len((out / "trajectory.tum.txt").read_text().splitlines()) == FRAMES
    assert len(list((out / "depth").glob("*.png"))) == FRAMES
