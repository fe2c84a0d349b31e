"""Streams cut into segments: the state is reset now and then, the poses are chained.

This belongs to the stream, not to a rule (TTT3R's `reset_interval`).
"""

from __future__ import annotations

from recal3r.engine.session import Session
from recal3r.types import Array


def ends_segment(session: Session, stream: int, reset_interval: int | None) -> bool:
    """Whether the frame just written was the last of its segment."""
    return reset_interval is not None and session.places[stream].segment_frames >= reset_interval


def chain(session: Session, stream: int, T_segment_camera: Array) -> None:
    """Begins a segment whose first frame is the one just seen, at `T_segment_camera` of the old segment.

    base ← base · T: the next segment counts from that frame's camera, whatever small pose it may give it itself.
    """
    session.begin_segment(stream, session.places[stream].T_world_segment @ T_segment_camera)
