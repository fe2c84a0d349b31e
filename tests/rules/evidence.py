"""Made-up evidence for rules."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from recal3r.model.probe import Stat
from recal3r.rules.base import Evidence

B, N, C, E, L = 3, 37, 16, 20, 4


def evidence(seed: int, grid: tuple[int, int] = (3, 5), batch: int = B, dtype: torch.dtype = torch.float32) -> Evidence:
    """Random, with all statistics in the ranges that networks give."""
    draw = torch.Generator().manual_seed(seed)
    patches = grid[0] * grid[1]

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype)

    initial = normal(1, N, C).expand(batch, -1, -1)
    return Evidence(
        state=initial + 0.7 * normal(batch, N, C),
        candidate=normal(batch, N, C),
        initial_state=initial,
        image_tokens=normal(batch, patches, E),
        image_embedding=normal(batch, patches, C),
        image_readout=normal(batch, patches, C),
        grid=grid,
        stats={
            Stat.MEAN_LOGIT: normal(batch, N),
            Stat.MEAN_LOGIT_MAP: normal(batch, N, 1 + patches),
            Stat.ENTROPY: normal(batch, N).sigmoid(),
            Stat.RESIDUAL: 0.1 + normal(batch, L, 2).square(),
        },
    )


def sample(given: Evidence, at: int) -> Evidence:
    """The evidence of one stream of the batch, alone."""
    return _mapped(given, lambda tensor, _: tensor[at : at + 1])


def permuted(given: Evidence, order: Tensor) -> Evidence:
    """The same evidence with the state tokens in another order."""
    of_tokens = {"state", "candidate", "initial_state", Stat.MEAN_LOGIT, Stat.MEAN_LOGIT_MAP, Stat.ENTROPY}
    return _mapped(given, lambda tensor, name: tensor[:, order] if name in of_tokens else tensor)


def _mapped(given: Evidence, function: Any) -> Evidence:
    tensors = {
        field.name: function(getattr(given, field.name), field.name)
        for field in dataclasses.fields(given)
        if isinstance(getattr(given, field.name), Tensor)
    }
    return dataclasses.replace(
        given, **tensors, stats={stat: function(value, stat) for stat, value in given.stats.items()}
    )


def tensors_of(given: Evidence) -> list[Tensor]:
    fields = [getattr(given, field.name) for field in dataclasses.fields(given)]
    return [value for value in fields if isinstance(value, Tensor)] + list(given.stats.values())
