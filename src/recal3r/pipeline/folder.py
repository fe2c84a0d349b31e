"""A run's folder: what was asked for, whether it is done, and who may write into it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from recal3r.errors import OutputError
from recal3r.jsontext import parsed
from recal3r.pipeline.checkpoint import FOLDER, Checkpoint, Checkpoints
from recal3r.sinks.files import write_whole

RUN, TIMINGS = "run.json", "timings.json"
_OF_A_BEGINNING = (FOLDER, f".{RUN}.part")  # what a run leaves that was killed before it began
Identity = Mapping[str, Any]
"""All that decides what a run writes, by section: JSON."""


class RunFolder:
    """The folder that one run writes to. What it did not write itself it leaves alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = Checkpoints(path / FOLDER)

    def make(self) -> None:
        try:
            self.checkpoints.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"The folder {self.path} cannot be made ({error.strerror}); name another.") from error

    @contextmanager
    def ours_alone(self) -> Generator[None]:
        """No other run may write to the folder meanwhile. The lock goes with the process, however that ends."""
        path = self.checkpoints.folder / "lock"
        try:
            file = path.open("w")
        except OSError as error:
            raise OutputError(f"{path} cannot be written ({error.strerror}); name another folder.") from error
        with file:
            if not _locked(file.fileno()):
                raise OutputError(f"Another run is writing to {self.path}; wait for it, or name another folder.")
            yield

    def is_complete(self, identity: Identity) -> bool:
        """Whether the folder holds all of this run, which is then to be left as it is."""
        known = self._known()
        return known is not None and known["complete"] and not differences(known, identity)

    def begun(self, identity: Identity, *, resume: bool, overwrite: bool) -> Checkpoint | None:
        """Where this run was cut off; None where it begins. A folder that holds something else is an error, but for
        `overwrite`."""
        known, checkpoint = self._known(), self.checkpoints.read() if resume else None
        if resume and known is not None and _kept_nothing(known) and not differences(known, identity):
            return Checkpoint(0, None, None)
        if checkpoint is not None and known is not None and not known["complete"]:
            differing = differences(known, identity)
            if not differing:
                return checkpoint
            if not overwrite:
                raise OutputError(
                    f"{self.path} holds a run that was cut off, with other settings: {'; '.join(differing)}. Give the "
                    "same to go on with it, name another folder, or begin anew with --overwrite."
                )
        if not overwrite and any(path.name not in _OF_A_BEGINNING for path in self.path.iterdir()):
            what = "a finished run" if known is not None and known["complete"] else "files"
            raise OutputError(f"The folder {self.path} holds {what} already; name a new one, or add --overwrite.")
        return None

    def begin(self, identity: Identity, *, repeatable: bool) -> None:
        """From here on, what is of this run in the folder may be replaced by going on with it."""
        if repeatable:
            self.checkpoints.begin()
        self.note(identity, frames=0, complete=False)

    def frames(self, identity: Identity) -> int:
        """How many frames the run of that identity has come to."""
        known = self._known()
        return known["frames"] if known is not None and not differences(known, identity) else 0

    def note(self, identity: Identity, *, frames: int, complete: bool, **more: Any) -> None:
        """What was asked for, and how far it has come."""
        content = {**identity, "frames": frames, "complete": complete, **more}
        write_whole(self.path / RUN, (json.dumps(content, indent=2) + "\n").encode())

    def note_timings(self, timings: Mapping[str, Any]) -> None:
        write_whole(self.path / TIMINGS, (json.dumps(timings, indent=2) + "\n").encode())

    def _known(self) -> dict[str, Any] | None:
        """What `note` wrote; None where there is no such file."""
        path = self.path / RUN
        try:
            content = parsed(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError, ValueError):  # of nobody, or of somebody else
            return None
        except OSError as error:
            raise OutputError(f"{path} cannot be read ({error.strerror}); name another folder.") from error
        ours = isinstance(content, dict) and "complete" in content and isinstance(content.get("frames"), int)  # pyright: ignore[reportUnknownMemberType]  # of JSON
        return cast("dict[str, Any]", content) if ours else None


def differences(known: Identity, asked: Identity) -> list[str]:
    """`rule was cut3r and is recal3r`, for all that is not the same."""
    before, now = _flat({key: known.get(key) for key in asked}), _flat(asked)
    return [
        f"{name} was {json.dumps(before.get(name))} and is {json.dumps(now.get(name))}"
        for name in dict.fromkeys((*now, *before))
        if before.get(name) != now.get(name)
    ]


def _kept_nothing(known: Mapping[str, Any]) -> bool:
    """Of a run that came to its end, however that was; of one that was killed nobody has counted the frames."""
    return not known["complete"] and "ended" in known and not known["frames"]


def _flat(tree: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")  # pyright: ignore[reportUnknownArgumentType]  # of JSON
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _locked(descriptor: int) -> bool:
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:  # Windows, where an open file is not replaced either
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
