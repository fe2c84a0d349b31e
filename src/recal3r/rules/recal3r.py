"""ReCal3R as the paper writes it: a candidate rate, calibrated by how reliable each token is.

B batch · N state tokens · L decoder layers · C decoder width
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from recal3r.geometry.vector import lengths
from recal3r.model.probe import Stat
from recal3r.rules.base import Decision, Evidence, require_number, require_switch, write_fully
from recal3r.rules.ttt3r import alignment


class Recal3rMemory(NamedTuple):
    pressure: Tensor  # h [B, N]
    anchor: Tensor  # the mean of S_0..S_{t-1} [B, N, C]
    states: Tensor  # how many states that is the mean of [B]


@dataclass(frozen=True)
class Recal3r:
    """With the alignment g of TTT3R:

    h_t = λ h_{t-1} + (1-λ) g_t,  h = 0 after the first frame,  λ = pressure_decay                                (1)
    r = σ(mean_l [mean_j ‖X̃_j - X̂_j‖² / (mean_j ‖X̃_j‖² + ε)] - τ_r),  τ_r = residual_threshold                    (2)
    β̃ = r · g · exp(-h)                                                                                           (3)
    d = min-max over m of ‖S_{t-1},m - S_0,m‖,  e = mean_{l,h} H(attention over patches) / log P                  (4)
    ρ = (1-d)(1-e) / ((1-d)(1-e) + d·e),  0.5 at 0/0                                                              (5)
    R = ρ (2ρ-1)²                                                                                                 (6)
    β = (1-R) β_base + R β̃                                                                                        (7)

    The switches are the paper's ablations: `residual` and `pressure` leave a factor out of (3); `deviation` and
    `entropy` leave a signal out of (5), which is that signal at ½: neither for nor against; `calibrated=False` is
    β = β̃; `mean_anchor` measures d from the mean of S_0..S_{t-1} instead of S_0.
    """

    beta_base: float = 0.1
    pressure_decay: float = 0.95
    residual_threshold: float = 0.2
    epsilon: float = 1e-6
    residual: bool = True
    pressure: bool = True
    deviation: bool = True
    entropy: bool = True
    calibrated: bool = True
    mean_anchor: bool = False

    def __post_init__(self) -> None:
        require_number(self, "beta_base", 0, 1)
        require_number(self, "pressure_decay", 0, 1)
        require_number(self, "residual_threshold")
        require_number(self, "epsilon", sys.float_info.min)
        require_switch(self, "residual", "pressure", "deviation", "entropy", "calibrated", "mean_anchor")

    @property
    def needs(self) -> frozenset[Stat]:
        residual = {Stat.RESIDUAL} if self.residual else set[Stat]()
        entropy = {Stat.ENTROPY} if self.entropy and self.calibrated else set[Stat]()
        return frozenset({Stat.MEAN_LOGIT} | residual | entropy)

    @property
    def memory_type(self) -> type[Recal3rMemory]:
        return Recal3rMemory

    def start(self, evidence: Evidence) -> Decision[Recal3rMemory]:
        state = evidence.state
        rate = write_fully(evidence)
        return Decision(rate, Recal3rMemory(torch.zeros_like(rate[..., 0]), state, torch.ones_like(rate[:, 0, 0])))

    def step(self, evidence: Evidence, memory: Recal3rMemory) -> Decision[Recal3rMemory]:
        g = alignment(evidence)
        h = pressure(memory.pressure, g, self.pressure_decay)  # (1)
        r = self._residual(evidence) if self.residual else torch.ones_like(g[:, :1])
        candidate_rate = r * g * ((-h).exp() if self.pressure else 1)  # β̃ (3)

        states = memory.states + 1
        anchor = memory.anchor + (evidence.state - memory.anchor) / states[:, None, None]
        half = torch.full_like(g, 0.5)
        d = min_max(drift(evidence, anchor if self.mean_anchor else evidence.initial_state))  # (4)
        e = evidence.stats[Stat.ENTROPY] if Stat.ENTROPY in self.needs else half
        rho = token_reliability(d if self.deviation else half, e)  # (5)
        trust = sharpened(rho) if self.calibrated else torch.ones_like(g)  # R (6)
        rate = (1 - trust) * self.beta_base + trust * candidate_rate  # (7)
        signals = {"alignment": g, "pressure": h, "residual": r, "deviation": d, "entropy": e}
        signals |= {"reliability": rho, "trust": trust}
        return Decision(rate[..., None], Recal3rMemory(h, anchor, states), signals)

    def _residual(self, evidence: Evidence) -> Tensor:  # r [B, 1]
        unexplained, energy = evidence.stats[Stat.RESIDUAL].unbind(-1)  # each [B, L]
        ratio = (unexplained / (energy + self.epsilon)).mean(-1, keepdim=True)
        return (ratio - self.residual_threshold).sigmoid()  # (2)


def pressure(before: Tensor, g: Tensor, decay: float) -> Tensor:
    """h: how much a token was written lately. [B, N]"""
    return decay * before + (1 - decay) * g


def drift(evidence: Evidence, anchor: Tensor) -> Tensor:
    """Δ_m = ‖S_{t-1},m - anchor_m‖: [B, N]."""
    return lengths(evidence.state - anchor)


def min_max(x: Tensor) -> Tensor:
    """To [0, 1] over the tokens of one sample; 0 where all are equal."""
    low, high = x.aminmax(dim=-1, keepdim=True)
    return torch.where(high > low, (x - low) / (high - low), 0.0)


def token_reliability(d: Tensor, e: Tensor, epsilon: float = 0.0) -> Tensor:
    """ρ: the odds that a token little drifted and well concentrated is sound."""
    sound, unsound = (1 - d) * (1 - e), d * e
    total = sound + unsound + epsilon
    return torch.where(total > 0, sound / total, 0.5)


def sharpened(rho: Tensor) -> Tensor:
    """R = ρ (2ρ-1)²: an undecided token is trusted not at all."""
    return rho * (2 * rho - 1) ** 2
