"""Loop 2: predictions as numbers, at every stream length; and the job of one sequence, which is both loops in a row."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from recal3r.engine.snapshot import fingerprint
from recal3r.errors import EvalError, Recal3rError
from recal3r.eval.canonical import as_data, digest
from recal3r.eval.contestants import Contestant
from recal3r.eval.datasets import dataset
from recal3r.eval.datasets.base import Shot
from recal3r.eval.predict import SAVE_EVERY, Request, Speed, forget, predict
from recal3r.eval.protocol import Protocol
from recal3r.eval.results import Result
from recal3r.eval.tasks import Recorded
from recal3r.eval.tasks.base import needed, true_poses
from recal3r.eval.walks import Walk
from recal3r.model.cut3r import Cut3r
from recal3r.model.load import load_model


@dataclass(frozen=True)
class Job:
    """One sequence under one contestant: every protocol of its dataset, at every length. What an executor hands out."""

    weights: str
    contestant: Contestant
    protocols: tuple[Protocol, ...]
    """All of one dataset."""
    lengths: tuple[int | None, ...]
    root: Path
    sequence: str
    store: Path
    """Where predictions are kept."""
    keep: bool = True
    """Whether predictions stay once they are scored."""
    threads: int = 1
    """CPU threads: another number sums in another order."""
    device: str = "cpu"
    save_every: int = SAVE_EVERY


class Done(NamedTuple):
    results: list[Result]
    speed: Speed | None
    """Of the longest stream; None where there was none."""
    walks: Sequence[Walk] = ()
    """What was scored as a trajectory."""


def run_job(job: Job) -> Done:
    """Both loops. What goes wrong with the sequence is in the results, in words."""
    threads = torch.get_num_threads()
    torch.set_num_threads(job.threads)
    try:
        return _run(job, _model(job.weights, job.device))
    finally:
        torch.set_num_threads(threads)


@functools.lru_cache(maxsize=1)
def _model(weights: str, device: str) -> Cut3r:
    """float32, as all protocols have it, also where the hardware is faster at less."""
    return load_model(weights, device=device, dtype="float32")


def key_of(weights: str, contestant: Contestant, protocol: Protocol) -> str:
    """`weights` is the fingerprint of the network."""
    return digest([version("recal3r"), weights, contestant.as_data(), protocol.hash])


def lost(job: Job, weights: str, why: str) -> Done:
    """The results of a job that nobody finished."""
    cells = [_Cell(protocol, length) for protocol in job.protocols for length in job.lengths]
    return Done([_result(job, weights, cell, why) for cell in cells], None)


class _Cell(NamedTuple):
    """What becomes one result."""

    protocol: Protocol
    length: int | None
    shots: tuple[Shot, ...] = ()

    @property
    def ids(self) -> list[str]:
        return [shot.id for shot in self.shots]


@dataclass
class _Stream:
    """One prediction, and all that is scored on it or on its beginning. Grows while streams are sought."""

    shots: tuple[Shot, ...]
    outputs: tuple[str, ...]
    cells: list[_Cell]

    def holds(self, cell: _Cell) -> bool:
        begins = [shot.id for shot in self.shots[: len(cell.shots)]] == cell.ids
        return begins and self.cells[0].protocol.cut == cell.protocol.cut


def _run(job: Job, model: Cut3r) -> Done:
    weights = fingerprint(model)
    results: list[Result] = []
    cells: list[_Cell] = []
    for protocol in job.protocols:
        for length in job.lengths:
            try:
                cells.append(_Cell(protocol, length, _shots(job, protocol, length)))
            except Exception as error:  # said in the result
                results.append(_result(job, weights, _Cell(protocol, length), _sentence(error)))
    speed: Speed | None = None
    walks: list[Walk] = []
    for stream in _streams(cells):
        request = Request(job.contestant, job.sequence, stream.cells[0].protocol.cut, stream.outputs)
        try:
            said, speed = predict(model, request, stream.shots, job.store, save_every=job.save_every)
        except Exception as error:  # said in the results
            results += [_result(job, weights, cell, _sentence(error)) for cell in stream.cells]
            continue
        for cell in stream.cells:
            results.append(_scored(job, weights, cell, said))
            if results[-1].error is None and "pose" in cell.protocol.task.outputs:
                walks.append(_walk(job, cell, said))
        if not job.keep:
            forget(model, request, stream.shots, job.store)
    return Done(results, speed, walks)


def _shots(job: Job, protocol: Protocol, length: int | None) -> tuple[Shot, ...]:
    wanted = protocol if length is None else protocol.at(length)
    return wanted.shots(dataset(protocol.dataset, job.root).open(job.sequence))


def _streams(cells: Sequence[_Cell]) -> list[_Stream]:
    """A stream holds every shorter one that it begins with, so each is shown once, at its longest."""
    streams: list[_Stream] = []
    for cell in sorted(cells, key=lambda cell: -len(cell.shots)):
        stream = next((stream for stream in streams if stream.holds(cell)), None)
        if stream is None:
            streams.append(_Stream(cell.shots, tuple(sorted(cell.protocol.task.outputs)), [cell]))
        else:
            stream.cells.append(cell)
            stream.outputs = tuple(sorted({*stream.outputs, *cell.protocol.task.outputs}))
    return streams


def _scored(job: Job, weights: str, cell: _Cell, said: Recorded) -> Result:
    try:
        score = cell.protocol.task.score(cell.shots, said.first(len(cell.shots)), cell.protocol.cut)
        broken = [name for name, value in score.values.items() if not math.isfinite(value)]
        if broken:
            raise EvalError(f"{', '.join(broken)} came out as no finite number: the prediction is not finite.")
    except Exception as error:  # said in the result
        return _result(job, weights, cell, _sentence(error))
    return dataclasses.replace(
        _result(job, weights, cell, None), values={k: float(v) for k, v in score.values.items()}, weight=score.weight
    )


def _walk(job: Job, cell: _Cell, said: Recorded) -> Walk:
    times = tuple(float(k) if shot.timestamp is None else shot.timestamp for k, shot in enumerate(cell.shots))
    estimate = np.array(needed(said.poses, "pose")[: len(times)])
    return Walk(
        cell.protocol.name, job.contestant.name, cell.length, job.sequence, times, estimate, true_poses(cell.shots)
    )


def _result(job: Job, weights: str, cell: _Cell, error: str | None) -> Result:
    protocol = cell.protocol
    settings: dict[str, Any] = {
        "recal3r": version("recal3r"),
        "weights": weights,
        "contestant": job.contestant.as_data(),
        "protocol": as_data(protocol),
        "protocol_hash": protocol.hash,
    }
    return Result(
        protocol=protocol.name,
        contestant=job.contestant.name,
        length=cell.length,
        sequence=job.sequence,
        key=key_of(weights, job.contestant, protocol),
        settings=settings,
        frames=tuple(cell.ids),
        values={},
        weight=1.0,
        error=error,
    )


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, Recal3rError) else f"{type(error).__name__}: {error}"
