"""`recal3r run`: a video, pictures or a camera in; poses, depth, clouds and files for other programs out."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections import deque
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any

from recal3r.cli.command import Command
from recal3r.pipeline.outputs import OUTPUTS
from recal3r.pipeline.settings import Settings
from recal3r.sinks.base import Guest

if TYPE_CHECKING:
    from recal3r.pipeline.run import Summary
    from recal3r.sources.base import Source
    from recal3r.types import Prediction
    from recal3r.viewer import ViewerSink

_SECONDS_A_LINE = 10.0
_SECONDS_A_REFRESH = 0.1
_BAR = 24  # characters


@dataclasses.dataclass(frozen=True)
class Run(Settings):
    """Reconstruct a stream. Killed at any moment, the same command goes on where it was."""

    live: bool = field(default=False, metadata={"help": "show it in a browser while it runs"})
    host: str = field(default="127.0.0.1", metadata={"help": "of --live: the address to listen on"})
    port: int = field(default=8080, metadata={"help": "of --live: the port to listen on"})
    json: bool = field(default=False, metadata={"help": "a line of JSON for each frame, and one at the end, on stdout"})

    def run(self) -> int:
        from recal3r.pipeline.interruption import Interruption
        from recal3r.pipeline.run import Run as Pass

        progress = Progress(json_lines=self.json)
        with ExitStack() as page:
            viewer = page.enter_context(self._viewer()) if self.live else None
            also = [Guest(viewer, frozenset({"reliability"}))] if viewer is not None else []
            with Interruption() as interruption:
                try:
                    summary = Pass(self, also, interruption)(progress)
                finally:
                    progress.end()
            self._tell(summary)
            if viewer is not None and not summary.was_complete:
                _stay(viewer)
        return 0

    @contextmanager
    def _viewer(self) -> Generator[ViewerSink]:
        from recal3r.viewer import ViewerSink

        with ViewerSink(self.host, self.port) as viewer:
            say(f"open {viewer.url} to watch")
            yield viewer

    def _tell(self, summary: Summary) -> None:
        if self.json:
            told: dict[str, Any] = {"event": "end", "output": str(self.output), **dataclasses.asdict(summary)}
            print(json.dumps(told), flush=True)
        if summary.was_complete:
            say(f"{self.output} holds this run already, complete with {summary.frames} frames; nothing was done.")
            return
        left_out = (summary.left_out or {}).get("count", 0)
        but = f", {left_out} that could not be read left out" if left_out else ""
        if summary.unwell:
            counted = ", ".join(f"{kind} in {count}" for kind, count in sorted(summary.unwell.items()))
            say(f"frames beyond a limit of health: {counted}")
        dropped = (summary.received or {}).get("dropped", 0)
        but += f", {dropped} dropped to keep up" if dropped else ""
        written = ", ".join(OUTPUTS[name].path for name in self.write)
        say(f"{summary.frames} frames{but}, {summary.frames_per_second:.1f} a second; in {self.output}: {written}")


COMMAND: type[Command] = Run


def _stay(viewer: ViewerSink) -> None:
    """The files are there; the page stays for those who still look."""
    with suppress(KeyboardInterrupt):
        say("the page stays open until Ctrl-C")
        viewer.linger()


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Progress:
    """Tells people on stderr, and programs on stdout, how far a run is. Changes with every frame."""

    def __init__(self, *, json_lines: bool) -> None:
        self._json, self._terminal = json_lines, sys.stderr.isatty()
        self._done, self._total = 0, None
        self._recent: deque[float] = deque(maxlen=50)  # when the last frames were done
        self._shown = 0.0
        self._open = False  # whether the terminal's line is not ended

    def begin(self, source: Source, done: int, total: int | None) -> None:
        self._done, self._total = done, total
        say(source.description)
        if done:
            say(f"going on after frame {done}, up to which it was done before")
        self._shown = time.monotonic() if not self._terminal else 0.0

    def frame(self, prediction: Prediction) -> None:
        now = time.monotonic()
        self._done += 1
        self._recent.append(now)
        if self._json:
            print(json.dumps(_line(prediction)), flush=True)
        if now - self._shown >= (_SECONDS_A_REFRESH if self._terminal else _SECONDS_A_LINE):
            self._shown = now
            self._show()

    def end(self) -> None:
        if self._open:
            self._show()
            print(file=sys.stderr, flush=True)

    def _show(self) -> None:
        line = progress_line(self._done, self._total, self._rate())
        if self._terminal:
            self._open = True
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            say(line)

    def _rate(self) -> float:
        if len(self._recent) < 2:
            return 0.0
        return (len(self._recent) - 1) / max(self._recent[-1] - self._recent[0], 1e-9)


def progress_line(done: int, total: int | None, rate: float) -> str:
    """`[=====>     ]  120 of 300 frames, 8.4 a second, 0:21 left`, as far as it is known."""
    speed = f", {rate:.1f} a second" if rate else ""
    if total is None:
        return f"{done} frames{speed}"
    filled = min(_BAR, _BAR * done // max(total, 1))
    bar = "=" * filled + ">" * (filled < _BAR)
    minutes, seconds = divmod(round((total - done) / rate), 60) if rate else (0, 0)
    left = f", {minutes}:{seconds:02d} left" if rate and done < total else ""
    return f"[{bar:{_BAR}}] {done} of {total} frames{speed}{left}"


def _line(prediction: Prediction) -> dict[str, Any]:
    from recal3r.sinks.health import told

    # JSON knows no NaN.
    pose, camera = (prediction.T_world_camera, prediction.camera) if prediction.health.finite else (None, None)
    return {
        "event": "frame",
        "frame": prediction.index,
        "timestamp": prediction.timestamp,
        "T_world_camera": None if pose is None else pose.tolist(),
        "intrinsics": None if camera is None else camera.original.intrinsics.tolist(),
        "health": told(prediction),
    }
