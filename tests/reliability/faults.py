"""A program that runs `recal3r` with disks that fail: FOLDER SEED EVERY ARGUMENTS_OF_RECAL3R...

Every call that changes a file is counted: opening one to write, writing, cutting, syncing, renaming, removing, making a
folder. First the run is left alone, into FOLDER/whole, which says how many calls there are. Then, for one call in EVERY
and each kind of failure, a process of its own is forked that fails at that call: with ENOSPC or EIO from then on until
it ends, or killed just before it. The same command is then given again, with nothing failing. Says for each how the
process ended and what it said, as a line of JSON.
"""

from __future__ import annotations

import errno
import io
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow  # noqa: F401  # as late imports go, this is a long one
import torch

from recal3r.cli.main import main
from recal3r.model.config import Cut3rConfig
from recal3r.model.cut3r import Cut3r
from recal3r.sinks import files


class Disk:
    """Counts calls, and fails from the one of a number on. Changes with every call."""

    def __init__(self, fails_at: int | None = None, failure: int = 0) -> None:
        self.calls, self._fails_at, self._failure = 0, fails_at, failure

    def touched(self) -> None:
        self.calls += 1
        if self._fails_at is None or self.calls < self._fails_at:
            return
        if not self._failure:
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(self._failure, os.strerror(self._failure))

    def install(self) -> None:
        disk = self

        class File(io.FileIO):
            def __init__(self, path: Any, mode: str = "r", *rest: Any, **more: Any) -> None:
                self.changes = any(letter in mode for letter in "wxa+")
                if self.changes:
                    disk.touched()
                super().__init__(path, mode, *rest, **more)

            def write(self, content: Any) -> int:
                disk.touched()
                return super().write(content)

            def truncate(self, size: int | None = None) -> int:
                # Making a file shorter needs no room: disks that are full still do it.
                return super().truncate(size)

        def opened(path: Any, mode: str = "r", *rest: Any, **more: Any) -> Any:
            if not any(letter in mode for letter in "wxa+") or isinstance(path, int):
                return plain_open(path, mode, *rest, **more)
            raw = File(path, mode.replace("b", "").replace("t", ""), opener=more.get("opener"))
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, write_through=True)

        plain_open = io.open
        io.open = opened  # what pathlib opens files with
        files.FileIO = File  # type: ignore[misc]
        for name in ("fsync", "replace", "rename", "mkdir"):
            setattr(os, name, self._watched(getattr(os, name)))

    def _watched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.touched()
            return function(*arguments, **named)

        return call


def run(arguments: list[str], disk: Disk | None) -> tuple[int, str, int]:
    """How a process of its own ended, what it said, and how many calls there were."""
    told, tells = os.pipe()
    process = os.fork()
    if process == 0:
        status = 99
        os.dup2(tells, 2)
        try:
            if disk is not None:
                disk.install()
            status = main(arguments)
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os.write(2, f"\ncalls {disk.calls if disk else 0}".encode())
            os._exit(status)
    os.close(tells)
    with os.fdopen(told) as said:
        text = said.read()
    _, status = os.waitpid(process, 0)
    text, _, calls = text.rpartition("\ncalls ")
    return os.waitstatus_to_exitcode(status), text, int(calls) if calls.isdigit() else 0


FAILURES = {"ENOSPC": errno.ENOSPC, "EIO": errno.EIO, "SIGKILL": 0}


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def fail_everywhere(folder: Path, first: int, every: int, arguments: list[str]) -> None:
    status, said, calls = run([*arguments, "-o", str(folder / "whole")], Disk())
    tell(failure=None, status=status, said=said, calls=calls)
    for number, call in enumerate(range(first, calls + 1, every)):
        name = list(FAILURES)[number % len(FAILURES)]
        output = folder / f"{name}-{call}"
        status, said, _ = run([*arguments, "-o", str(output)], Disk(call, FAILURES[name]))
        if output.exists():
            shutil.copytree(output, folder / f"{output.name}-left")
        again, said_again, _ = run([*arguments, "-o", str(output)], None)
        tell(failure=name, call=call, status=status, said=said, again=again, said_again=said_again)


if __name__ == "__main__":
    with torch.device("meta"):
        Cut3r(Cut3rConfig())  # has torch import what it imports late, before anything is forked
    fail_everywhere(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
