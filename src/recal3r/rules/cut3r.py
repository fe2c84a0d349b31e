"""CUT3R: every frame is written fully."""

from __future__ import annotations

from dataclasses import dataclass

from recal3r.rules.base import Decision, Evidence, Memoryless, Nothing, write_fully


@dataclass(frozen=True)
class Cut3rRule(Memoryless):
    """β = 1."""

    def step(self, evidence: Evidence, memory: Nothing) -> Decision[Nothing]:
        return Decision(write_fully(evidence), memory)
