"""Where a run can go on after it was killed: the session, and where every sink stood, as of one frame.

A generation is two files, `session-N` and `sinks-N`, that `checkpoint.json` names with their checksums. It is replaced
last and at once, so that it always names a whole generation; the files of the one before go after that.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from recal3r.engine.reconstructor import Reconstructor
from recal3r.errors import OutputError, SessionError
from recal3r.jsontext import parsed
from recal3r.sinks.base import Mark
from recal3r.sinks.files import write_whole

FOLDER = ".resume"
FORMAT_VERSION = 1
_INDEX = "checkpoint.json"
_OF_A_GENERATION = re.compile(r"(session|sinks)-\d+\.safetensors", re.ASCII)
_OURS = ("session-*", "sinks-*", f"{_INDEX}*", ".*.part", "lock")


@dataclass(frozen=True)
class Checkpoint:
    """A frame to go on after."""

    frames: int  # done
    session: Path | None  # None before the first frame
    mark: Mark | None


class Checkpoints:
    """The folder that holds the newest generation, and nothing else for longer than it takes to write one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self) -> None:
        """A generation from which a run goes on by beginning anew: what lies in its folder is its own."""
        self._replace(0, {}, {})

    def write(self, frames: int, reconstructor: Reconstructor, mark: Mark) -> None:
        """Where the run stands after `frames` frames. The reconstructor is one that does not run on meanwhile."""
        session, sinks = (self.folder / f"{part}-{frames:09d}.safetensors" for part in ("session", "sinks"))
        try:
            reconstructor.save(session)
        except OSError as error:
            raise OutputError(f"{session} cannot be written ({error.strerror}); free space.") from error
        arrays = {name: np.asarray(array, order="C") for name, array in mark.arrays.items()}
        write_whole(sinks, safetensors.numpy.save(arrays))
        self._replace(frames, {path.name: _sha256(path) for path in (session, sinks)}, mark.numbers)

    def read(self) -> Checkpoint | None:
        """The newest generation; None where there is none. One that is damaged is an error."""
        path = self.folder / _INDEX
        if not path.is_file():
            return None
        try:
            index = parsed(path.read_bytes())
            version, frames, files, numbers = (index[key] for key in ("format_version", "frames", "files", "numbers"))
            names = dict[str, str](files)
        except (ValueError, KeyError, TypeError) as error:
            raise SessionError(f"{path} is damaged; begin anew with --no-resume --overwrite.") from error
        if version != FORMAT_VERSION:
            raise SessionError(
                f"{path} is of format {version!r:.20}, and this version of recal3r reads format {FORMAT_VERSION}; "
                "begin anew with --no-resume --overwrite."
            )
        if frames == 0:
            return Checkpoint(0, None, None)
        if len(names) != 2 or type(frames) is not int or frames < 0 or not isinstance(numbers, dict):
            raise SessionError(f"{path} is damaged; begin anew with --no-resume --overwrite.")
        if any(not _OF_A_GENERATION.fullmatch(name) for name in names):
            raise SessionError(f"{path} names files elsewhere; begin anew with --no-resume --overwrite.")
        session, sinks = (self.folder / self._checked(name, sha256) for name, sha256 in names.items())
        return Checkpoint(frames, session, Mark(cast("dict[str, Any]", numbers), _arrays(sinks)))

    def remove(self) -> None:
        """Takes away what is ours, and the folder if nothing else is in it."""
        if self.folder.is_dir():
            self._remove_but(frozenset())
            if not any(self.folder.iterdir()):
                self.folder.rmdir()

    def _replace(self, frames: int, files: Mapping[str, str], numbers: Mapping[str, Any]) -> None:
        index = {"format_version": FORMAT_VERSION, "frames": frames, "files": files, "numbers": numbers}
        write_whole(self.folder / _INDEX, json.dumps(index).encode())
        self._remove_but(frozenset({*files, _INDEX, "lock"}))

    def _remove_but(self, kept: frozenset[str]) -> None:
        for path in [path for pattern in _OURS for path in self.folder.glob(pattern)]:
            if path.name not in kept:
                path.unlink(missing_ok=True)

    def _checked(self, name: str, sha256: str) -> str:
        path = self.folder / name
        if not path.is_file() or _sha256(path) != sha256:
            raise SessionError(f"{path} is not what was saved there; begin anew with --no-resume --overwrite.")
        return name


def _arrays(path: Path) -> dict[str, NDArray[Any]]:
    try:
        return dict(safetensors.numpy.load_file(path))
    except safetensors.SafetensorError as error:
        raise SessionError(f"{path} is damaged; begin anew with --no-resume --overwrite.") from error


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
