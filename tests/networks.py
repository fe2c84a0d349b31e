"""Networks for tests: the seeded ones that the golden arrays were recorded with, and the smallest there is."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import torch

from data.seeded import seeded_parameter
from recal3r.model.config import CUT3R_224_LINEAR, CUT3R_512_DPT, Cut3rConfig
from recal3r.model.cut3r import Cut3r
from recal3r.model.outline import outline

DATA = Path(__file__).parent / "data"

MINI = {
    "encoder_width": 128,
    "encoder_depth": 3,
    "encoder_heads": 4,
    "decoder_width": 64,
    "decoder_depth": 4,
    "image_heads": 4,
    "state_heads": 4,
    "state_tokens": 48,
    "memory_slots": 16,
    "image_size": 64,
}
CONFIGS = {
    "mini-linear": Cut3rConfig(**MINI, head="linear"),
    "mini-dpt": Cut3rConfig(**MINI, head="dpt"),
    "cut3r_512_dpt": CUT3R_512_DPT,
    "cut3r_224_linear": CUT3R_224_LINEAR,
}
SMALLEST = Cut3rConfig(
    encoder_width=32,
    encoder_depth=1,
    encoder_heads=2,
    decoder_width=32,
    decoder_depth=2,
    image_heads=2,
    state_heads=2,
    state_tokens=8,
    memory_slots=4,
    ray_heads=2,
    ray_depth=1,
    image_size=32,
    head="linear",
)
"""The smallest network that has every part: for tests of what a stream keeps, not of how well it sees."""


def _seeded(name: str) -> dict[str, torch.Tensor]:
    shapes = json.loads((DATA / f"parameters_{name}.json").read_text())
    return {entry: torch.from_numpy(seeded_parameter(entry, tuple(shape))) for entry, shape in shapes.items()}


_remembered = functools.cache(_seeded)  # for the small networks, which many tests rebuild


def seeded_network(name: str, dtype: torch.dtype = torch.float32) -> Cut3r:
    """The network of `CONFIGS` called `name`, with the weights that the golden arrays were recorded with."""
    with outline():
        network = Cut3r(CONFIGS[name])
    if name.startswith("mini"):
        weights = {entry: tensor.clone() for entry, tensor in _remembered(name).items()}
    else:
        weights = _seeded(name)
    network.load_official_state_dict(weights, assign=True)
    return network.working_in(dtype).eval()
