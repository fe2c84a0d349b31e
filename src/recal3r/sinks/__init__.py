"""Where predictions go: files that other programs read, written as data arrives."""

from recal3r.sinks.base import Sink, Tee
from recal3r.sinks.cloud import CloudSink
from recal3r.sinks.colmap import ColmapSink
from recal3r.sinks.depth import DepthSink
from recal3r.sinks.gates import GatesSink
from recal3r.sinks.glb import GlbSink
from recal3r.sinks.health import HealthSink
from recal3r.sinks.nerfstudio import NerfstudioSink
from recal3r.sinks.report import ReportSink
from recal3r.sinks.rerun import RerunSink
from recal3r.sinks.trajectory import KittiSink, TumSink

__all__ = [
    "CloudSink",
    "ColmapSink",
    "DepthSink",
    "GatesSink",
    "GlbSink",
    "HealthSink",
    "KittiSink",
    "NerfstudioSink",
    "ReportSink",
    "RerunSink",
    "Sink",
    "Tee",
    "TumSink",
]
