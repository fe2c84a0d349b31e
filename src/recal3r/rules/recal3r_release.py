"""ReCal3R as its authors released it. Where paper and release part ways: `docs/rules.md`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from recal3r.geometry.vector import lengths
from recal3r.model.probe import Stat
from recal3r.rules.base import Decision, Evidence, require_number, write_fully
from recal3r.rules.recal3r import drift, pressure, sharpened, token_reliability
from recal3r.rules.ttt3r import alignment


class Pressure(NamedTuple):
    pressure: Tensor  # h [B, N]


@dataclass(frozen=True)
class Recal3rRelease:
    """Equations as numbered in `Recal3r`, but for

    r = σ(mean_j ‖E(F_j) - Y_j‖ / (mean_j ‖E(F_j)‖ + ε) - τ_r)                                                    (2')
    1-d = 1 - (rank(Δ_m) + 1) / N,  e' = rank(e_m) / (N-1)                                                        (4')
    ρ with ε_ρ in its denominator                                                                                 (5')
    β ← (1-κ) β + κ mean_m β, clamped to [0, 1],  κ = smoothing                                                   (8)
    """

    beta_base: float = 0.1
    pressure_decay: float = 0.95
    residual_threshold: float = 0.2
    smoothing: float = 0.5
    epsilon: float = 1e-6
    epsilon_reliability: float = 1e-8

    def __post_init__(self) -> None:
        require_number(self, "beta_base", 0, 1)
        require_number(self, "pressure_decay", 0, 1)
        require_number(self, "residual_threshold")
        require_number(self, "smoothing", 0, 1)
        require_number(self, "epsilon", sys.float_info.min)
        require_number(self, "epsilon_reliability", sys.float_info.min)

    @property
    def needs(self) -> frozenset[Stat]:
        return frozenset({Stat.MEAN_LOGIT, Stat.ENTROPY})

    @property
    def memory_type(self) -> type[Pressure]:
        return Pressure

    def start(self, evidence: Evidence) -> Decision[Pressure]:
        rate = write_fully(evidence)
        return Decision(rate, Pressure(torch.zeros_like(rate[..., 0])))

    def step(self, evidence: Evidence, memory: Pressure) -> Decision[Pressure]:
        g = alignment(evidence)
        h = pressure(memory.pressure, g, self.pressure_decay)  # (1)
        r = self._residual(evidence)
        candidate_rate = r * g * (-h).exp()  # β̃ (3)

        tokens = g.shape[1]
        d = (rank(drift(evidence, evidence.initial_state)) + 1) / tokens  # (4')
        e = rank(evidence.stats[Stat.ENTROPY]) / max(tokens - 1, 1)
        rho = token_reliability(d, e, self.epsilon_reliability)  # (5')
        trust = sharpened(rho)  # R (6)
        rate = (1 - trust) * self.beta_base + trust * candidate_rate  # (7)
        rate = torch.lerp(rate, rate.mean(-1, keepdim=True), self.smoothing).clamp(0, 1)  # (8)
        signals = {"alignment": g, "pressure": h, "residual": r, "deviation": d, "entropy": e}
        signals |= {"reliability": rho, "trust": trust}
        return Decision(rate[..., None], Pressure(h), signals)

    def _residual(self, evidence: Evidence) -> Tensor:  # r [B, 1]
        embedding = evidence.image_embedding
        unexplained = lengths(embedding - evidence.image_readout).mean(-1, keepdim=True)
        ratio = unexplained / (lengths(embedding).mean(-1, keepdim=True) + self.epsilon)
        return (ratio - self.residual_threshold).sigmoid()  # (2')


def rank(x: Tensor) -> Tensor:
    """The ascending rank of each token within its sample, 0..N-1; of equal ones the first comes first."""
    return x.argsort(dim=-1, stable=True).argsort(dim=-1).to(x.dtype)
