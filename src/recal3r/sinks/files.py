"""Files that a run may be killed over: one that grows piece by piece, and one that is there whole or not at all."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from typing import Self

from recal3r.errors import OutputError
from recal3r.sinks.base import Mark

_MOST_UNSYNCED = 1000  # paths that wait for the next mark


class GrowingFile:
    """A file that is written piece by piece, each whole or not at all: what does not fit on the disk is taken back.

    It changes as it is written; `length` is what it holds.
    """

    def __init__(self, path: Path, file: FileIO, length: int = 0) -> None:
        self.path, self.length = path, length
        self._file = file

    @classmethod
    def begin(cls, path: Path, *, overwrite: bool = False) -> Self:
        """An empty file; one that is there is replaced only where that was asked for, and a link not followed."""
        try:
            if overwrite and path.is_symlink():
                path.unlink()
            return cls(path, FileIO(path, "w+" if overwrite else "x+"))
        except FileExistsError as error:
            raise OutputError(f"{path} exists already; name a new file, or ask to overwrite it.") from error
        except OSError as error:
            raise OutputError(f"{path} cannot be written ({error.strerror}); name another file.") from error

    @classmethod
    def go_on(cls, path: Path, length: int) -> Self:
        """The file as it was when `sync` said this length; what was written after that is cut off."""
        try:
            file = FileIO(path, "r+")
            found = file.seek(0, os.SEEK_END)
            if found < length:
                file.close()
                raise OutputError(
                    f"{path} holds {found} bytes, fewer than the {length} it had when the run was saved; "
                    "it was changed since, so begin the run anew."
                )
            file.truncate(length)
        except OSError as error:
            raise OutputError(f"{path} cannot be gone on with ({error.strerror}); begin the run anew.") from error
        return cls(path, file, length)

    def append(self, piece: bytes) -> None:
        self.write_at(self.length, piece)

    def write_at(self, position: int, piece: bytes) -> None:
        """Over what is there from `position` on; the file never gets shorter."""
        self._file.seek(position)
        replaced = self._file.read(len(piece)) if position < self.length else b""
        try:
            self._put(position, piece)
        except OSError as error:
            self._put(position, replaced)
            self._file.truncate(self.length)
            raise OutputError(f"{self.path} cannot be written ({error.strerror}); what came before is kept.") from error
        self.length = max(self.length, position + len(piece))

    def cut(self, length: int) -> None:
        """Takes back what came after this length."""
        if length < self.length:
            self._file.truncate(length)
            self.length = length

    def sync(self) -> int:
        """Its length, once all of it has reached the disk."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"{self.path} does not reach the disk ({error.strerror}); free space.") from error
        return self.length

    def close(self) -> None:
        self._file.close()

    def _put(self, position: int, piece: bytes) -> None:
        """A disk that fills up takes part of a piece and says so: the rest is offered again, and refused."""
        self._file.seek(position)
        rest = memoryview(piece)
        while rest:
            rest = rest[self._file.write(rest) :]


def write_whole(path: Path, content: bytes) -> None:
    """Replaces the file at `path` once the new one has reached the disk: whole, or not there at all."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.unlink(missing_ok=True)  # whatever it is: a link would be followed
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise OutputError(f"{path} cannot be written ({error.strerror}); free space or name another file.") from error


def sync(path: Path) -> None:
    """Returns when the file's content has reached the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


class FrameFiles:
    """A folder that gets files for every frame, each whole or not there at all.

    Frames that are written again after a resumption replace what they left the first time.
    """

    def __init__(self, folder: Path, *, overwrite: bool = False) -> None:
        self.folder = folder
        self._overwrite = overwrite
        self._resumed = False
        self._unsynced: list[Path] = []

    def enter(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            taken = not (self._overwrite or self._resumed) and any(self.folder.iterdir())
        except OSError as error:
            raise OutputError(f"The folder {self.folder} cannot be made ({error.strerror}); name another.") from error
        if taken:
            raise OutputError(f"The folder {self.folder} is not empty; name a new one, or ask to overwrite.")

    def write(self, name: str, content: bytes | memoryview) -> None:
        path = self.folder / name
        unfinished = self.folder / f"{name}.part"
        try:
            if unfinished.is_symlink():
                unfinished.unlink()
            unfinished.write_bytes(content)
            unfinished.replace(path)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise OutputError(f"{path} cannot be written ({error.strerror}); what came before it is kept.") from error
        self._unsynced.append(path)
        if len(self._unsynced) > _MOST_UNSYNCED:
            self._sync()

    def mark(self) -> Mark:
        self._sync()
        return Mark()

    def resume(self, mark: Mark) -> None:
        del mark  # the frames' own names say all
        self._resumed = True

    def _sync(self) -> None:
        for path in self._unsynced:
            sync(path)
        self._unsynced.clear()
