"""MeMix: only the tokens that fit the frame worst are written, and those as another rule says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from recal3r.model.probe import Stat
from recal3r.rules.base import Decision, Evidence, UpdateRule, is_rule, require, require_number
from recal3r.rules.ttt3r import Ttt3r


@dataclass(frozen=True)
class Memix:
    """Over the rate β' of an inner rule, with keep = 708/768:

    s_m = ⟨Ŝ_m, mean_j E(F_j)⟩                                                                                    (1)
    M_m = 1 for the k = ⌊keep · N⌋ tokens with the lowest s_m, else 0                                             (2)
    β = M ⊙ β', on the first frame of a segment too                                                               (3)
    """

    inner: UpdateRule[Any] = field(default_factory=Ttt3r)
    keep: float = 708 / 768

    def __post_init__(self) -> None:
        require(is_rule(self.inner), self, "inner", "a rule")
        require_number(self, "keep", 0, 1)

    @property
    def needs(self) -> frozenset[Stat]:
        return self.inner.needs

    @property
    def memory_type(self) -> type[Any]:
        return self.inner.memory_type

    def start(self, evidence: Evidence) -> Decision[Any]:
        return self._masked(evidence, self.inner.start(evidence))

    def step(self, evidence: Evidence, memory: Any) -> Decision[Any]:
        return self._masked(evidence, self.inner.step(evidence, memory))

    def _masked(self, evidence: Evidence, inner: Decision[Any]) -> Decision[Any]:
        mask = self._mask(evidence)
        return Decision(inner.rate * mask[..., None], inner.memory, {**inner.signals, "mask": mask})  # (3)

    def _mask(self, evidence: Evidence) -> Tensor:  # M [B, N]
        frame = evidence.image_embedding.mean(1, keepdim=True)
        fit = (evidence.candidate * frame).sum(-1)  # s [B, N] (1)
        written = fit.argsort(dim=-1, stable=True)[:, : kept(self.keep, fit.shape[1])]
        return torch.zeros_like(fit).scatter(1, written, 1.0)  # (2)


def kept(keep: float, tokens: int) -> int:
    """⌊keep · N⌋, with 708/768 of 768 being 708 whatever the rounding of the quotient."""
    return int(keep * tokens + 1e-9)
