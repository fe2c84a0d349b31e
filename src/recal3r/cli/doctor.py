"""`recal3r doctor`: what is installed, whether a stream would run here, how long it would take, and what to change."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from recal3r.cli.command import Command
from recal3r.errors import Recal3rError
from recal3r.pipeline.outputs import names_of

if TYPE_CHECKING:
    from recal3r.sources.base import Source
    from recal3r.types import Prediction

_MEGABYTE = 1 << 20
_PACKAGES = ("torch", "numpy", "safetensors", "pillow")
_EXTRAS = {
    "video": ("av", "video files, cameras and network streams"),
    "arrow": ("pyarrow", "gates.arrow"),
    "rerun": ("rerun-sdk", "recordings for rerun"),
    "viewer": ("viser", "`recal3r view` and --live"),
    "eval": ("scipy", "evaluation of clouds"),
    "heic": ("pillow-heif", "HEIC pictures"),
}
_ROOM = 1.5  # how much more than its weights a network takes while it runs, at the least
_WARM_UP = 2  # frames that say nothing of the speed


class Trial(NamedTuple):
    """What a few frames took."""

    frames: int
    seconds_a_frame: float
    peak: int | None  # bytes of memory that the process ever held
    disk_a_frame: float  # bytes


@dataclasses.dataclass(frozen=True)
class Doctor:
    """Look at this machine, and at a stream that is to be reconstructed on it.

    Without a source it looks at the environment alone; with one, a few of its frames are run as `recal3r run` would.
    """

    source: str | None = field(
        default=None, metadata={"help": "what is to be reconstructed, as for `recal3r run`", "place": True}
    )
    weights: str = field(default="tiny", metadata={"help": "a known name, or a .pth or .safetensors file"})
    write: tuple[str, ...] = field(
        default=("tum", "depth", "ply"), metadata={"help": "what is to be written", "parse": names_of}
    )
    device: str = field(default="auto", metadata={"help": "where the network is to run: auto, cpu, cuda, cuda:1"})
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = field(
        default="auto", metadata={"help": "what the network is to work in"}
    )
    frames: int = field(default=12, metadata={"help": "how many frames to try"})

    def run(self) -> int:
        """1 where something stands in the way."""
        problems = [*_environment(), *_machine(), *_weights()]
        if self.source is not None:
            problems += self._stream(self.source)
        print()
        for problem in problems:
            print(f"PROBLEM: {problem}")
        print("something stands in the way: see above" if problems else "nothing stands in the way")
        return 1 if problems else 0

    def _stream(self, name: str) -> Iterator[str]:
        from recal3r.sources.open import open_source

        print("\nthe stream")
        try:
            with open_source(name) as source:
                _say("source", source.description)
                total, repeatable = source.frames, source.repeatable
                _say("frames", f"{total:,}" if total else "as many as there will be")
            yield from self._network()
            if repeatable:
                self._forecast(self._trial(name), total)
            else:
                print("  a live stream is not tried; try a recording of the same size for its speed")
        except Recal3rError as error:
            yield str(error)

    def _network(self) -> Iterator[str]:
        """Whether the weights fit, before they are loaded."""
        needed, where, available = _size_of_network(self.weights, self.device, self.dtype)
        _say("network", f"{self.weights} on {where}, at least {needed // _MEGABYTE:,} MB of memory")
        if available is not None and needed > available:
            raise _too_large(self.weights, needed, available)
        yield from ()

    def _trial(self, name: str) -> Trial:
        from recal3r.pipeline.run import Run
        from recal3r.pipeline.settings import Settings
        from recal3r.pipeline.timings import peak_memory

        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "trial"
            settings = Settings(
                name, output, write=self.write, weights=self.weights, device=self.device, dtype=self.dtype,
                frames=max(self.frames, _WARM_UP + 2),
            )  # fmt: skip
            clock = _Clock()
            summary = Run(settings)(clock)
            if summary.frames < _WARM_UP + 2:
                raise Recal3rError(f"{name} has only {summary.frames} frames, too few to say how long one takes.")
            size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
            return Trial(summary.frames, clock.seconds_a_frame(), peak_memory(), size / summary.frames)

    def _forecast(self, trial: Trial, total: int | None) -> None:
        rate = 1 / trial.seconds_a_frame
        _say("tried", f"{trial.frames} frames: {rate:.1f} a second, all outputs included")
        if trial.peak is not None:
            clouds = " (and up to 0.3 GB for every million --cloud-points)" if {"ply", "glb"} & set(self.write) else ""
            _say("memory", f"{trial.peak // _MEGABYTE:,} MB at the peak, however long the stream is{clouds}")
        count, of = (total, f"all {total:,} frames") if total else (round(3600 * rate), "an hour of it")
        _say("time", f"{_duration(count * trial.seconds_a_frame)} for {of}")
        _say("disk", f"about {count * trial.disk_a_frame / _MEGABYTE:,.0f} MB for {of}, as {','.join(self.write)}")
        for advice in _advice(self, rate):
            print(f"  to change: {advice}")


COMMAND: type[Command] = Doctor


def _say(name: str, value: object) -> None:
    print(f"  {name:12} {value}")


class _Clock:
    """Notes when frames are done."""

    def __init__(self) -> None:
        self._times: list[float] = []

    def begin(self, source: Source, done: int, total: int | None) -> None: ...

    def frame(self, prediction: Prediction) -> None:
        del prediction
        self._times.append(time.perf_counter())

    def seconds_a_frame(self) -> float:
        first, last = self._times[_WARM_UP - 1], self._times[-1]
        return (last - first) / (len(self._times) - _WARM_UP)


# -- the environment ---------------------------------------------------------------------------------------------------


def _environment() -> Iterator[str]:
    print("the environment")
    _say("recal3r", f"{_version('recal3r') or 'not installed'} on Python {platform.python_version()}, {sys.platform}")
    bounds = _bounds()
    for name in _PACKAGES:
        found, bound = _version(name), bounds.get(name)
        _say(name, found or "MISSING")
        if found is None or (bound and _numbers(found) < _numbers(bound)):
            yield f"{name} {found or 'is missing'}, but {bound or 'it'} or newer is needed; pip install -U {name}"
    for extra, (package, use) in _EXTRAS.items():
        found = _version(package)
        _say(extra, f"{package} {found}" if found else f"not installed, for {use}: pip install 'recal3r[{extra}]'")


def _bounds() -> dict[str, str]:
    """Of what is needed in any case, the lower bounds."""
    try:
        lines = importlib.metadata.requires("recal3r") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    plain = [line.partition(";")[0] for line in lines if "extra ==" not in line]
    return {name.strip().lower(): bound.strip() for name, _, bound in (line.partition(">=") for line in plain)}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.partition("+")[0].split(".")
    return tuple(int(part) for part in parts[:3] if part.isdigit())


def _machine() -> Iterator[str]:
    import torch

    print("\nthe machine")
    available = available_memory()
    memory = "" if available is None else f", {available // _MEGABYTE:,} MB of memory free"
    _say("cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads{memory}")
    for number in range(torch.cuda.device_count()):
        about = cast("Any", torch.cuda.get_device_properties(number))
        _say(f"cuda:{number}", f"{about.name}, {about.total_memory // _MEGABYTE:,} MB")
    if not torch.cuda.is_available():
        _say("cuda", "none: networks run on the CPU")
    yield from ()


def available_memory() -> int | None:
    """Bytes that a program may still take; None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return found[0] if found else None


