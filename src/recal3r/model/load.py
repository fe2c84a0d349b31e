"""Networks that are ready to run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import torch

from recal3r.errors import ConfigError
from recal3r.model.allocator import keep_memory
from recal3r.model.checkpoint import read_checkpoint
from recal3r.model.config import Cut3rConfig
from recal3r.model.cut3r import Cut3r
from recal3r.model.hub import resolve
from recal3r.model.onednn import can_pack
from recal3r.model.outline import outline
from recal3r.model.packed import fast_in_bfloat16

Dtype = Literal["auto", "float32", "bfloat16", "float64"]

LARGE = 100_000_000
"""Weights from which on multiplying takes most of the time; smaller networks gain nothing from fewer bits."""


def load_model(
    source: str | Path,
    device: str | torch.device = "auto",
    dtype: Dtype | torch.dtype = "auto",
    *,
    fast: bool = True,
) -> Cut3r:
    """The network whose weights are `source`: a known name such as "cut3r-512", or a .pth or .safetensors file.

    Nothing in the file is executed. `auto`: the accelerator if there is one; bfloat16 for a large network where the
    hardware is fast at it, otherwise float32. With `fast`, on a CPU, layers are packed for inference: weights can then
    not be read back.
    """
    checkpoint = read_checkpoint(resolve(source))
    where = _device(device)
    with outline():
        model = Cut3r(checkpoint.config)
    model.working_in(_dtype(dtype, where, model))
    large = _large(model)  # packed weights cannot be counted
    entries = model.official_entries(checkpoint.shapes)
    dtypes = {name: weight.dtype for name, weight in model.state_dict().items()}
    model.take(
        lambda name: checkpoint.tensors[entries[name]].to(where, dtypes[name]),
        pack=fast and _packs(model.dtype, where),
    )
    model.requires_grad_(requires_grad=False).eval()
    return _laid_out(model, large=large) if fast else model


def prepared(model: Cut3r) -> Cut3r:
    """Changes a network for fast inference where it is: layers and maps are laid out as its device wants them."""
    large = _large(model)
    return _laid_out(model.pack() if _packs(model.dtype, model.device) else model, large=large)


def _packs(dtype: torch.dtype, device: torch.device) -> bool:
    return device.type == "cpu" and can_pack(dtype)


def _laid_out(model: Cut3r, *, large: bool) -> Cut3r:
    if model.device.type == "cpu" and large:
        keep_memory()
    model.heads.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  # as the documentation has it
    return model


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
    where = _device(device)
    return model.requires_grad_(requires_grad=False).eval().working_in(_dtype(dtype, where, model)).to(where)


def _device(device: str | torch.device) -> torch.device:
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise ConfigError(f"device={device!r} is no device; use 'auto', 'cpu', 'cuda' or 'cuda:1'.") from error


def _dtype(dtype: Dtype | torch.dtype, device: torch.device, model: Cut3r) -> torch.dtype:
    name = str(dtype).removeprefix("torch.")
    if name not in get_args(Dtype):
        raise ConfigError(f"dtype={name!r} is none a network works in; use one of {', '.join(get_args(Dtype))}.")
    if name != "auto":
        return getattr(torch, name)
    return torch.bfloat16 if _large(model) and fast_in_bfloat16(device) else torch.float32


def _large(model: Cut3r) -> bool:
    return sum(weight.numel() for weight in model.parameters()) >= LARGE
