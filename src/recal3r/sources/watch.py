"""A folder that something else writes pictures into: each is read once, when it is complete."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

from recal3r.sources.base import Reader, Skipped, SourceError
from recal3r.sources.images import PIXEL_LIMIT, natural_key, pictures_in, read_picture
from recal3r.types import Frame, Image


class WatchedFolder(Reader):
    """Pictures as they appear, those that are there already first; of several at once, in natural order.

    A picture is complete when two looks, `poll_seconds` apart, find the same size and time of change, and it decodes.
    Writers that rename a finished file into the folder are always safe.

    stop_file: the stream ends when a file of this name lies in the folder; what is complete by then is still read.
    idle_seconds: it also ends when nothing new came for so long; None waits for ever.
    skip_broken: pictures that still do not decode at the end are counted in `skipped`; otherwise the first one raises.
    """

    repeatable = False

    def __init__(
        self,
        folder: str | Path,
        *,
        stop_file: str = "STOP",
        idle_seconds: float | None = None,
        poll_seconds: float = 0.2,
        skip_broken: bool = False,
        pixel_limit: int = PIXEL_LIMIT,
    ) -> None:
        super().__init__()
        if poll_seconds <= 0 or (idle_seconds is not None and idle_seconds < poll_seconds):
            raise SourceError(
                f"poll_seconds={poll_seconds}, idle_seconds={idle_seconds} leaves no time for two looks at a file; "
                "use a poll above 0 and an idle time above that."
            )
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise SourceError(f"{folder} is no folder that could be watched; make it first.")
        self.stop_file = stop_file
        self.idle_seconds = idle_seconds
        self.poll_seconds = poll_seconds
        self.skip_broken = skip_broken
        self.pixel_limit = pixel_limit
        self.skipped = Skipped()

    @property
    def description(self) -> str:
        idle = "" if self.idle_seconds is None else f" or nothing new for {self.idle_seconds:g} s"
        return f"pictures as they appear in {self.folder}, until {self.stop_file} lies there{idle}"

    @property
    def frames(self) -> None:
        return None

    def _read(self) -> Generator[Frame]:
        self.skipped = Skipped()
        watch = _Watch(self.folder, self.pixel_limit)
        last_change = time.monotonic()
        while True:
            # Asked before the look, so that what was written before the stop file is seen.
            stopping = (self.folder / self.stop_file).exists()
            for image in watch.look():
                yield Frame(image)
            if watch.changed:
                last_change = time.monotonic()
            if self._is_over(stopping, watch, last_change):
                break
            time.sleep(self.poll_seconds)
        self._report(watch.broken)

    def _is_over(self, stopping: bool, watch: _Watch, last_change: float) -> bool:
        if stopping:
            return not watch.changed
        return self.idle_seconds is not None and time.monotonic() - last_change >= self.idle_seconds

    def _report(self, broken: list[SourceError]) -> None:
        for error in broken:
            if not self.skip_broken:
                raise error
            self.skipped.add(error)


class _Look(NamedTuple):
    """What tells one state of a file from another."""

    size: int
    changed: int  # nanoseconds


class _Watch:
    """What is known of each picture that lies in the folder now, and of no other. Changes with every look."""

    def __init__(self, folder: Path, pixel_limit: int) -> None:
        self.changed = False  # whether the last look found a file that was not as before
        self._folder = folder
        self._pixel_limit = pixel_limit
        self._seen: dict[Path, _Look] = {}
        self._read: set[Path] = set()
        self._broken: dict[Path, tuple[_Look, SourceError]] = {}

    @property
    def broken(self) -> list[SourceError]:
        return [self._broken[path][1] for path in sorted(self._broken, key=natural_key)]

    def look(self) -> Iterator[Image]:
        """The pictures that have become complete since the last look."""
        now = _looks(self._folder)
        self.changed = any(self._seen.get(path) != look for path, look in now.items())
        self._read &= now.keys()
        self._broken = {path: tried for path, tried in self._broken.items() if path in now}
        stable = [path for path, look in now.items() if path not in self._read and self._seen.get(path) == look]
        self._seen = now
        for path in stable:
            image = self._tried(path, now[path])
            if image is not None:
                yield image

    def _tried(self, path: Path, look: _Look) -> Image | None:
        """The picture, or None while it does not decode: its writer may only have paused."""
        if path in self._broken and self._broken[path][0] == look:
            return None
        try:
            image = read_picture(path, self._pixel_limit)
        except SourceError as error:
            self._broken[path] = (look, error)
            return None
        self._broken.pop(path, None)
        self._read.add(path)
        return image


def _looks(folder: Path) -> dict[Path, _Look]:
    looks: dict[Path, _Look] = {}
    for path in pictures_in(folder):
        try:
            status = path.stat()
        except FileNotFoundError:  # taken away since the folder was listed
            continue
        if status.st_size:
            looks[path] = _Look(status.st_size, status.st_mtime_ns)
    return looks
