"""A run: settings in, a folder of files out; the same settings again go on where it was cut off."""

from __future__ import annotations

import dataclasses
import json
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

import recal3r
from recal3r.engine.health import limits_of
from recal3r.engine.reconstructor import Reconstructor
from recal3r.errors import Recal3rError
from recal3r.model.cut3r import Cut3r
from recal3r.model.download import sha256_of
from recal3r.model.hub import resolve
from recal3r.model.load import load_model
from recal3r.pipeline.checkpoint import Checkpoint
from recal3r.pipeline.folder import Identity, RunFolder
from recal3r.pipeline.interruption import Interruption
from recal3r.pipeline.outputs import OUTPUTS
from recal3r.pipeline.pipeline import Pipeline
from recal3r.pipeline.settings import Settings
from recal3r.pipeline.timings import peak_memory
from recal3r.rules.registry import describe, get_rule
from recal3r.sinks.base import Sink, Tee
from recal3r.sinks.health import FiniteOnly
from recal3r.sources.base import Source
from recal3r.sources.open import open_source
from recal3r.types import Prediction

_DECISIVE = (
    *("write", "size", "reset_interval", "frames", "health"),
    *("cloud_points", "cloud_edge", "least_confidence", "farthest", "drop_edges", "drop_sky"),
)
"""The settings that decide what is written, beside those that have a place of their own in `run.json`."""


class Observer(Protocol):
    """Who is told how a run goes. What it raises ends the run."""

    def begin(self, source: Source, done: int, total: int | None) -> None:
        """Before the first frame; `done` of them were done in an earlier run, of `total` where that is known."""
        ...

    def frame(self, prediction: Prediction) -> None: ...


class Nobody:
    def begin(self, source: Source, done: int, total: int | None) -> None: ...

    def frame(self, prediction: Prediction) -> None: ...


@dataclass(frozen=True)
class Summary:
    """What became of a run."""

    frames: int  # of the whole run
    resumed_at: int  # how many of them an earlier run had done
    seconds: float  # of this one
    was_complete: bool = False  # there was nothing to do
    left_out: Mapping[str, Any] | None = None  # frames that could not be read
    unwell: Mapping[str, int] = field(default_factory=dict[str, int])  # frames beyond a limit, by kind
    received: Mapping[str, Any] | None = None  # of a live stream: what became of its frames

    @property
    def frames_per_second(self) -> float:
        return (self.frames - self.resumed_at) / self.seconds if self.seconds else 0.0


