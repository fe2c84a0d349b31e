"""What a run can write: a name for each sink, and its place in the run's folder."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from recal3r.errors import OutputError
from recal3r.sinks.base import Sink
from recal3r.sinks.health import FiniteOnly


@dataclass(frozen=True)
class Output:
    """A sink, imported when it is asked for."""

    module: str
    kind: str
    path: str  # in the run's folder
    takes: frozenset[str] = frozenset()
    """Which of the options that a run gives to its sinks this one knows."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    wants: frozenset[str] = frozenset()
    """What of the reconstructor it shows where there is any, but can do without."""
    every: bool = False
    """Whether it is given frames without numbers too."""

    def open(self, folder: Path, options: Mapping[str, Any], *, overwrite: bool) -> Sink:
        try:
            kind = getattr(importlib.import_module(f"recal3r.sinks.{self.module}"), self.kind)
        except ImportError as error:
            raise OutputError(f"{self.kind} does not load ({error}); install recal3r with the extra for it.") from error
        known = {name: value for name, value in options.items() if name in self.takes}
        sink = kind(folder / self.path, **self.options, **known, overwrite=overwrite)
        return sink if self.every else FiniteOnly(sink)


_CLOUD = frozenset({"edge", "budget", "least_confidence", "keep"})
_POINTS = frozenset({"least_confidence", "keep"})
_RELIABILITY = frozenset({"reliability"})

OUTPUTS: Mapping[str, Output] = MappingProxyType(
    {
        "tum": Output("trajectory", "TumSink", "trajectory.tum.txt"),
        "kitti": Output("trajectory", "KittiSink", "trajectory.kitti.txt"),
        "depth": Output("depth", "DepthSink", "depth"),
        "images": Output("images", "ImagesSink", "images"),
        "ply": Output("cloud", "CloudSink", "cloud.ply", _CLOUD),
        "glb": Output("glb", "GlbSink", "cloud.glb", _CLOUD),
        "colmap": Output("colmap", "ColmapSink", "colmap", _POINTS),
        "colmap-text": Output("colmap", "ColmapSink", "colmap", _POINTS, {"binary": False}),
        "nerfstudio": Output("nerfstudio", "NerfstudioSink", "transforms.json"),
        "rrd": Output("rerun", "RerunSink", "recording.rrd", wants=_RELIABILITY),
        "gates": Output("gates", "GatesSink", "gates.arrow"),
        "frames": Output("frames", "FramesSink", "frames", wants=_RELIABILITY),
        "report": Output("report", "ReportSink", "report.html", wants=_RELIABILITY, every=True),
        "health": Output("health", "HealthSink", "health.jsonl", every=True),
    }
)


def names_of(words: str | Sequence[str]) -> tuple[str, ...]:
    """The outputs that a comma list names, each once, in the order of the table."""
    asked = words.split(",") if isinstance(words, str) else list(words)
    named = {word.strip() for word in asked if word.strip()}
    unknown = sorted(named - OUTPUTS.keys())
    if unknown or not named:
        what = f"There is no output named {unknown[0]!r}" if unknown else "No output is named"
        raise OutputError(f"{what}; there are {', '.join(OUTPUTS)}.")
    return tuple(name for name in OUTPUTS if name in named)
