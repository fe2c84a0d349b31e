"""TTSA3R: a token moves where the state changed, and where the picture it looks at changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

from recal3r.geometry.vector import lengths
from recal3r.model.probe import Stat
from recal3r.rules.base import Decision, Evidence, require_number, write_fully


class Previous(NamedTuple):
    candidate: Tensor  # Ŝ_{t-1} [B, N, C]
    image_map: Tensor  # F_{t-1} [B, E, h, w]


@dataclass(frozen=True)
class Ttsa3r:
    """
    D_m = ‖Ŝ_t,m - Ŝ_{t-1},m‖                                                                                     (1)
    δ_j = 1 - cos(F_t,j, F_{t-1},j)                                                                               (2)
    β_m = σ(D_m / mean_m D - threshold) · σ(max_{j≥1} |A_mj| δ_j),  A = mean over l, h of a                       (3)

    Where a frame's size differs from the one before, F_{t-1} is resampled to the new patches.
    """

    threshold: float = 1.5

    def __post_init__(self) -> None:
        require_number(self, "threshold")

    @property
    def needs(self) -> frozenset[Stat]:
        return frozenset({Stat.MEAN_LOGIT_MAP})

    @property
    def memory_type(self) -> type[Previous]:
        return Previous

    def start(self, evidence: Evidence) -> Decision[Previous]:
        return Decision(write_fully(evidence), _remember(evidence))

    def step(self, evidence: Evidence, memory: Previous) -> Decision[Previous]:
        moved = lengths(evidence.candidate - memory.candidate)  # D [B, N] (1)
        mean_moved = moved.mean(-1, keepdim=True)
        temporal = (torch.where(mean_moved > 0, moved / mean_moved, 1.0) - self.threshold).sigmoid()

        attention = evidence.stats[Stat.MEAN_LOGIT_MAP][..., 1:].abs()  # |A| [B, N, P]
        changed = _change(evidence, memory)  # δ [B, P] (2)
        spatial = (attention * changed[:, None]).amax(-1).sigmoid()

        rate = temporal * spatial  # (3)
        return Decision(rate[..., None], _remember(evidence), {"temporal": temporal, "spatial": spatial})


def _remember(evidence: Evidence) -> Previous:
    return Previous(evidence.candidate, evidence.image_tokens.transpose(1, 2).unflatten(2, evidence.grid))


def _change(evidence: Evidence, memory: Previous) -> Tensor:
    before = memory.image_map
    if before.shape[2:] != evidence.grid:
        before = F.interpolate(before, evidence.grid, mode="bilinear", align_corners=False)
    return 1 - F.cosine_similarity(evidence.image_tokens, before.flatten(2).transpose(1, 2), dim=-1)
