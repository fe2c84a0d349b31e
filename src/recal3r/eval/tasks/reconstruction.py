"""3D reconstruction: point maps of the world head against the true ones, as clouds. Needs scipy (the extra `eval`).

T frames · h, w the network's pixels
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import EvalError
from recal3r.eval.cuts import Central, Cut
from recal3r.eval.datasets.base import Shot
from recal3r.eval.metrics.cloud import surface_error
from recal3r.eval.metrics.icp import Icp
from recal3r.eval.metrics.median import median
from recal3r.eval.spool import Spool
from recal3r.eval.tasks.base import Measure, Recorded, Score, needed, true_poses
from recal3r.geometry.pose import apply, inverse
from recal3r.sources.synthetic import points_from_depth
from recal3r.types import Array

_TOWARDS_Z = np.array([0.0, 0.0, 1.0])
_ESTIMATE, _TRUTH = slice(0, 3), slice(3, 6)  # columns of a spool


class Placement(NamedTuple):
    """Where a cloud lies in the first camera's axes, in the terms that bring two clouds together."""

    z: float
    """The median z."""
    scale: float
    """The median distance from the median point."""


@dataclass(frozen=True)
class Reconstruction:
    """Acc, Comp (metres) and NC of at most `most` points a cloud.

    Truth moves into the first camera. The median z is subtracted from both; the estimate is scaled by the ratio of
    the median distances of both from their median points; the truth's median z is added back to both, and both go
    through the first camera's pose. Medians are over all pixels with a true point, Acc and Comp over the central
    `central` × `central` of each frame. `icp=None` leaves the last step out.
    """

    outputs: ClassVar[tuple[str, ...]] = ("points_world",)
    metrics: ClassVar[tuple[Measure, ...]] = (
        Measure("acc", "Acc (m)"),
        Measure("comp", "Comp (m)"),
        Measure("nc", "NC", higher_is_better=True),
        Measure("acc_median", "Acc median (m)"),
        Measure("comp_median", "Comp median (m)"),
        Measure("nc_median", "NC median", higher_is_better=True),
        Measure("finite", "finite points", higher_is_better=True),
    )
    central: int | None = 224
    most: int = 1_000_000
    seed: int = 0
    icp: Icp | None = field(default_factory=Icp)
    neighbours: int = 30

    def usable(self, shot: Shot) -> bool:
        return shot.depth is not None and shot.T_world_camera is not None and shot.intrinsics is not None

    def score(self, shots: Sequence[Shot], said: Recorded, cut: Cut) -> Score:
        if not isinstance(cut, Central):
            raise EvalError(
                f"Reconstruction is scored on pictures cut around the principal point, not {cut}; use Central."
            )
        T_world_first = true_poses(shots[:1])[0]
        with Spool(6) as spool:
            central, asked = self._collect(spool, shots, needed(said.points_world, "points_world"), cut)
            found, true = _placement(spool, _ESTIMATE), _placement(spool, _TRUTH)
            if not (np.isfinite(found.scale) and found.scale > 0 and true.scale > 0):
                raise EvalError("The predicted or the true points are unknown or all in one place; look at both.")
            both = _rows(spool, _some(central, self.most, self.seed)).astype(np.float64)
            finite = spool.rows / asked
        estimate = (both[:, _ESTIMATE] - found.z * _TOWARDS_Z) * (true.scale / found.scale) + true.z * _TOWARDS_Z
        estimate, truth = apply(T_world_first, estimate), apply(T_world_first, both[:, _TRUTH])
        if self.icp is not None:
            estimate = self.icp(estimate, truth)
        return Score(surface_error(estimate, truth, self.neighbours)._asdict() | {"finite": finite}, 1.0)

    def _collect(
        self, spool: Spool, shots: Sequence[Shot], estimates: NDArray[np.floating], cut: Central
    ) -> tuple[NDArray[np.intp], int]:
        """Writes the points of all pixels known on both sides, in the first camera's axes.

        Returns which rows are in the central part, and how many true points there were.
        """
        T_first_world = inverse(true_poses(shots[:1])[0])
        central: list[NDArray[np.bool_]] = []
        asked = 0
        for shot, estimate in zip(shots, estimates, strict=True):
            truth = apply(T_first_world, true_points(shot, cut, estimate.shape[:2]))
            true = np.isfinite(truth).all(axis=-1)
            known = true & np.isfinite(estimate).all(axis=-1)
            spool.write(estimate[known], truth[known])
            central.append(self._middle(known.shape)[known])
            asked += int(true.sum())
        return np.flatnonzero(np.concatenate(central)), max(asked, 1)

    def _middle(self, shape: tuple[int, ...]) -> NDArray[np.bool_]:
        """Which pixels [h, w] are in the central part."""
        inside = np.zeros(shape, np.bool_)
        side = max(shape) if self.central is None else self.central
        top, left = (max(0, (length - side) // 2) for length in shape)
        inside[top : top + side, left : left + side] = True
        return inside


def true_points(shot: Shot, cut: Central, size: tuple[int, int]) -> Array:
    """World points [h, w, 3] of a shot as the network saw it (size: height, width); NaN where nobody knows."""
    if shot.depth is None or shot.intrinsics is None or shot.T_world_camera is None:
        raise EvalError(
            f"Frame {shot.id} has no true points; choose among the frames that have depth, pose and camera."
        )
    depth = shot.depth()
    depth, K = cut.truth(depth, shot.intrinsics(depth.shape[1], depth.shape[0]), (size[1], size[0]))
    points = apply(shot.T_world_camera, points_from_depth(depth, K.astype(np.float64)).astype(np.float64))
    return np.where((depth > 0)[..., None], points, np.nan)


def _placement(spool: Spool, columns: slice) -> Placement:
    def points() -> Iterator[Array]:
        return (piece[:, columns] for piece in spool.pieces())

    count = spool.rows
    centre = np.array(
        [median(lambda axis=axis: (part[:, axis] for part in points()), count=count) for axis in range(3)]
    )
    distance = median(
        lambda: (np.linalg.norm(part - centre.astype(np.float32), axis=1) for part in points()), count=count
    )
    return Placement(float(centre[2]), distance)


def _some(rows: NDArray[np.intp], most: int, seed: int) -> NDArray[np.intp]:
    """At most so many of the rows, in order."""
    if len(rows) <= most:
        return rows
    return rows[np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False, shuffle=False))]


def _rows(spool: Spool, rows: NDArray[np.intp]) -> NDArray[np.float32]:
    found: list[NDArray[np.float32]] = []
    before = 0
    for piece in spool.pieces():
        low, high = np.searchsorted(rows, (before, before + len(piece)))
        found.append(piece[rows[low:high] - before])
        before += len(piece)
    return np.concatenate(found) if found else np.empty((0, spool.columns), np.float32)
