"""The baseline nobody publishes: every token moves by the same fixed share."""

from __future__ import annotations

from dataclasses import dataclass

from recal3r.rules.base import Decision, Evidence, Memoryless, Nothing, require_number, write_fully


@dataclass(frozen=True)
class Constant(Memoryless):
    """β = rate."""

    rate: float = 0.1

    def __post_init__(self) -> None:
        require_number(self, "rate", 0, 1)

    def step(self, evidence: Evidence, memory: Nothing) -> Decision[Nothing]:
        return Decision(self.rate * write_fully(evidence), memory)
