"""TTT3R: a token moves as far as it is aligned with the frame."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from recal3r.model.probe import Stat
from recal3r.rules.base import Decision, Evidence, Memoryless, Nothing


def alignment(evidence: Evidence) -> Tensor:
    """g_m = σ(mean over layers, heads and image tokens j = 0..P of a): [B, N]. The pose token counts."""
    return evidence.stats[Stat.MEAN_LOGIT].sigmoid()


@dataclass(frozen=True)
class Ttt3r(Memoryless):
    """β = g."""

    @property
    def needs(self) -> frozenset[Stat]:
        return frozenset({Stat.MEAN_LOGIT})

    def step(self, evidence: Evidence, memory: Nothing) -> Decision[Nothing]:
        g = alignment(evidence)
        return Decision(g[..., None], memory, {"alignment": g})
