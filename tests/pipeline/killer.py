"""A program that runs `recal3r` once into FOLDER/whole, and then into FOLDER/killed-0, which it kills again and again:

    killer.py KILLS SEED FRAMES FOLDER ARGUMENTS_OF_RECAL3R...

Each run is a process of its own, forked from here, so that none waits for torch to be imported. In the end it is left
alone; where it ended before it was killed often enough, there is another folder. Says of each kill how many lines the
trajectory had and how many frames were noted.
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
    """Whether it has come: early in the run, a few frames farther than ever before, or just after the last frame."""
    begun, farthest = time.monotonic(), lines(output)
    step = max(1, (frames - farthest) // (kills - kill))
    early = kill < kills - 1 and rng.random() < 0.2
    after = frames if kill == kills - 1 else farthest + rng.randint(1, step)
    delay, there = rng.uniform(0, 0.5 if early else 0.15), begun if early else None

    def has_come() -> bool:
        nonlocal there
        if there is None and lines(output) >= after:
            there = time.monotonic()
        return there is not None and time.monotonic() - there >= delay

    return has_come


def left_alone(arguments: list[str]) -> None:
    _, status = os.waitpid(started(arguments), 0)
    if status:
        sys.exit(os.waitstatus_to_exitcode(status))


def killed(kills: int, rng: random.Random, frames: int, output: Path, arguments: list[str]) -> int:
    """How many of the kills there were before it ended, which it does in any case."""
    for kill in range(kills):
        process, has_come = started(arguments), moment(rng, kill, kills, output, frames)
        status = None
        while status is None and not has_come():
            time.sleep(_LOOK)
            status = status_of(process)
        if status is not None:  # it ended before it was killed
            if status:
                sys.exit(status)
            return kill
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        sys.stdout.write(f"killed at {lines(output)} with {noted(output)} noted\n")
        sys.stdout.flush()
    left_alone(arguments)
    return kills


def kill_until_it_is_enough(kills: int, rng: random.Random, frames: int, folder: Path, arguments: list[str]) -> None:
    left_alone([*arguments, "-o", str(folder / "whole")])
    done = 0
    while done < kills:
        output = folder / f"killed-{done}"
        done += killed(kills - done, rng, frames, output, [*arguments, "-o", str(output)])


if __name__ == "__main__":
    with torch.device("meta"):
        Cut3r(Cut3rConfig())  # has torch import what it imports late, before anything is forked
    kill_until_it_is_enough(
        int(sys.argv[1]), random.Random(int(sys.argv[2])), int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:]
    )
