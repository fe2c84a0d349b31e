"""Loop 1: what a contestant says of a sequence, once. Kept under the hash of everything that decides it.

T frames · h, w the network's pixels

A prediction is a folder `<store>/<key>`: meta.json, and one file of raw little-endian numbers for each output, written
frame by frame. Until it is complete it is called `<key>.part` and holds a saved session every so many frames, from
which a run that was killed goes on bit for bit.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from recal3r.engine.reconstructor import Reconstructor
from recal3r.engine.snapshot import fingerprint
from recal3r.errors import EvalError
from recal3r.eval.canonical import as_data, digest
from recal3r.eval.contestants import Contestant
from recal3r.eval.cuts import Cut
from recal3r.eval.datasets.base import Shot
from recal3r.eval.tasks import Recorded
from recal3r.jsontext import parsed
from recal3r.model.cut3r import Cut3r
from recal3r.types import Array, Prediction

SAVE_EVERY = 200  # frames
WARM_UP = 10  # frames that say nothing of the speed
_META, _SESSION, _SHAPE = "meta.json", "session.safetensors", "shape.json"
_KINDS = {"pose": np.dtype("<f8"), "depth": np.dtype("<f4"), "points_world": np.dtype("<f4")}


@dataclass(frozen=True)
class Request:
    """Everything that decides a prediction, but for the frames themselves."""

    contestant: Contestant
    sequence: str
    cut: Cut
    outputs: tuple[str, ...]

    def key(self, model: Cut3r, shots: Sequence[Shot]) -> str:
        return digest(self.as_data(model, shots))

    def as_data(self, model: Cut3r, shots: Sequence[Shot]) -> dict[str, Any]:
        return {
            "recal3r": version("recal3r"),
            "weights": fingerprint(model),
            "contestant": self.contestant.as_data(),
            "sequence": self.sequence,
            "cut": as_data(self.cut),
            "outputs": sorted(self.outputs),
            "frames": [shot.id for shot in shots],
            "content": digest([shot.content for shot in shots]),
        }


class Speed(NamedTuple):
    """How long a frame took, from the cut picture to the prediction, and what memory was needed."""

    frames_per_second: float
    """By the median frame after warm-up."""
    device: str
    device_bytes: int | None
    """The most that was allocated on the device; None on a CPU."""
    host_bytes: int | None
    """The most that this process has held since it began; None where the system does not say."""


def predict(
    model: Cut3r, request: Request, shots: Sequence[Shot], store: Path, *, save_every: int = SAVE_EVERY
) -> tuple[Recorded, Speed]:
    """The prediction, made now or before."""
    folder = store / request.key(model, shots)
    if not (folder / _META).is_file():
        _make(model, request, shots, folder, save_every)
    return open_prediction(folder)


def open_prediction(folder: Path) -> tuple[Recorded, Speed]:
    try:
        meta = parsed((folder / _META).read_text())
        frames, height, width = len(meta["request"]["frames"]), *meta["size"]
        shapes = _shapes(height, width)
        arrays: dict[str, NDArray[Any]] = {
            name: np.memmap(folder / f"{name}.bin", _KINDS[name], "r", shape=(frames, *shapes[name]))
            for name in meta["request"]["outputs"]
        }
    except (OSError, ValueError, KeyError) as error:
        raise EvalError(f"{folder} is a damaged prediction ({error}); remove it, and it is made again.") from error
    recorded = Recorded(arrays.get("pose"), arrays.get("depth"), arrays.get("points_world"))
    return recorded, Speed(**meta["speed"])


def forget(model: Cut3r, request: Request, shots: Sequence[Shot], store: Path) -> None:
    """Removes a prediction that was made here."""
    shutil.rmtree(store / request.key(model, shots), ignore_errors=True)


def _make(model: Cut3r, request: Request, shots: Sequence[Shot], folder: Path, save_every: int) -> None:
    unfinished = folder.with_name(f"{folder.name}.part")
    unfinished.mkdir(parents=True, exist_ok=True)
    recon = _resumed(model, request, unfinished)
    _forget_device_peak(model)
    with _Writer(unfinished, request.outputs, recon.session.places[0].frames) as writer:
        for at in range(writer.frames, len(shots)):
            image = shots[at].image()
            height, width = image.shape[:2]
            intrinsics = shots[at].intrinsics
            K = None if intrinsics is None else intrinsics(width, height)
            image = request.cut.image(image, K, model.config)
            start = time.perf_counter()
            prediction = recon.push(image, update=request.contestant.writes(at))
            _wait_for(model)
            writer.write(prediction, time.perf_counter() - start)
            request.contestant.after(recon.session)
            if (at + 1) % save_every == 0 and at + 1 < len(shots):
                writer.flush()
                recon.save(unfinished / _SESSION)
        writer.flush()
        meta = {"request": request.as_data(model, shots), "size": writer.size, "speed": _speed(model, writer)._asdict()}
    (unfinished / _SESSION).unlink(missing_ok=True)
    (unfinished / _META).write_text(json.dumps(meta, indent=1) + "\n")
    unfinished.replace(folder)


def _resumed(model: Cut3r, request: Request, unfinished: Path) -> Reconstructor:
    """Where the last saved session stands, or at the beginning."""
    if (unfinished / _SESSION).is_file():
        return Reconstructor.load(unfinished / _SESSION, model)
    contestant = request.contestant
    return Reconstructor(
        model, contestant.rule, request.outputs, request.cut.size, reset_interval=contestant.reset_interval
    )


def _shapes(height: int, width: int) -> dict[str, tuple[int, ...]]:
    return {"pose": (4, 4), "depth": (height, width), "points_world": (height, width, 3)}


class _Writer:
    """The files of an unfinished prediction, cut back to the frames the session knows. Changes with every frame."""

    def __init__(self, folder: Path, outputs: Sequence[str], frames: int) -> None:
        self._folder, self.frames = folder, frames
        self.size: tuple[int, int] | None = None
        if frames:
            height, width = parsed((folder / _SHAPE).read_text())
            self.size = (height, width)
        self._files = {name: (folder / f"{name}.bin").open("ab") for name in outputs}
        self._seconds = (folder / "seconds.bin").open("ab")

    def __enter__(self) -> _Writer:
        for name, file in self._files.items():
            frame = _KINDS[name].itemsize * int(np.prod(_shapes(*(self.size or (0, 0)))[name]))
            file.truncate(self.frames * frame)
        self._seconds.truncate(8 * self.frames)
        return self

    def __exit__(self, *_: object) -> None:
        for file in (*self._files.values(), self._seconds):
            file.close()

    def write(self, prediction: Prediction, seconds: float) -> None:
        parts: dict[str, Array | None] = {
            "pose": prediction.T_world_camera,
            "depth": prediction.depth,
            "points_world": prediction.points_world,
        }
        picture = next((part.shape[:2] for part in (parts["depth"], parts["points_world"]) if part is not None), (0, 0))
        if self.size is None:
            self.size = (picture[0], picture[1])
            (self._folder / _SHAPE).write_text(json.dumps(self.size))
        if picture != self.size:
            raise EvalError(
                f"The pictures of the sequence differ in size: {picture} after {self.size}; cut them alike."
            )
        for name, file in self._files.items():
            part = parts[name]
            if part is None:
                raise EvalError(f"The prediction lacks {name!r}, which was asked for.")
            file.write(np.ascontiguousarray(part, _KINDS[name]).tobytes())
        self._seconds.write(np.float64(seconds).tobytes())
        self.frames += 1

    def flush(self) -> None:
        """What was written is on the disk when this returns."""
        for file in (*self._files.values(), self._seconds):
            file.flush()
            os.fsync(file.fileno())

    def seconds(self) -> NDArray[np.float64]:
        return np.fromfile(self._folder / "seconds.bin", np.float64)


# -- speed -----------------------------------------------------------------------------------------------------------


def _wait_for(model: Cut3r) -> None:
    if model.device.type == "cuda":
        torch.cuda.synchronize(model.device)


def _forget_device_peak(model: Cut3r) -> None:
    if model.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(model.device)


def _speed(model: Cut3r, writer: _Writer) -> Speed:
    seconds = writer.seconds()
    on_device = model.device.type == "cuda"
    return Speed(
        frames_per_second=float(1 / np.median(seconds[WARM_UP:] if len(seconds) > WARM_UP else seconds)),
        device=torch.cuda.get_device_name(model.device) if on_device else "cpu",
        device_bytes=torch.cuda.max_memory_allocated(model.device) if on_device else None,
        host_bytes=_most_memory(),
    )


def _most_memory() -> int | None:
    try:
        import resource  # noqa: PLC0415  # not on Windows
    except ImportError:
        return None
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
