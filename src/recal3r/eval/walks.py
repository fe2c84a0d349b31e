"""Trajectories beside the results, in TUM's format: figures are drawn from them, and `evo` reads them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import EvalError
from recal3r.eval.datasets.base import tum_trajectory
from recal3r.eval.results import place_of
from recal3r.sinks.trajectory import tum_line

TRUTH = "truth"


class Walk(NamedTuple):
    """What was said of the camera's way through a sequence, in the units and axes it was said in."""

    protocol: str
    contestant: str
    length: int | None
    sequence: str
    times: tuple[float, ...]
    """Timestamps, or the number of the frame where there are none."""
    estimate: NDArray[np.floating]  # [T, 4, 4]
    truth: NDArray[np.floating]  # [T, 4, 4]


def write_walk(walk: Walk, folder: Path) -> None:
    for who, poses in ((walk.contestant, walk.estimate), (TRUTH, walk.truth)):
        path = folder / place_of(walk.protocol, who, walk.length, walk.sequence, ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{tum_line(*line)}\n" for line in zip(walk.times, poses, strict=True)))


def read_walk(folder: Path, protocol: str, contestant: str, length: int | None, sequence: str) -> Walk | None:
    """None where there is none: the sequence failed, or was not reached."""
    path, true_path = (folder / place_of(protocol, who, length, sequence, ".txt") for who in (contestant, TRUTH))
    if not (path.is_file() and true_path.is_file()):
        return None
    times, estimate = tum_trajectory(path)
    true_times, truth = tum_trajectory(true_path)
    if not np.array_equal(times, true_times):
        raise EvalError(f"{path} and {true_path} are of different frames; remove both and evaluate again.")
    return Walk(protocol, contestant, length, sequence, tuple(times.tolist()), estimate, truth)
