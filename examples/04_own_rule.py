"""An update rule of one's own: write half as far after every look that taught little.

Run it:  python examples/04_own_rule.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

import recal3r
from recal3r.model.config import Cut3rConfig
from recal3r.model.load import untrained
from recal3r.model.probe import Stat
from recal3r.rules import Decision, Evidence
from recal3r.rules.base import write_fully
from recal3r.sources.synthetic import SyntheticWorld


class Patience(NamedTuple):
    patience: Tensor  # [B, N], 1 for a token that is still curious


@dataclass(frozen=True)
class Bored:
    """β = floor + (1 - floor) · patience, where patience decays while a token is poorly aligned with the frame."""

    floor: float = 0.02
    decay: float = 0.8

    @property
    def needs(self) -> frozenset[Stat]:
        return frozenset({Stat.MEAN_LOGIT})

    @property
    def memory_type(self) -> type[Patience]:
        return Patience

    def start(self, evidence: Evidence) -> Decision[Patience]:
        rate = write_fully(evidence)
        return Decision(rate, Patience(rate[..., 0]))

    def step(self, evidence: Evidence, memory: Patience) -> Decision[Patience]:
        aligned = evidence.stats[Stat.MEAN_LOGIT].sigmoid()
        patience = torch.where(aligned > 0.5, torch.ones_like(aligned), self.decay * memory.patience)
        rate = self.floor + (1 - self.floor) * patience
        return Decision(rate[..., None], Patience(patience), {"patience": patience})


def main() -> None:
    recal3r.rules.register("bored", Bored)  # now strings, sessions and the command line know it
    model = untrained(
        Cut3rConfig(
            encoder_width=128,
            encoder_depth=2,
            encoder_heads=4,
            decoder_width=64,
            decoder_depth=2,
            image_heads=4,
            state_heads=4,
            state_tokens=48,
            memory_slots=8,
            head="linear",
            image_size=128,
        )
    )
    recon = recal3r.Reconstructor(model, "memix(bored(decay=0.5))", outputs=("pose", "learning_rate"))
    for prediction in recon.stream(frame.image for frame in SyntheticWorld(seed=1).frames(6)):
        if prediction.learning_rate is not None:
            print(f"frame {prediction.index}: mean rate {prediction.learning_rate.mean():.3f}")


if __name__ == "__main__":
    main()
