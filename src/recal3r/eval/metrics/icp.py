"""Iterative closest points, point to point: the last centimetres of an alignment. Needs scipy (the extra `eval`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recal3r.eval.metrics.cloud import Cloud, tree_of
from recal3r.geometry.align import umeyama


@dataclass(frozen=True)
class Icp:
    """Pairs farther apart than `reach` metres are left alone. No scale; it starts where the clouds are.

    It ends when the share of points that have a partner and the root mean square distance to it (metres) both change
    by less than `tolerance`, or after `steps`.
    """

    reach: float = 0.1
    steps: int = 30
    tolerance: float = 1e-6

    def __call__(self, source: Cloud, target: Cloud) -> Cloud:
        """`source` moved onto `target`. Where fewer than three points have a partner it stays where it is."""
        tree, moved = tree_of(target), source
        before = (0.0, 0.0)
        for _ in range(self.steps):
            distance, partner = tree.query(moved, distance_upper_bound=self.reach)
            paired = np.isfinite(distance)
            if paired.sum() < 3:
                return moved
            now = (float(paired.mean()), float(np.sqrt(np.square(distance[paired]).mean())))
            if all(abs(new - old) < self.tolerance for new, old in zip(now, before, strict=True)):
                return moved
            before = now
            moved = umeyama(moved[paired], target[partner[paired]], with_scale=False)(moved)
        return moved
