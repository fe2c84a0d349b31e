"""Where predictions go: files that other programs read, written as data arrives."""

from recal3r.sinks.base import Sink, Tee
from recal3r.sinks.cloud import CloudSink
from recal3r.sinks.trajectory import KittiSink, TumSink

__all__ = ["CloudSink", "KittiSink", "Sink", "Tee", "TumSink"]