class Run:
    """What it takes to run `settings`, once. `also`: sinks beside those of the folder, such as a viewer."""

    def __init__(self, settings: Settings, also: Sequence[Sink] = (), interruption: Interruption | None = None) -> None:
        self.settings, self._also, self._interruption = settings, also, interruption
        self.folder = RunFolder(settings.output)

    def __call__(self, observer: Observer | None = None) -> Summary:
        """Runs until the source ends. An error says, in its notes, what was kept."""
        settings = self.settings
        rule = describe(get_rule(settings.rule))
        limits_of(settings.health)
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        with open_source(settings.source, **settings.source_options) as source:
            weights = resolve(settings.weights)
            model = load_model(weights, settings.device, settings.dtype)
            identity = self._identity(source, model, weights, rule)
            if self.folder.is_complete(identity) and not settings.overwrite:
                return self._already(identity)
            self.folder.make()
            with self.folder.ours_alone():
                try:
                    return self._go(source, model, identity, observer or Nobody())
                finally:
                    if not source.repeatable:
                        self.folder.checkpoints.remove()

    def _go(self, source: Source, model: Cut3r, identity: Identity, observer: Observer) -> Summary:
        settings, folder = self.settings, self.folder
        checkpoint = folder.begun(identity, resume=settings.resume, overwrite=settings.overwrite)
        if checkpoint is None:
            folder.begin(identity, repeatable=source.repeatable)
        sinks = self._sinks(overwrite=settings.overwrite or checkpoint is not None)
        pipeline = Pipeline(
            source,
            self._reconstructor(model, sinks, checkpoint),
            sinks,
            frames=settings.frames,
            done=checkpoint.frames if checkpoint else 0,
            checkpoints=folder.checkpoints if source.repeatable else None,
            every=settings.checkpoint_every,
            interruption=self._interruption,
        )
        if checkpoint is not None and checkpoint.mark is not None:
            sinks.resume(checkpoint.mark)
        resumed_at, begun = pipeline.done, time.perf_counter()
        observer.begin(source, resumed_at, _total(source, settings.frames))
        try:
            with sinks:
                pipeline.run(observer.frame)
                folder.note_timings(_timings(pipeline, resumed_at, time.perf_counter() - begun))
        except BaseException as error:
            self._note_end(error, identity, pipeline)
            raise
        past = pipeline.reconstructor.session.places[0].past
        health = {"unwell": dict(past.unwell), "alarms": dict(past.alarms)}
        left_out, received = _counted(source, "skipped"), _counted(source, "counters")
        done = pipeline.done
        folder.note(identity, frames=done, complete=True, left_out=left_out, received=received, health=health)
        folder.checkpoints.remove()
        seconds = time.perf_counter() - begun
        return Summary(done, resumed_at, seconds, False, left_out, health["unwell"], received)

    def _already(self, identity: Identity) -> Summary:
        frames = self.folder.frames(identity)
        self.folder.checkpoints.remove()
        return Summary(frames, frames, 0.0, was_complete=True)

    def _sinks(self, *, overwrite: bool) -> Tee:
        options, folder = self.settings.sink_options, self.folder.path
        sinks = [OUTPUTS[name].open(folder, options, overwrite=overwrite) for name in self.settings.write]
        return Tee(*sinks, *map(FiniteOnly, self._also))

    def _reconstructor(self, model: Cut3r, sinks: Tee, checkpoint: Checkpoint | None) -> Reconstructor:
        if checkpoint is not None and checkpoint.session is not None:
            return Reconstructor.load(checkpoint.session, model)
        settings = self.settings
        outputs = sinks.needs.union({"pose"}, *(OUTPUTS[name].wants for name in settings.write))
        return Reconstructor(
            model,
            settings.rule,
            sorted(outputs),
            settings.size,
            reset_interval=settings.reset_interval,
            health=settings.health,
        )

    def _identity(self, source: Source, model: Cut3r, weights: Path, rule: str) -> Identity:
        settings, named = self.settings, Path(self.settings.source)
        identity = {
            "source": {
                "name": settings.source,
                "description": source.description,
                "frames": source.frames,
                "bytes": named.stat().st_size if named.is_file() else None,
            },
            "settings": {
                "rule": rule,
                **{name: getattr(settings, name) for name in _DECISIVE},
                "source_options": settings.source_options,
            },
            "weights": {"name": settings.weights, "sha256": sha256_of(weights)},
            "machine": {"device": str(model.device), "dtype": str(model.dtype), "threads": torch.get_num_threads()},
            "versions": {
                "recal3r": recal3r.__version__,
                "python": platform.python_version(),
                "torch": torch.__version__,
                "numpy": np.__version__,
            },
            "outputs": {name: OUTPUTS[name].path for name in settings.write},
        }
        return json.loads(json.dumps(identity))  # as it will be read again

    def _note_end(self, error: BaseException, identity: Identity, pipeline: Pipeline) -> None:
        """Says what is kept: in the folder, where that can still be written, and to whom the error comes."""
        if pipeline.written:
            error.add_note(f"{pipeline.written} frames are kept in {self.folder.path}{_goes_on(pipeline)}.")
        why = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        try:
            self.folder.note(identity, frames=pipeline.written, complete=False, ended=why)
        except Recal3rError as failed:
            error.add_note(str(failed))


def _goes_on(pipeline: Pipeline) -> str:
    if not pipeline.checkpoints:
        return ""
    if pipeline.noted == pipeline.written:
        return "; the same command goes on from there"
    return (
        f"; the same command goes on after frame {pipeline.noted}"
        if pipeline.noted
        else "; the same command begins again"
    )


def _total(source: Source, frames: int | None) -> int | None:
    return min((known for known in (source.frames, frames) if known is not None), default=None)


def _counted(source: Source, what: str) -> dict[str, Any] | None:
    """What the source counts as it is read; None where it has no such thing."""
    counts = getattr(source, what, None)
    return None if counts is None else dataclasses.asdict(counts)


def _timings(pipeline: Pipeline, resumed_at: int, seconds: float) -> dict[str, Any]:
    frames = pipeline.done - resumed_at
    return {
        "frames": frames,
        "resumed_at": resumed_at,
        "seconds": seconds,
        "frames_per_second": frames / seconds,
        "stages": {stage: round(spent, 4) for stage, spent in sorted(pipeline.stopwatch.seconds.items())},
        "peak_memory_bytes": peak_memory(),
    }
