"""What runs need: weights in a file, and pictures in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from data.seeded import seeded_frames
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.config import Cut3rConfig
from recal3r.model.load import untrained

# Smaller than the other tests' networks: what runs do around it is what is looked at here.
SMALL = Cut3rConfig(
    encoder_width=64,
    encoder_depth=1,
    encoder_heads=4,
    decoder_width=48,
    decoder_depth=2,
    image_heads=4,
    state_heads=4,
    state_tokens=24,
    memory_slots=8,
    image_size=64,
    head="linear",
)


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "small.safetensors"
    write_safetensors(path, SMALL, untrained(SMALL, device="cpu", dtype="float32").official_state_dict())
    return path


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 24, of 64x48."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, frame in enumerate(seeded_frames(24, 48, 64)):
        Image.fromarray(frame).save(folder / f"{number:03d}.png")
    return folder
