"""Networks that are ready to run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import torch

from recal3r.errors import ConfigError
from recal3r.model.checkpoint import read_checkpoint
from recal3r.model.config import Cut3rConfig
from recal3r.model.cut3r import Cut3r
from recal3r.model.hub import resolve

Dtype = Literal["auto", "float32", "bfloat16", "float64"]


def load_model(source: str | Path, device: str | torch.device = "auto", dtype: Dtype | torch.dtype = "auto") -> Cut3r:
    """The network whose weights are `source`: a known name such as "cut3r-512", or a .pth or .safetensors file.

    Nothing in the file is executed. `auto`: the accelerator if there is one, and float32.
    """
    checkpoint = read_checkpoint(resolve(source))
    with torch.device("meta"):
        model = Cut3r(checkpoint.config)
    model.load_official_state_dict(checkpoint.tensors, assign=True)
    return _ready(model, device, dtype)


def untrained(
    config: Cut3rConfig,
    seed: int = 0,
    device: str | torch.device = "auto",
    dtype: Dtype | torch.dtype = "auto",
) -> Cut3r:
    """A network of random weights: it runs like any other and knows nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Cut3r(config)
    return _ready(model, device, dtype)


def _ready(model: Cut3r, device: str | torch.device, dtype: Dtype | torch.dtype) -> Cut3r:
    model.requires_grad_(False).eval()
    return model.working_in(_dtype(dtype)).to(_device(device))


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"device={device!r} is no device; use 'auto', 'cpu', 'cuda' or 'cuda:1'.") from error


def _dtype(dtype: Dtype | torch.dtype) -> torch.dtype:
    name = str(dtype).removeprefix("torch.")
    if name not in get_args(Dtype):
        raise ConfigError(f"dtype={name!r} is none a network works in; use one of {', '.join(get_args(Dtype))}.")
    return torch.float32 if name == "auto" else getattr(torch, name)
