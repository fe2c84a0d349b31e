"""A program that starts a run and kills it, again and again: `killer.py KILLS SEED FRAMES ARGUMENTS_OF_RECAL3R...`

Each run is a process of its own, forked from here, so that none waits for torch to be imported. The last one is left
alone. Says of each of the killed ones how many lines its trajectory had and how many frames it had noted.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import pyarrow  # noqa: F401  # as late imports go, this is a long one
import torch

from recal3r.cli.main import main
from recal3r.model.config import Cut3rConfig
from recal3r.model.cut3r import Cut3r

_LOOK = 0.002  # seconds


def started(arguments: list[str]) -> int:
    process = os.fork()
    if process == 0:
        status = 99
        try:
            status = main(arguments)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return process


def status_of(process: int) -> int | None:
    """None while it runs."""
    done, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


def lines(output: Path) -> int:
    path = output / "trajectory.tum.txt"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def noted(output: Path) -> int | None:
    index = output / ".resume" / "checkpoint.json"
    return json.loads(index.read_text())["frames"] if index.exists() else None


def moment(rng: random.Random, kill: int, kills: int, output: Path, frames: int) -> Callable[[], bool]:
    """Whether it has come: any time after the start, any time after a few more frames, or just after the last one."""
    begun, before = time.monotonic(), noted(output) or 0
    after = before + rng.randint(1, max(1, (frames - before) // 3))
    if kill == kills - 1:
        after = frames
    elif rng.random() < 0.2:
        after = 0
    delay, there = rng.uniform(0, 0.15), None

    def has_come() -> bool:
        nonlocal there
        if there is None and (after == 0 or lines(output) >= after):
            there = begun if after == 0 else time.monotonic()
        return there is not None and time.monotonic() - there >= delay

    return has_come


def killed(kills: int, rng: random.Random, frames: int, arguments: list[str]) -> int:
    output = Path(arguments[arguments.index("-o") + 1])
    for kill in range(kills):
        process, has_come = started(arguments), moment(rng, kill, kills, output, frames)
        status = None
        while status is None and not has_come():
            time.sleep(_LOOK)
            status = status_of(process)
        if status is not None:  # it ended before it was killed
            return status
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        sys.stdout.write(f"killed at {lines(output)} with {noted(output)} noted\n")
        sys.stdout.flush()
    _, status = os.waitpid(started(arguments), 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    with torch.device("meta"):
        Cut3r(Cut3rConfig())  # has torch import what it imports late, before anything is forked
    sys.exit(killed(int(sys.argv[1]), random.Random(int(sys.argv[2])), int(sys.argv[3]), sys.argv[4:]))
