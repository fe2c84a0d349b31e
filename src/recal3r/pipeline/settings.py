"""What a run is asked to do. The fields are the options of `recal3r run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from recal3r.errors import ConfigError, ImageError
from recal3r.pipeline.outputs import OUTPUTS, names_of
from recal3r.sinks.filters import All, DepthRange, Filter, NoEdges, NoSky

Size = Literal["auto", "paper"] | int | None  # as in model.preprocess, which is heavy to import
_SOURCE_OPTIONS = (
    *("stride", "start", "end", "start_seconds", "end_seconds", "skip_broken"),
    *("width", "height", "rate", "idle_seconds", "timeout_seconds"),
    *("intrinsics", "distortion", "fisheye"),
)


def _size(word: str) -> Size:
    if word == "none":
        return None
    if word.isdecimal():
        return int(word)
    if word in ("auto", "paper"):
        return word  # pyright: ignore[reportReturnType]  # one of the two
    raise ImageError(f"{word!r} is no size; use auto, paper, none, or a long side in pixels.")


def _option(default: Any, help_: str, parse: Any = None, shown: str | None = None) -> Any:
    return field(default=default, metadata={"help": help_, "parse": parse, "shown": shown})


@dataclass(frozen=True)
class Settings:
    """A source, what to make of it, and where to write that."""

    source: str = field(metadata={"help": "video, folder or pattern of pictures, camera, URL, synthetic:SEED, or -"})
    output: Path = field(metadata={"help": "the folder to write to", "short": "-o"})
    write: tuple[str, ...] = _option(
        ("tum", "depth", "ply", "frames", "report"),
        f"what to write, with commas between: {', '.join(OUTPUTS)}",
        parse=names_of,
    )
    weights: str = _option("tiny", "a known name, or a .pth or .safetensors file")
    rule: str = _option("recal3r", "how the state moves, such as cut3r or recal3r(beta_base=0.05)")
    size: Size = field(
        default="auto",
        metadata={"help": "what the network sees: auto, paper, none, or a long side in pixels", "parse": _size},
    )
    reset_interval: int | None = _option(None, "begin a new segment every so many frames")
    frames: int | None = _option(None, "end after so many frames")
    health: str = _option("", "limits beyond which to warn, such as drift=2,patience=50; none watches nothing")

    stride: int | None = _option(None, "of pictures and videos: every so many frames one")
    start: int | None = _option(None, "of pictures and videos: the first frame, counted from 0")
    end: int | None = _option(None, "of pictures and videos: the frame to end before")
    start_seconds: float | None = _option(None, "of videos: where to begin, by the file's clock")
    end_seconds: float | None = _option(None, "of videos: where to end, by the file's clock")
    skip_broken: bool | None = _option(None, "leave out frames that cannot be read, and count them")
    width: int | None = _option(None, "of raw pictures on standard input (-)")
    height: int | None = _option(None, "of raw pictures on standard input (-)")
    rate: float | None = _option(None, "of raw pictures on standard input: frames a second")
    idle_seconds: float | None = _option(None, "of a watched folder: end when nothing came for so long")
    timeout_seconds: float | None = _option(None, "of cameras and URLs: for how long nothing may come")
    intrinsics: tuple[float, float, float, float] | None = _option(
        None, "of a known camera: fx fy cx cy in pixels of the pictures as they come, upright", shown="F"
    )
    distortion: tuple[float, ...] | None = _option(
        None, "of a known lens, to be taken out: k1 k2 p1 p2 [k3 [k4 k5 k6]] as OpenCV has them", shown="K"
    )
    fisheye: tuple[float, ...] | None = _option(
        None, "of a known fisheye lens, to be taken out: k1 k2 k3 k4 as OpenCV has them", shown="K"
    )

    cloud_points: int = _option(1_000_000, "of ply and glb: the most points")
    cloud_edge: float = _option(0.01, "of ply and glb: how close points are told apart, in metres")
    least_confidence: float = _option(1.5, "of ply, glb and colmap: leave out points less sure than that")
    farthest: float | None = _option(None, "of ply, glb and colmap: leave out points farther than that, in metres")
    drop_edges: bool = _option(False, "of ply, glb and colmap: leave out points that hang between surfaces")
    drop_sky: bool = _option(False, "of ply, glb and colmap: leave out the sky")

    device: str = _option("auto", "where the network runs: auto, cpu, cuda, cuda:1")
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = _option("auto", "what the network works in")
    threads: int | None = _option(None, "CPU threads of the network")
    checkpoint_every: int = _option(100, "note every so many frames where to go on after a crash")
    overwrite: bool = _option(False, "write into a folder that holds other files; only files of the same name go")
    resume: bool = _option(True, "go on with a run of the same settings that was cut off")

    def __post_init__(self) -> None:
        object.__setattr__(self, "output", Path(self.output))
        object.__setattr__(self, "write", names_of(self.write))
        if len({OUTPUTS[name].path for name in self.write}) < len(self.write):
            raise ConfigError("colmap and colmap-text go into the same folder; write one of them.")
        for name in ("frames", "threads", "checkpoint_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}={value} is nothing to run with; use 1 or more.")

    @property
    def source_options(self) -> dict[str, Any]:
        """Those that were given: each source knows some of them, and refuses the others."""
        given = {name: getattr(self, name) for name in _SOURCE_OPTIONS}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def sink_options(self) -> Mapping[str, Any]:
        return {
            "edge": self.cloud_edge,
            "budget": self.cloud_points,
            "least_confidence": self.least_confidence,
            "keep": self._keep(),
        }

    def _keep(self) -> Filter | None:
        filters: list[Filter] = [] if self.farthest is None else [DepthRange(far=self.farthest)]
        filters += [NoEdges()] if self.drop_edges else []
        filters += [NoSky()] if self.drop_sky else []
        return All(tuple(filters)) if filters else None
