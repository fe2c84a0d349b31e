"""Ctrl-C at any time: outputs that are whole, exit code 130, and no traceback."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from pipeline.conftest import SMALL
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.load import untrained

RUN = [sys.executable, "-W", "error", "-m", "recal3r.cli.main"]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    write_safetensors(path, SMALL, untrained(SMALL, device="cpu", dtype="float32").official_state_dict())
    return path


def interrupted(arguments: list[str], delay: float, begun: Path | None = None) -> tuple[int, str]:
    """Exit code and what was said on stderr by a program that gets a Ctrl-C after `delay`, counted from when the file
    `begun` is there, if one is given."""
    process = subprocess.Popen(
        [*RUN, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while begun is not None and not begun.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    # Where Python itself was in the middle of something, it ends by the signal, which a shell calls 130 as well.
    return 128 - process.returncode if process.returncode < 0 else process.returncode, said


def check_outputs(output: Path) -> None:
    lines = (output / "trajectory.tum.txt").read_text()
    assert lines == "" or lines.endswith("\n")
    assert np.loadtxt(lines.splitlines(), ndmin=2).shape[1] == 8 if lines else True
    known = json.loads((output / "run.json").read_text())
    assert (known["complete"], known["frames"]) == (False, lines.count("\n"))
    header = (output / "cloud.ply").read_bytes().partition(b"end_header\n")[0]
    assert header.startswith(b"ply")
    assert not list(output.glob("*.part"))


def run_arguments(output: Path, weights: Path) -> list[str]:
    source = "synthetic:1?frames=2000&width=64&height=48"
    options = ["--weights", str(weights), "--write", "tum,ply,depth", "--least-confidence", "1"]
    return ["run", source, "-o", str(output), *options]


def test_while_it_runs(weights: Path, tmp_path: Path) -> None:
    rng = random.Random(0)
    for attempt in range(2):
        output = tmp_path / str(attempt)
        status, said = interrupted(run_arguments(output, weights), rng.uniform(0, 1), output / "trajectory.tum.txt")
        assert status == 130, said
        assert "Traceback" not in said
        assert "interrupted" in said
        check_outputs(output)


@pytest.mark.parametrize("delay", [0.4, 1.2])
def test_while_it_starts(weights: Path, tmp_path: Path, delay: float) -> None:
    """Also while Python's packages are imported, of which some turn an interruption into errors of their own."""
    status, said = interrupted(run_arguments(tmp_path / "out", weights), delay)
    assert status == 130, said
    assert "Traceback" not in said, said


def test_other_commands(tmp_path: Path) -> None:
    status, said = interrupted(["demo", "--output", str(tmp_path / "demo"), "--frames", "5000"], 3)
    assert (status, "Traceback" in said) == (130, False), said
