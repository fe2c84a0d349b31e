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

    def at(self, progress: float) -> Helpers:
        """What is left of them at a moment of the stage in [0, 1]."""
        left = max(0.0, 1.0 - progress / self.until) if self.until > 0 else 0.0
        return Helpers(self.matching * left, self.attention * left, self.flow * left, self.passing * left, self.until)


@dataclass(frozen=True)
class Stage:
    """One kind of lesson. Streams are `horizon` frames long; gradients reach back over `window` of them."""

    name: str
    kind: Literal["encoder", "pairs", "streams"]
    iterations: int
    batch: int
    learning_rate: float
    horizon: int = 2
    window: int = 2
    helpers: Helpers = field(default_factory=Helpers)
    recall_starts_as_pose_token: bool = False
    """The pose memory has learned nothing yet: it begins by recalling the learned pose token."""
    warmup: int = 50
    validate_every: int = 500

    def __post_init__(self) -> None:
        if self.kind == "streams" and (self.window > self.horizon or self.horizon % self.window):
            raise TrainError(
                f"Stage {self.name!r} cuts streams of {self.horizon} frames into windows of {self.window}; "
                "use a window that divides the horizon."
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
    checkpoint_every: int = 200


TINY_NETWORK = Cut3rConfig(
    encoder_width=192,
    encoder_depth=4,
    encoder_heads=6,
    decoder_width=128,
    decoder_depth=4,
    image_heads=4,
    state_heads=4,
    state_tokens=64,
    memory_slots=8,
    head="linear",
    image_size=64,
    patch_size=8,
    mlp_ratio=2,
    ray_depth=1,
    ray_heads=6,
)
"""7.2 M parameters: more than half of them are the pose memory's, which works at twice the decoder's width."""

TINY = Recipe(
    name="tiny",
    network=TINY_NETWORK,
    stages=(
        Stage("encoder", "encoder", 600, 48, 1.2e-3, helpers=Helpers(matching=1.0, until=1e9)),
        Stage("pairs", "pairs", 1500, 48, 8e-4, helpers=Helpers(matching=0.5, attention=0.3, flow=1.0, until=0.9)),
        Stage(
            "streams-2",
            "streams",
            400,
            32,
            6e-4,
            helpers=Helpers(attention=0.2, passing=1.0, until=0.6),
            recall_starts_as_pose_token=True,
        ),
        Stage("streams-4", "streams", 300, 24, 6e-4, horizon=4, window=4),
        Stage("streams-8", "streams", 650, 16, 6e-4, horizon=8, window=8),
        Stage("streams-16", "streams", 550, 16, 3e-4, horizon=16, window=8),
        Stage("streams-32", "streams", 2000, 16, 5e-4, horizon=32, window=8),
        Stage("streams-96", "streams", 4000, 16, 4e-4, horizon=96, window=8),
    ),
)

RECIPES = {recipe.name: recipe for recipe in (TINY,)}
