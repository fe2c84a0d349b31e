"""Training on disk: everything needed to go on bit for bit, and the weights alone, small."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recal3r.model.cut3r import Cut3r
from recal3r.model.safetensors_file import write_safetensors
from recal3r.train.recipe import TrainError

CHECKPOINT, WEIGHTS, PLACE = "checkpoint.pt", "weights.safetensors", "resume.json"


@dataclass(frozen=True)
class Place:
    """How far training has come."""

    stage: str
    iteration: int  # done in this stage
    steps: int  # done in all
    seconds: float  # spent in all


def generator_to_json(rng: np.random.Generator) -> str:
    return json.dumps(rng.bit_generator.state)


def generator_from_json(text: str) -> np.random.Generator:
    rng = np.random.default_rng()
    rng.bit_generator.state = json.loads(text)
    return rng


def write_checkpoint(folder: Path, content: dict[str, Any]) -> None:
    unfinished = folder / f".{CHECKPOINT}.part"
    torch.save(content, unfinished)
    unfinished.replace(folder / CHECKPOINT)


def read_checkpoint(folder: Path) -> dict[str, Any]:
    path = folder / CHECKPOINT
    if not path.is_file():
        raise TrainError(f"{folder} holds no {CHECKPOINT} to resume from; begin there without resuming.")
    return torch.load(path, map_location="cpu", weights_only=True)


def write_small(folder: Path, model: Cut3r, place: Place, figures: dict[str, dict[str, float]]) -> None:
    """float16 weights under their official names, and how far they have come: enough to go on from elsewhere."""
    write_safetensors(folder / WEIGHTS, model.config, model.official_state_dict(), dtype=torch.float16, overwrite=True)
    (folder / PLACE).write_text(json.dumps({**asdict(place), "figures": figures}, indent=2) + "\n")
