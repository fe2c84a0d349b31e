"""A stream that runs for long: no memory, no files, no threads, no time a frame that grow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
# The slow lane has the minutes for it; RECAL3R_SOAK=10000 where they are missing.
LONG = int(os.environ.get("RECAL3R_SOAK", "100000"))

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads resident memory from /proc")


def soak(frames: int, warm_up: int) -> dict:
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("soak.py")), str(frames), str(warm_up)],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": paths},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(told: dict, frames: int) -> None:
    first, last = told["parts"][0], told["parts"][-1]
    assert told["finite"]
    assert told["frames"] >= frames
    assert abs(last["resident"] / first["resident"] - 1) < 0.01
    assert last["files"] == first["files"]
    assert last["threads"] == first["threads"]
    assert abs(told["old_to_new"] - 1) < 0.03, "the time of a frame, against that of a stream that has just begun"


@pytest.mark.slow
@pytest.mark.xdist_group("soak")
def test_a_long_stream(say: Callable[[str], None]) -> None:
    told = soak(LONG, 500)
    growth = told["parts"][-1]["resident"] / told["parts"][0]["resident"] - 1
    say(f"{told['frames']} frames: memory {growth:+.3%}, time a frame {told['old_to_new'] - 1:+.2%}")
    check(told, LONG)


def test_a_short_one() -> None:
    told = soak(400, 300)
    first, last = told["parts"][0], told["parts"][-1]
    assert abs(last["resident"] / first["resident"] - 1) < 0.01
    assert (last["files"], last["threads"], told["finite"]) == (first["files"], first["threads"], True)
