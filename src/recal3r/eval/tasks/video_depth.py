"""Video depth: all valid pixels of a sequence together, one alignment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from PIL import Image as PillowImage

from recal3r.errors import EvalError
from recal3r.eval.cuts import Cut, resized
from recal3r.eval.datasets.base import Shot
from recal3r.eval.metrics.depth import Alignment, Depth, Scale, depth_error
from recal3r.eval.spool import Spool
from recal3r.eval.tasks.base import Measure, Recorded, Score, needed
from recal3r.types import Array


@dataclass(frozen=True)
class VideoDepth:
    """z of the self-view points, resized to the truth's size (bicubic), against nearest < truth < farthest."""

    outputs: ClassVar[tuple[str, ...]] = ("depth",)
    metrics: ClassVar[tuple[Measure, ...]] = (
        Measure("abs_rel", "AbsRel", digits=4),
        Measure("sq_rel", "SqRel"),
        Measure("rmse", "RMSE (m)"),
        Measure("log_rmse", "log-RMSE"),
        Measure("delta_1_25", "δ < 1.25", higher_is_better=True, digits=4),
        Measure("delta_1_25_2", "δ < 1.25²", higher_is_better=True),
        Measure("delta_1_25_3", "δ < 1.25³", higher_is_better=True),
    )
    alignment: Alignment = field(default_factory=Scale)
    nearest: float = 0.0
    farthest: float = 70.0
    weigh_by_pixels: bool = True
    """Whether a sequence counts in the mean by its valid pixels, or as one."""

    def usable(self, shot: Shot) -> bool:
        return shot.depth is not None

    def score(self, shots: Sequence[Shot], said: Recorded, cut: Cut) -> Score:
        del cut
        with Spool(2) as spool:
            for shot, estimate in zip(shots, needed(said.depth, "depth"), strict=True):
                spool.write(*self._valid(shot, estimate))

            def pairs() -> Iterator[tuple[Depth, Depth]]:
                for piece in spool.pieces():
                    yield piece[:, 0], piece[:, 1]

            if not spool.rows:
                raise EvalError("No pixel of the sequence has a true depth in range; look at its depth maps.")
            error, count = depth_error(pairs, self.alignment.line(pairs))
        return Score(error._asdict(), float(count) if self.weigh_by_pixels else 1.0)

    def _valid(self, shot: Shot, estimate: Array) -> tuple[Array, Array]:
        """Estimated and true depth of the valid pixels [K]."""
        truth = _depth_of(shot)
        valid = (truth > self.nearest) & (truth < self.farthest)
        size = (truth.shape[1], truth.shape[0])
        return resized(np.ascontiguousarray(estimate), size, PillowImage.Resampling.BICUBIC)[valid], truth[valid]


def _depth_of(shot: Shot) -> Array:
    if shot.depth is None:
        raise EvalError(f"Frame {shot.id} has no true depth; choose among the frames that have one.")
    return shot.depth()
