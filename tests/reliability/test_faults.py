"""Disks that fill up or break at any write, and processes killed at any: readable results, and runs that go on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.seeded import seeded_frames
from pipeline.conftest import SMALL
from pipeline.runs import EVERYTHING, ONE_THREAD, content
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.load import untrained

OPTIONS = (
    *("--write", EVERYTHING, "--checkpoint-every", 2, "--cloud-points", 500, "--cloud-edge", 0.05),
    *("--least-confidence", 1),
)


def check_readable(output: Path) -> None:
    """What a failed run leaves is whole as far as it goes."""
    for path in output.glob("*.json"):
        json.loads(path.read_text())
    trajectory = output / "trajectory.tum.txt"
    if trajectory.exists():
        # A kill may come in the middle of a line; a reader takes the whole ones.
        lines = trajectory.read_text().split("\n")[:-1]
        assert all(len(line.split()) == 8 and np.isfinite(np.array(line.split(), float)).all() for line in lines)
    for path in output.glob("depth/*.npz"):
        with np.load(path) as arrays:
            assert all(np.isfinite(arrays[name]).all() for name in arrays.files)
    for path in (*output.glob("frames/*.npz"), *output.glob("images/*.png")):
        assert path.stat().st_size


def fail_everywhere(folder: Path, first: int, every: int) -> None:
    pictures, weights = folder / "pictures", folder / "small.safetensors"
    pictures.mkdir()
    for number, frame in enumerate(seeded_frames(4, 48, 64)):
        Image.fromarray(frame).save(pictures / f"{number}.png")
    write_safetensors(weights, SMALL, untrained(SMALL, device="cpu", dtype="float32").official_state_dict())
    program = [sys.executable, str(Path(__file__).with_name("faults.py")), folder / "runs", first, every]
    arguments = [*program, "run", pictures, "--weights", weights, *OPTIONS]
    (folder / "runs").mkdir()
    done = subprocess.run([*map(str, arguments)], check=False, capture_output=True, text=True, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    whole, *told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (whole["status"], whole["calls"] > 150) == (0, True), whole
    assert {one["failure"] for one in told} == {"ENOSPC", "EIO", "SIGKILL"}

    expected = content(folder / "runs" / "whole")
    for one in told:
        output = folder / "runs" / f"{one['failure']}-{one['call']}"
        if one["failure"] == "SIGKILL":
            assert one["status"] in (-9, 0), one
        else:
            assert one["status"] in (0, 1), one
            assert "Traceback" not in one["said"], one
        check_readable(output.with_name(f"{output.name}-left"))
        assert one["again"] == 0, one
        found = content(output)
        assert {name for name in found if found[name] != expected.get(name)} == set(), one
        assert found.keys() == expected.keys(), one


def test_failures_here_and_there(tmp_path: Path) -> None:
    fail_everywhere(tmp_path, first=3, every=61)


@pytest.mark.slow
def test_failures_everywhere(tmp_path: Path) -> None:
    """At one call in nine, with the three kinds of failure in turn."""
    fail_everywhere(tmp_path, first=1, every=9)
