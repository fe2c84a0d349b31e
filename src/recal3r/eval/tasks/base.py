"""What a task is: what it asks of a prediction and of the truth, and the numbers it makes of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import EvalError
from recal3r.eval.cuts import Cut
from recal3r.eval.datasets.base import Shot
from recal3r.types import Array


class Measure(NamedTuple):
    name: str
    label: str
    higher_is_better: bool = False
    digits: int = 3
    """How many decimals a table shows."""


class Score(NamedTuple):
    values: Mapping[str, float]
    weight: float
    """How much a sequence counts in the mean of its dataset."""


@dataclass(frozen=True)
class Recorded:
    """What was said of T frames: memory maps, of which a slice is read at a time. None where it was not asked for."""

    poses: NDArray[np.float64] | None = None  # [T, 4, 4]
    depth: NDArray[np.float32] | None = None  # [T, h, w]
    points_world: NDArray[np.float32] | None = None  # [T, h, w, 3]

    def first(self, count: int) -> Recorded:
        """The shorter stream that a stream begins with."""
        return Recorded(
            None if self.poses is None else self.poses[:count],
            None if self.depth is None else self.depth[:count],
            None if self.points_world is None else self.points_world[:count],
        )


class Task(Protocol):
    outputs: ClassVar[tuple[str, ...]]
    """What predictions have to hold."""
    metrics: ClassVar[tuple[Measure, ...]]

    def usable(self, shot: Shot) -> bool:
        """Whether the truth of a frame suffices."""
        ...

    def score(self, shots: Sequence[Shot], said: Recorded, cut: Cut) -> Score: ...


def needed(part: NDArray[np.floating] | None, what: str) -> NDArray[np.floating]:
    if part is None:
        raise EvalError(f"The prediction holds no {what}; predict again with this output.")
    return part


def true_poses(shots: Sequence[Shot]) -> Array:
    """[T, 4, 4]"""
    poses = [shot.T_world_camera for shot in shots if shot.T_world_camera is not None]
    if len(poses) != len(shots):
        raise EvalError(
            f"Of {len(shots)} frames {len(shots) - len(poses)} have no true pose; choose among those with one."
        )
    return np.stack(poses)
