"""Camera poses: ATE and RPE after one similarity over the whole sequence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from recal3r.errors import EvalError
from recal3r.eval.cuts import Cut
from recal3r.eval.datasets.base import Shot
from recal3r.eval.metrics.pose import ate, rpe, spread
from recal3r.eval.tasks.base import Measure, Recorded, Score, needed, true_poses


@dataclass(frozen=True)
class Pose:
    """ATE: RMSE of camera centres after Sim(3) alignment. RPE: from each frame to the next, after the same, RMSE.

    `ate_share` is ATE as a share of the spread of the true path: 1 is a camera that never moved.
    """

    outputs: ClassVar[tuple[str, ...]] = ("pose",)
    metrics: ClassVar[tuple[Measure, ...]] = (
        Measure("ate", "ATE (m)", digits=4),
        Measure("rpe_trans", "RPE (m)", digits=4),
        Measure("rpe_rot_deg", "RPE (°)", digits=4),
        Measure("ate_share", "ATE / spread"),
    )

    def usable(self, shot: Shot) -> bool:
        return shot.T_world_camera is not None

    def score(self, shots: Sequence[Shot], said: Recorded, cut: Cut) -> Score:
        del cut
        truth, estimate = true_poses(shots), needed(said.poses, "pose")
        if len(truth) < 3:
            raise EvalError(f"{len(truth)} poses make no trajectory to align; take at least 3 frames.")
        shift, turn = rpe(estimate, truth)
        error, extent = ate(estimate, truth), spread(truth)
        share = error / extent if extent > 0 else float("nan")
        return Score({"ate": error, "rpe_trans": shift, "rpe_rot_deg": turn, "ate_share": share}, 1.0)