def _weights() -> Iterator[str]:
    from recal3r.model.hub import KNOWN, cache_folder, cached

    print("\nthe weights")
    for name, known in KNOWN.items():
        path = cached(known)
        _say(name, path or f"not here; {known.note}")
    _say("cache", cache_folder())
    yield from ()


# -- the stream --------------------------------------------------------------------------------------------------------


def _size_of_network(weights: str, device: str, dtype: str) -> tuple[int, str, int | None]:
    """Bytes it takes at the least, where, and how many are free there (None: unknown)."""
    import torch

    from recal3r.model.checkpoint import read_checkpoint
    from recal3r.model.cut3r import Cut3r
    from recal3r.model.hub import resolve
    from recal3r.model.outline import outline

    config = read_checkpoint(resolve(weights)).config
    with outline():
        network = Cut3r(config)
    parameters = sum(weight.numel() for weight in network.parameters())
    width = {"float64": 8, "bfloat16": 2}.get(dtype, 4)
    where = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    on_cuda = where.startswith("cuda") and torch.cuda.is_available()
    free = int(torch.cuda.mem_get_info()[0]) if on_cuda else available_memory()
    return round(parameters * width * _ROOM), where, free


def _too_large(weights: str, needed: int, available: int) -> Recal3rError:
    return Recal3rError(
        f"{weights} takes at least {needed // _MEGABYTE:,} MB and {available // _MEGABYTE:,} MB are free; "
        "close other programs, use --dtype bfloat16, or a smaller network."
    )


def _advice(asked: Doctor, rate: float) -> Iterator[str]:
    if rate < 5:
        yield "it is slow: --size 224 shows the network smaller pictures, --stride 2 every other frame"
        if asked.device in ("auto", "cpu"):
            yield "an accelerator is ten times and more as fast as a CPU: --device cuda where there is one"
    if "depth" in asked.write and rate >= 5:
        yield "depth takes most of the disk: leave it out of --write where nobody reads it"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
