"""The smallest recipe that has every kind of stage."""

import dataclasses

from recal3r.train.recipe import TINY_NETWORK, Helpers, Recipe, Stage

SMALLEST = dataclasses.replace(
    TINY_NETWORK,
    image_size=64,
    patch_size=8,
    state_tokens=64,
    encoder_width=32,
    encoder_depth=2,
    encoder_heads=2,
    decoder_width=32,
    decoder_depth=4,
    image_heads=2,
    state_heads=2,
    ray_heads=2,
    memory_slots=4,
)
SHORT = Recipe(
    name="short",
    network=SMALLEST,
    stages=(
        Stage("encoder", "encoder", 3, 2, 1e-3, helpers=Helpers(matching=1.0), warmup=2),
        Stage("pairs", "pairs", 3, 2, 1e-3, helpers=Helpers(matching=1.0, attention=1.0, flow=1.0), warmup=2),
        Stage("two", "streams", 3, 2, 1e-3, helpers=Helpers(attention=1.0, passing=1.0), warmup=2),
        Stage("long", "streams", 5, 3, 1e-3, horizons=(8,), window=2, warmup=2),
    ),
    log_every=1,
    checkpoint_every=100,
)
