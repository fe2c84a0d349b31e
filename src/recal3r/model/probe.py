"""What update rules want to know of the state-side cross-attention, measured while it runs.

B batch · H heads · N state tokens · P patches · d head size · L decoder layers

a[l,h,m,j] is the logit from state token m to image token j (scaled, positions applied); j = 0 is the pose token,
j = 1..P the patches. Two probes measure the same numbers: `PlainProbe` builds the maps and reads like the
definitions; `FusedProbe` never builds a map and keeps fused attention. Tests hold the second to the first.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from typing import Protocol

import torch
from torch import Tensor

from recal3r.model.attention import Attend, KeysValues, attend_by_heads, merge_heads, split_heads
from recal3r.model.moments import Measured, by_moments
from recal3r.model.onednn import product
from recal3r.model.tiles import by_tiles


class Stat(enum.Enum):
    """A number that a rule may ask for; what nobody asks for is not computed."""

    MEAN_LOGIT = "mean over l, h, j = 0..P of a: [B, N]"
    MEAN_LOGIT_MAP = "mean over l, h of a: [B, N, 1 + P]"
    ENTROPY = "mean over l, h of H(softmax over j = 1..P of a) / log P: [B, N]"
    RESIDUAL = "per layer, the mean over patches of ‖X̃_j - X̂_j‖² and of ‖X̃_j‖²: [B, L, 2]"


class Probe(Protocol):
    """Collects over the layers of one frame. The only object of the model that changes while it runs."""

    def watch(self, state_values: Tensor) -> Attend:
        """The attention to use for the next layer, where the image side sees `state_values` [B, H', N, d']."""
        ...

    def result(self) -> Mapping[Stat, Tensor]: ...


class _Sums:
    """Sums over layers, in float32 or better, whatever precision the layers work in."""

    def __init__(self) -> None:
        self.layers = 0
        self.sums: dict[Stat, Tensor] = {}
        self.residual: list[Tensor] = []

    def add(self, stat: Stat, value: Tensor) -> None:
        self.sums[stat] = self.sums[stat] + value if stat in self.sums else value

    def result(self) -> dict[Stat, Tensor]:
        means = {stat: total / self.layers for stat, total in self.sums.items()}
        return means | ({Stat.RESIDUAL: torch.stack(self.residual, dim=1)} if self.residual else {})


def _accumulate(x: Tensor) -> Tensor:
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _energies(values: Tensor, predicted: Tensor) -> Tensor:  # [B, H, P, d] both -> [B, 2]
    """mean_j ‖X̃_j - X̂_j‖² and mean_j ‖X̃_j‖², heads concatenated."""
    values, predicted = _accumulate(values), _accumulate(predicted)
    patches = values.shape[2]
    return torch.stack(
        ((values - predicted).square().sum((1, 2, 3)) / patches, values.square().sum((1, 2, 3)) / patches), dim=-1
    )


def _in_heads_of(queries: Tensor, state_values: Tensor) -> Tensor:
    """The image side's value projection of the state, cut into the state side's heads."""
    return split_heads(merge_heads(state_values), queries.shape[1])


def _log_patches(keys: Tensor) -> float:
    """log P; a single patch has no entropy, whatever it is divided by."""
    return math.log(max(keys.shape[2] - 1, 2))


class PlainProbe:
    """The statistics as they are defined: every layer's map is built."""

    def __init__(self, needs: frozenset[Stat]) -> None:
        self.needs = needs
        self.sums = _Sums()

    def watch(self, state_values: Tensor) -> Attend:
        def attend_and_measure(queries: Tensor, seen: KeysValues) -> Tensor:
            keys, values = seen
            logits = _accumulate(queries @ keys.transpose(-2, -1)) * queries.shape[-1] ** -0.5  # a [B, H, N, 1 + P]
            sums = self.sums
            sums.layers += 1
            if Stat.MEAN_LOGIT in self.needs:
                sums.add(Stat.MEAN_LOGIT, logits.mean((1, 3)))
            if Stat.MEAN_LOGIT_MAP in self.needs:
                sums.add(Stat.MEAN_LOGIT_MAP, logits.mean(1))
            if Stat.ENTROPY in self.needs:
                log_p = logits[..., 1:].log_softmax(-1)
                entropy = -(log_p.exp() * log_p).sum(-1)
                sums.add(Stat.ENTROPY, entropy.mean(1) / _log_patches(keys))
            if Stat.RESIDUAL in self.needs:
                weights = logits[..., 1:].softmax(-2).transpose(-2, -1)  # over the state tokens: [B, H, P, N]
                predicted = weights @ _accumulate(_in_heads_of(queries, state_values))
                sums.residual.append(_energies(values[:, :, 1:], predicted))
            return logits.softmax(-1).to(values.dtype) @ values

        return attend_and_measure

    def result(self) -> Mapping[Stat, Tensor]:
        return self.sums.result()


class FusedProbe:
    """The same statistics without a map, from what fused attention can be made to give."""

    def __init__(self, needs: frozenset[Stat]) -> None:
        self.needs = needs
        self.sums = _Sums()

    def watch(self, state_values: Tensor) -> Attend:
        def attend_and_measure(queries: Tensor, seen: KeysValues) -> Tensor:
            keys, values = seen
            scale = queries.shape[-1] ** -0.5
            sums = self.sums
            sums.layers += 1
            if Stat.MEAN_LOGIT in self.needs:  # mean_j q·k_j = q · mean_j k_j
                mean_key = _accumulate(keys).mean(2, keepdim=True)
                sums.add(Stat.MEAN_LOGIT, (_accumulate(queries) * mean_key).sum(-1).mean(1) * scale)
            if Stat.MEAN_LOGIT_MAP in self.needs:  # Σ_h Q_h K_hᵀ = Q Kᵀ with heads concatenated
                pairs = zip(merge_heads(queries).contiguous(), merge_heads(keys).contiguous(), strict=True)
                logits = torch.stack([product(q, k) for q, k in pairs])
                sums.add(Stat.MEAN_LOGIT_MAP, _accumulate(logits) * (scale / queries.shape[1]))
            if not {Stat.RESIDUAL, Stat.ENTROPY} & self.needs:
                return attend_by_heads(queries, seen)
            says = _in_heads_of(queries, state_values) if Stat.RESIDUAL in self.needs else None
            measured = _method(queries)(queries, seen, says)
            if measured.predicted is not None:
                sums.residual.append(_energies(values[:, :, 1:], measured.predicted))
            if Stat.ENTROPY in self.needs:
                sums.add(Stat.ENTROPY, measured.entropy.mean(1) / _log_patches(keys))
            return measured.out

        return attend_and_measure

    def result(self) -> Mapping[Stat, Tensor]:
        return self.sums.result()


def _method(queries: Tensor) -> Callable[[Tensor, KeysValues, Tensor | None], Measured]:
    """A CPU's caches want tiles. Elsewhere, and in a compiled step, the host must not look at numbers."""
    return by_tiles if queries.device.type == "cpu" and not torch.compiler.is_compiling() else by_moments
