"""Whether a dataset is whole: what each sequence has, lacks, and what cannot be read."""

from __future__ import annotations

from collections.abc import Sequence as Many
from typing import NamedTuple

import numpy as np

from recal3r.errors import Recal3rError
from recal3r.eval.datasets.base import Dataset, Sequence, Shot
from recal3r.eval.protocol import PROTOCOLS, Protocol


class Finding(NamedTuple):
    sequence: str
    frames: int
    with_pose: int
    with_depth: int
    left_out: dict[str, int]
    problems: list[str]


def verify(found: Dataset, *, every: bool = False) -> list[Finding]:
    """Opens every sequence and reads its first, middle and last frame, or every one."""
    return [_verified(found, name, every) for name in found.names()]


def _verified(found: Dataset, name: str, every: bool) -> Finding:
    try:
        sequence = found.open(name)
    except Recal3rError as error:
        return Finding(name, 0, 0, 0, {}, [str(error)])
    shots = sequence.shots
    read = shots if every else [shots[place] for place in sorted({0, len(shots) // 2, len(shots) - 1})] if shots else []
    problems = [problem for shot in read for problem in _problems(shot)]
    if not shots:
        problems.append("no frame is usable")
    return Finding(
        name,
        len(shots),
        sum(shot.T_world_camera is not None for shot in shots),
        sum(shot.depth is not None for shot in shots),
        {why: count for why, count in sequence.left_out.items() if count},
        problems,
    )


def _problems(shot: Shot) -> list[str]:
    found: list[str] = []
    try:
        size = shot.image().shape[:2]
        depth = None if shot.depth is None else shot.depth()
    except Recal3rError as error:
        return [f"frame {shot.id}: {error}"]
    if depth is not None and depth.shape != size:
        found.append(
            f"frame {shot.id}: the picture is {size[1]}x{size[0]}, its depth {depth.shape[1]}x{depth.shape[0]}"
        )
    if depth is not None and not (depth > 0).any():
        found.append(f"frame {shot.id}: no pixel of its depth is known")
    T = shot.T_world_camera
    if T is not None and not np.allclose(T[:3, :3] @ T[:3, :3].T, np.eye(3), atol=1e-2):
        found.append(f"frame {shot.id}: its pose is no rotation")
    return found


class Forecast(NamedTuple):
    """What a protocol would take of a dataset."""

    protocol: str
    length: int | None
    sequences: int
    whole: int
    """Sequences that have as many frames as are asked for."""
    missing: int
    """Sequences that the protocol names and the dataset lacks, or that cannot be opened."""
    frames: int
    """Pictures shown in all, under one contestant."""


def forecast(found: Dataset, lengths: Many[int | None]) -> list[Forecast]:
    """Of every protocol of the dataset, at every length. Reads no picture."""
    opened: dict[str, Sequence | None] = {}
    rows: list[Forecast] = []
    for protocol in PROTOCOLS.values():
        if protocol.dataset == found.name:
            names = protocol.sequences.of(found.names())
            for name in names:
                opened.setdefault(name, _opened(found, name))
            rows += [_forecast(protocol, length, [opened[name] for name in names]) for length in lengths]
    return rows


def _opened(found: Dataset, name: str) -> Sequence | None:
    try:
        return found.open(name)
    except Recal3rError:
        return None  # counted as missing; `verify` says why


def _forecast(protocol: Protocol, length: int | None, sequences: list[Sequence | None]) -> Forecast:
    wanted = protocol if length is None else protocol.at(length)
    counts = [
        len(wanted.frames.of(sum(map(wanted.task.usable, one.shots)))) if one is not None else 0 for one in sequences
    ]
    whole = sum(count > 0 and (length is None or count >= length) for count in counts)
    return Forecast(protocol.name, length, len(sequences), whole, sum(count == 0 for count in counts), sum(counts))
