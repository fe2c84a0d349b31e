"""What a frame costs here: seconds, operations, and what this machine can do at best.

Frames are pushed through several reconstructors in turn, so that a machine that slows down slows all of them. The
best of several times is what the machine can do; the median is what one gets while others use it too.
"""

from __future__ import annotations

import functools
import os
import platform
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from recal3r.engine.outputs import EVERYTHING
from recal3r.engine.reconstructor import Reconstructor
from recal3r.errors import ConfigError
from recal3r.model.config import Cut3rConfig
from recal3r.model.cut3r import Cut3r, View
from recal3r.model.heads import Head
from recal3r.model.onednn import can_pack
from recal3r.model.outline import outline
from recal3r.model.packed import PackedLinear
from recal3r.types import Image

Clock = Callable[[], float]
WALL: Clock = time.perf_counter
WORK: Clock = time.process_time
"""Counts only while this process computes: for a machine that others use too. Right with one thread alone."""

ALL_OUTPUTS = tuple(name for name in EVERYTHING if name != "reliability")  # which rules without it cannot give
STAGES = ("encode", "decode", "heads", "rest")  # rest: picture in, pose memory, rule, state written, arrays out
_PRODUCTS = ((768, 1024, 4096), (2048, 1024, 4096), (768, 4096, 1024))  # tokens, inputs, outputs


# -- what there is to do ---------------------------------------------------------------------------------------------


def operations(config: Cut3rConfig, height: int, width: int) -> dict[str, float]:
    """Floating point operations of a frame with all outputs, by stage; of products and convolutions, as is usual.

    Counted by walking the plain network on tensors that have a shape and nothing else.
    """
    with outline():
        model = Cut3r(config).requires_grad_(requires_grad=False).eval()
        view = View(torch.empty(1, 3, height, width))
    with torch.no_grad():
        tokens, encoding = _counted(lambda: model.encode(view))
        pose, reading = _counted(lambda: model.pose_memory.read(tokens.summary, model.initial_memory()))
        decoded, decoding = _counted(lambda: model.decode(tokens, model.initial_state(), pose))
        _, heads = _counted(lambda: model.read_out(tokens, decoded, frozenset(Head)))
        _, writing = _counted(lambda: model.pose_memory.write(tokens.summary, decoded.pose, model.initial_memory()))
    return {"encode": encoding, "decode": decoding, "heads": heads, "rest": reading + writing}


def _counted(work: Callable[[], Any]) -> tuple[Any, float]:
    with FlopCounterMode(display=False) as counter:
        result = work()
    return result, float(counter.get_total_flops())


# -- what the machine can do -----------------------------------------------------------------------------------------


def product_peak(device: torch.device, dtype: torch.dtype, seconds: float = 1.0, clock: Clock = WALL) -> float:
    """Operations per second of the fastest matrix product of this network's sizes."""
    best = 0.0
    with torch.inference_mode():
        for tokens, inputs, outputs in _PRODUCTS:
            x = torch.randn(tokens, inputs, device=device).to(dtype)
            linear = nn.Linear(inputs, outputs, device=device).to(dtype)
            product = PackedLinear(linear) if device.type == "cpu" and can_pack(dtype) else linear
            call = functools.partial(product, x)
            call()
            until = time.perf_counter() + seconds / len(_PRODUCTS)
            while time.perf_counter() < until:
                best = max(best, 2 * tokens * inputs * outputs / _seconds(call, device, clock))
    return best


def hardware(device: torch.device) -> dict[str, Any]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "accelerator": torch.cuda.get_device_name(device) if device.type == "cuda" else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # only Linux has it
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


# -- what it does ----------------------------------------------------------------------------------------------------


class Times(NamedTuple):
    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Pushed(NamedTuple):
    """Times of whole frames, and of their stages."""

    frame: Times
    stages: Mapping[str, Times]


def pictures(height: int, width: int, seed: int = 0) -> Iterator[Image]:
    """A window that wanders over one random picture, for ever. uint8 [H, W, 3]"""
    cells = np.random.default_rng(seed).integers(0, 256, (height // 8 + 9, width // 8 + 9, 3), dtype=np.uint8)
    whole = cells.repeat(8, axis=0).repeat(8, axis=1)
    for step in range(1 << 62):
        top, left = step % 57, (3 * step) % 57
        yield np.ascontiguousarray(whole[top : top + height, left : left + width])


def push_in_turn(
    reconstructors: Mapping[str, Reconstructor],
    height: int,
    width: int,
    repeats: int,
    *,
    warmup: int = 2,
    clock: Clock = WALL,
) -> dict[str, Pushed]:
    """Every reconstructor sees the same frames; the first `warmup` do not count."""
    frames = pictures(height, width)
    times: dict[str, list[dict[str, float]]] = {name: [] for name in reconstructors}
    for at in range(warmup + repeats):
        frame = next(frames)
        for name, reconstructor in reconstructors.items():
            with stages_of(reconstructor.model, clock) as stages:
                whole = _seconds(functools.partial(reconstructor.push, frame), reconstructor.model.device, clock)
            if at >= warmup:
                rest = whole - sum(stages.values())
                times[name].append({"frame": whole, "rest": rest, **{stage: stages[stage] for stage in STAGES[:-1]}})
    return {
        name: Pushed(
            Times(tuple(one["frame"] for one in taken)),
            {stage: Times(tuple(one[stage] for one in taken)) for stage in STAGES},
        )
        for name, taken in times.items()
    }


@contextmanager
def stages_of(model: Cut3r, clock: Clock = WALL) -> Generator[Mapping[str, float]]:
    """Seconds of the network's three large parts while it is watched."""
    seconds: defaultdict[str, float] = defaultdict(float)

    def watch(stage: str, module: nn.Module) -> tuple[Any, Any]:
        def begin(*_: object) -> None:
            seconds[stage] -= _now(model.device, clock)

        def end(*_: object) -> None:
            seconds[stage] += _now(model.device, clock)

        return module.register_forward_pre_hook(begin), module.register_forward_hook(end)

    parts = {"encode": model.image_encoder, "decode": model.decoder, "heads": model.heads}
    hooks = [hook for stage, module in parts.items() for hook in watch(stage, module)]
    try:
        yield seconds
    finally:
        for hook in hooks:
            hook.remove()


def _seconds(call: Callable[[], object], device: torch.device, clock: Clock) -> float:
    begun = _now(device, clock)
    call()
    return _now(device, clock) - begun


def _now(device: torch.device, clock: Clock) -> float:
    """The time, when all that was asked of the device is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return clock()


def picture_size(config: Cut3rConfig, size: Sequence[int] | None) -> tuple[int, int]:
    """(height, width) of the pictures to measure with: as given, or what the network was trained for, at 4:3."""
    side, patch = config.image_size, config.patch_size
    width, height = size if size is not None else (side, side if config.square else 3 * side // 4 // patch * patch)
    if width < patch or height < patch or width % patch or height % patch:
        raise ConfigError(f"A picture of {width}x{height} pixels is not cut into whole patches of {patch}x{patch}.")
    return height, width
