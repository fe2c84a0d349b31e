"""Frames through a reconstructor into sinks: read ahead in one thread, written behind in another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from recal3r.engine.reconstructor import Reconstructor
from recal3r.errors import StreamError
from recal3r.pipeline.checkpoint import Checkpoints
from recal3r.pipeline.interruption import Interruption
from recal3r.pipeline.timings import Stopwatch
from recal3r.pipeline.writer import Writer
from recal3r.sinks.base import Sink
from recal3r.sources.base import Source, SourceError
from recal3r.sources.prefetch import Prefetch
from recal3r.types import Frame, Prediction

Watch = Callable[[Prediction], None]


class Pipeline:
    """A source, a reconstructor and a sink (a `Tee` of many), to be run once. Changes as it runs.

        with sinks:
            Pipeline(source, reconstructor, sinks).run(print)

    frames: end after so many, those of an earlier run included.
    done: the frames that were done in an earlier run, which the source gives again and which are passed over.
    checkpoints, every: note every so many frames where to go on, and when the run ends early.
    room: how many frames may be read ahead, and how many predictions may wait to be written.

    A live source is not read ahead: its newest frame is the one to take. Ctrl-C ends it like any other end.
    """

    def __init__(
        self,
        source: Source,
        reconstructor: Reconstructor,
        sink: Sink,
        *,
        frames: int | None = None,
        done: int = 0,
        checkpoints: Checkpoints | None = None,
        every: int = 100,
        room: int = 4,
        interruption: Interruption | None = None,
    ) -> None:
        if checkpoints is not None and not source.repeatable:
            raise StreamError(f"{source.description} cannot be read again, so there is nothing to go on with.")
        self.source, self.reconstructor, self.sink = source, reconstructor, sink
        self.frames, self.done, self.written = frames, done, done
        self.checkpoints, self.every, self.room = checkpoints, every, room
        self.stopwatch = Stopwatch()
        self._interruption = interruption or Interruption()
        self._whole = True  # whether the session stands between two frames
        self.noted = self._noting = done  # frames of the last checkpoint, and of the last that was asked for

    def run(self, watch: Watch = lambda _: None) -> None:
        """Until the source ends, or something else does; what was computed by then is written in any case.

        `watch` sees every prediction after it went on its way to the sink.
        """
        reading = Prefetch(self.source, self.room) if self.source.repeatable else self.source
        with Writer(self.room) as writer, closing(reading):
            try:
                self._pass_over(frames := iter(reading))
                while (self.frames is None or self.done < self.frames) and (frame := self._next(frames)) is not None:
                    self._take(frame, writer, watch)
                    if self.done - self._noting >= self.every:
                        self._note(writer)
            except (SourceError, KeyboardInterrupt) as end:
                if self._whole and self.done > self._noting:
                    self._note(writer)
                if not self._is_over(end):
                    raise

    def _take(self, frame: Frame, writer: Writer, watch: Watch) -> None:
        self._whole = False
        with self.stopwatch.of("network"):
            prediction = self.reconstructor.push(frame)
        with self.stopwatch.of("waiting for sinks"):
            writer.do(partial(self._write, prediction, frame))
        self.done += 1
        self._whole = True
        watch(prediction)
        self._interruption.look()

    def _is_over(self, end: BaseException) -> bool:
        """A stream that lasts as long as people let it ends as it should when they end it."""
        return isinstance(end, KeyboardInterrupt) and self._whole and self.done > 0 and not self.source.repeatable

    def _next(self, frames: Iterator[Frame]) -> Frame | None:
        with self.stopwatch.of("waiting for frames"), self._interruption.waiting():
            return next(frames, None)

    def _pass_over(self, frames: Iterator[Frame]) -> None:
        for number in range(self.done):
            if self._next(frames) is None:
                raise SourceError(
                    f"{self.source.description} has {number} frames now, fewer than the {self.done} that were done; "
                    "it was changed since, so begin the run anew."
                )

    def _note(self, writer: Writer) -> None:
        self._noting = self.done
        if self.checkpoints is not None:
            writer.do(partial(self._write_checkpoint, self.checkpoints, self.done, self.reconstructor.fork()))

    # -- in the writer's thread --------------------------------------------------------------------------------------

    def _write(self, prediction: Prediction, frame: Frame) -> None:
        with self.stopwatch.of("sinks"):
            self.sink.write(prediction, frame.image)
        self.written += 1

    def _write_checkpoint(self, checkpoints: Checkpoints, done: int, reconstructor: Reconstructor) -> None:
        with self.stopwatch.of("checkpoints"):
            checkpoints.write(done, reconstructor, self.sink.mark())
        self.noted = done
