"""The frames that can be looked at: of a run's folder, finished or growing, or of a stream beside which one stands."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Protocol

from recal3r.errors import OutputError
from recal3r.jsontext import parsed
from recal3r.sinks.frames import EveryKth, ViewFrame, frame_files, read_frame

_REMEMBERED = 32  # frames that were read lately
LIVE_BUDGET = 400  # frames of a stream that are held in memory


class Frames(Protocol):
    """Frames come, and some may go again. Asked from several threads."""

    epoch: int
    """Another number, from `indices` on, when what is there is another run than before."""

    def indices(self) -> list[int]:
        """Those that are there now, in order."""
        ...

    def frame(self, index: int) -> ViewFrame | None:
        """One of them; None where it has gone meanwhile."""
        ...

    def growing(self) -> bool:
        """Whether more are to come."""
        ...

    def status(self) -> str:
        """The same in a few words, for people."""
        ...


class FolderFrames:
    """What `FramesSink` wrote, or is still writing, to OUT/frames. Holds the few frames that were read last."""

    def __init__(self, run: str | Path) -> None:
        self._run, self._folder = Path(run), Path(run) / "frames"
        if not self._run.is_dir():
            raise OutputError(f"{run} is no folder; name one that `recal3r run` has written, or is writing.")
        self._files: dict[int, Path] = {}
        self._read: OrderedDict[int, ViewFrame] = OrderedDict()
        self._lock = Lock()
        self.epoch = 0
        self._first_written = 0  # nanoseconds
        if not self.indices() and self._is_complete():
            raise OutputError(
                f"{run} is a finished run without frames to look at; run again with frames among what is written."
            )

    def indices(self) -> list[int]:
        files = frame_files(self._folder)
        first_written = _when_written(next(iter(files.values()))) if files else 0
        with self._lock:
            self._files = files
            if first_written and self._first_written not in (0, first_written):
                self.epoch += 1  # a run that begins anew writes its first frame anew; one that goes on does not
                self._read.clear()
            self._first_written = first_written or self._first_written
        return list(files)

    def frame(self, index: int) -> ViewFrame | None:
        with self._lock:
            path = self._files.get(index)
            if index in self._read:
                self._read.move_to_end(index)
                return self._read[index]
        if path is None:
            return None
        try:
            frame = read_frame(path)
        except FileNotFoundError:  # the run keeps only every k-th frame, and k has doubled
            return None
        with self._lock:
            self._read[index] = frame
            if len(self._read) > _REMEMBERED:
                self._read.popitem(last=False)
        return frame

    def growing(self) -> bool:
        return not self._is_complete()

    def status(self) -> str:
        return "waiting for more" if self.growing() else "finished"

    def _is_complete(self) -> bool:
        try:
            return parsed((self._run / "run.json").read_text())["complete"] is True
        except (FileNotFoundError, KeyError, TypeError, ValueError):  # a run that has only begun, or other software's
            return False


def _when_written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # gone since the folder was listed
        return 0


class LiveFrames:
    """Every k-th frame of a stream, in memory, k doubling as the stream gets longer. Changes with every `add`."""

    epoch = 0

    def __init__(self, budget: int = LIVE_BUDGET) -> None:
        self._every = EveryKth(budget)
        self._frames: dict[int, ViewFrame] = {}
        self._lock = Lock()
        self.arrived, self.dropped, self.ended = 0, 0, False

    def add(self, frame: ViewFrame) -> None:
        with self._lock:
            self.arrived += 1
            if self._every.takes(frame.index):
                self._frames[frame.index] = frame
                for index in self._every.add(frame.index):
                    self._frames.pop(index, None)

    def indices(self) -> list[int]:
        with self._lock:
            return list(self._frames)

    def frame(self, index: int) -> ViewFrame | None:
        with self._lock:
            return self._frames.get(index)

    def growing(self) -> bool:
        return not self.ended

    def status(self) -> str:
        dropped = f", {self.dropped} skipped to keep up" if self.dropped else ""
        return f"{'ended' if self.ended else 'live'}, {self.arrived} frames arrived{dropped}"
