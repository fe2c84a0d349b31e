"""What is trained, in which order, for how long."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from recal3r.errors import Recal3rError
from recal3r.model.config import Cut3rConfig


class TrainError(Recal3rError):
    """A recipe, a folder of clips or a checkpoint with which no training can begin or go on."""


@dataclass(frozen=True)
class Helpers:
    """Weights of losses that show the way and are then taken away: each falls to zero at `until` of its stage."""

    matching: float = 0.0  # which patch of the other picture shows the same place, from encoder tokens
    attention: float = 0.0  # the same question to two heads of the decoder's middle layers
    flow: float = 0.0  # optical and scene flow from the decoder's image tokens
    passing: float = 0.0  # the state after the first frame is that frame's embedding
    until: float = 0.7

    def left(self, progress: float) -> float:
        """What is left of them at a moment of the stage in [0, 1]."""
        return max(0.0, 1.0 - progress / self.until) if self.until > 0 else 0.0


NO_HELP = Helpers()


@dataclass(frozen=True)
class Stage:
    """One kind of lesson. Streams are as long as one of `horizons`, drawn for each; gradients reach back over `window`
    frames."""

    name: str
    kind: Literal["encoder", "pairs", "streams"]
    iterations: int
    batch: int
    learning_rate: float
    horizons: tuple[int, ...] = (2,)
    window: int = 2
    helpers: Helpers = field(default_factory=Helpers)
    recall_starts_as_pose_token: bool = False
    """The pose memory has learned nothing yet: it begins by recalling the learned pose token."""
    warmup: int = 50
    validate_every: int = 1000

    def __post_init__(self) -> None:
        uneven = [horizon for horizon in self.horizons if horizon < self.window or horizon % self.window]
        if self.kind == "streams" and uneven:
            raise TrainError(
                f"Stage {self.name!r} cuts streams of {uneven[0]} frames into windows of {self.window}; "
                "use a window that divides every horizon."
            )
        if self.iterations < 1 or self.batch < 1:
            raise TrainError(f"Stage {self.name!r} has no iterations or an empty batch; use 1 or more of each.")


@dataclass(frozen=True)
class Recipe:
    name: str
    network: Cut3rConfig
    stages: tuple[Stage, ...]
    seed: int = 1
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.03
    clip: float = 1.0
    log_every: int = 20
    checkpoint_every: int = 500


TINY_NETWORK = Cut3rConfig(
    encoder_width=160,
    encoder_depth=5,
    encoder_heads=5,
    decoder_width=120,
    decoder_depth=6,
    image_heads=5,
    state_heads=5,
    state_tokens=96,
    memory_slots=8,
    head="linear",
    image_size=128,
    patch_size=16,
    mlp_ratio=2,
    ray_depth=1,
    ray_heads=5,
)
"""7.6 M parameters, a third of them the pose memory's, which works at twice the decoder's width. Pictures of 128×96 are
48 tokens, as few as a CPU wants."""

TINY = Recipe(
    name="tiny",
    network=TINY_NETWORK,
    stages=(
        Stage("encoder", "encoder", 2000, 128, 1.2e-3, helpers=Helpers(matching=1.0, until=1e9)),
        Stage("pairs", "pairs", 5000, 128, 8e-4, helpers=Helpers(matching=0.5, attention=0.3, flow=1.0, until=0.9)),
        Stage(
            "streams-2",
            "streams",
            1500,
            128,
            6e-4,
            helpers=Helpers(attention=0.2, passing=1.0, until=0.6),
            recall_starts_as_pose_token=True,
        ),
        Stage("streams-4", "streams", 2000, 128, 6e-4, horizons=(4,), window=4),
        Stage("streams-8", "streams", 3000, 128, 6e-4, horizons=(8,), window=8),
        Stage("streams-16", "streams", 1500, 128, 5e-4, horizons=(16,), window=16),
        Stage("streams-32", "streams", 2500, 128, 5e-4, horizons=(32,), window=16),
        Stage("streams-96", "streams", 6000, 128, 5e-4, horizons=(96,), window=16),
    ),
)

TINY_CPU = Recipe(
    name="tiny-cpu",
    network=TINY_NETWORK,
    stages=(
        Stage("encoder", "encoder", 800, 32, 1.2e-3, helpers=Helpers(matching=1.0, until=1e9), validate_every=200),
        Stage(
            "pairs",
            "pairs",
            3200,
            32,
            8e-4,
            helpers=Helpers(matching=0.5, attention=0.3, flow=1.0, until=0.9),
            validate_every=300,
        ),
        Stage(
            "streams-2",
            "streams",
            300,
            32,
            6e-4,
            helpers=Helpers(attention=0.2, passing=1.0, until=0.6),
            recall_starts_as_pose_token=True,
            validate_every=200,
        ),
        Stage("streams-4", "streams", 330, 32, 6e-4, horizons=(4,), window=4, validate_every=200),
        Stage("streams-16", "streams", 150, 32, 6e-4, horizons=(16,), window=8, validate_every=100),
        Stage("streams-32", "streams", 560, 16, 3e-4, horizons=(32,), window=8, validate_every=200),
        Stage(
            "streams-8-96",
            "streams",
            1200,
            32,
            7e-4,
            horizons=(8, 8, 8, 8, 8, 32, 96),
            window=8,
            warmup=30,
            validate_every=100,
        ),
    ),
    checkpoint_every=100,
)
"""The same network for those who have a CPU core and an evening: an order of magnitude fewer frames."""

RECIPES = {recipe.name: recipe for recipe in (TINY, TINY_CPU)}
