"""What an update rule is.

    S_t = S_{t-1} + β_t ⊙ (Ŝ_t - S_{t-1}),   β_t in [0, 1] per token                                              (1)

A rule says β. The engine owns (1): a rule is shown the evidence and can touch nothing.
B batch · N state tokens · P = h·w patches · C decoder width · E encoder width
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor

from recal3r.errors import RuleError
from recal3r.model.probe import Stat


@dataclass(frozen=True)
class Evidence:
    """All that a rule may know of a frame. Float32 or better; samples of a batch are independent streams."""

    state: Tensor  # S_{t-1} [B, N, C]
    candidate: Tensor  # Ŝ_t [B, N, C]
    initial_state: Tensor  # S_0 [B, N, C]
    image_tokens: Tensor  # F, as encoded [B, P, E]
    image_embedding: Tensor  # E(F), as the decoder received it [B, P, C]
    image_readout: Tensor  # Y, as the decoder returned it, normed [B, P, C]
    grid: tuple[int, int]  # (h, w)
    stats: Mapping[Stat, Tensor] = field(default_factory=dict[Stat, Tensor])


M = TypeVar("M", bound=tuple[object, ...])


class Decision(NamedTuple, Generic[M]):
    """How far every token moves, what the rule remembers, and what it saw on the way."""

    rate: Tensor  # β [B, N, 1]
    memory: M
    signals: Mapping[str, Tensor] = {}  # each [B, N], or [B, 1] where it is one number a frame


@runtime_checkable
class UpdateRule(Protocol[M]):
    """A frozen dataclass of hyper-parameters. What it remembers of a stream is a separate value, a NamedTuple of
    tensors [B, ...] (or of other such NamedTuples), so that streams can be saved, forked, batched and reset."""

    @property
    def needs(self) -> frozenset[Stat]:
        """What the decoder has to measure for it, nothing more."""
        ...

    @property
    def memory_type(self) -> type[M]: ...

    def start(self, evidence: Evidence) -> Decision[M]:
        """The first frame of a segment."""
        ...

    def step(self, evidence: Evidence, memory: M) -> Decision[M]:
        """Every later frame."""
        ...


def is_rule(thing: object) -> bool:
    return not isinstance(thing, type) and isinstance(thing, UpdateRule)


class Nothing(NamedTuple):
    """The memory of a rule that remembers nothing."""


class Memoryless:
    """What rules that remember nothing share."""

    @property
    def needs(self) -> frozenset[Stat]:
        return frozenset()

    @property
    def memory_type(self) -> type[Nothing]:
        return Nothing

    def start(self, evidence: Evidence) -> Decision[Nothing]:
        return Decision(write_fully(evidence), Nothing())


def write_fully(evidence: Evidence) -> Tensor:
    """β = 1: what the first frame of a segment does."""
    return torch.ones_like(evidence.candidate[..., :1])


def require(holds: bool, rule: object, name: str, condition: str) -> None:
    """A parameter of a rule that breaks its condition is an error that names it."""
    if not holds:
        raise RuleError(f"{type(rule).__name__} was given {name}={getattr(rule, name)!r}; {name} must be {condition}.")


def require_number(rule: object, name: str, low: float = -math.inf, high: float = math.inf) -> None:
    """A finite number from `low` to `high`."""
    value = getattr(rule, name)
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    bounds = {(0, 1): " between 0 and 1", (-math.inf, math.inf): ""}.get((low, high), f" from {low} to {high}")
    require(number and low <= value <= high, rule, name, "a finite number" + bounds)


def require_switch(rule: object, *names: str) -> None:
    for name in names:
        require(isinstance(getattr(rule, name), bool), rule, name, "true or false")
