"""`recal3r bench`: what a frame costs on this machine, and how near that is to what the machine can do."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from recal3r import __version__
from recal3r.cli.command import Command
from recal3r.errors import ConfigError, OutputError

if TYPE_CHECKING:
    from recal3r.cli.measure import Pushed
    from recal3r.model.cut3r import Cut3r

_BASE = "cut3r"  # the rule that costs nothing, which the others are compared with
_DEFAULT_RULES = ("constant", "ttt3r", "memix(ttt3r)", "ttsa3r", "recal3r", "recal3r-release")
_GIGA, _MEGA = 1e9, 1e6


@dataclasses.dataclass(frozen=True)
class Bench:
    """Measure what a frame costs here: by stage, by rule, and beside the fastest matrix product of this machine."""

    weights: str | None = field(default=None, metadata={"help": "a file or known weights; else the bundled tiny ones"})
    untrained: Literal["small", "full"] | None = field(
        default=None, metadata={"help": "a network of random weights instead: small, or as large as the official one"}
    )
    rule: str = field(default="recal3r", metadata={"help": "the rule of the frame that is looked at stage by stage"})
    rules: tuple[str, ...] = field(default=_DEFAULT_RULES, metadata={"help": f"the rules to compare with {_BASE}"})
    size: tuple[int, int] | None = field(
        default=None, metadata={"help": "width and height in pixels; else what the network was trained for, at 4:3"}
    )
    repeats: int = field(default=10, metadata={"help": "how many frames to time"})
    warmup: int = field(default=2, metadata={"help": "how many frames to push before"})
    device: str = field(default="auto", metadata={"help": "auto, cpu or cuda"})
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = field(
        default="auto", metadata={"help": "what the network works in"}
    )
    threads: int | None = field(default=None, metadata={"help": "how many cores to use; else as PyTorch chooses"})
    clock: Literal["wall", "work"] = field(
        default="wall", metadata={"help": "work: only the time this process computes, on a machine that others use"}
    )
    json: Path | None = field(default=None, metadata={"help": "a file for the same numbers as JSON"})
    overwrite: bool = field(default=False, metadata={"help": "replace that file"})

    def run(self) -> int:
        self._check()
        result = self.measured()
        print_tables(result)
        if self.json is not None:
            try:
                self.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
            except OSError as error:
                raise OutputError(f"{self.json} cannot be written ({error.strerror}); name another file.") from error
        return 0

    def _check(self) -> None:
        for name in ("repeats", "warmup", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"--{name} {value} measures nothing; take at least 1.")
        if self.weights is not None and self.untrained is not None:
            raise ConfigError("--weights and --untrained name two networks; give one of them.")
        if self.clock == "work" and (self.threads != 1 or self.device == "cuda"):
            raise ConfigError(
                "--clock work is right for one thread of a processor alone; add --threads 1 --device cpu."
            )
        if self.json is not None and self.json.exists() and not self.overwrite:
            raise OutputError(f"{self.json} exists; name a new file, or add --overwrite.")

    def measured(self) -> dict[str, Any]:
        import torch

        from recal3r.cli.measure import (
            ALL_OUTPUTS,
            WALL,
            WORK,
            hardware,
            operations,
            picture_size,
            product_peak,
            push_in_turn,
        )
        from recal3r.engine.reconstructor import Reconstructor
        from recal3r.pipeline.timings import peak_memory
        from recal3r.rules import describe, get_rule

        if self.threads is not None:
            torch.set_num_threads(self.threads)
        rules = {_BASE: get_rule(_BASE)} | {name: get_rule(name) for name in (self.rule, *self.rules)}
        clock = {"wall": WALL, "work": WORK}[self.clock]
        model = self._network()
        height, width = picture_size(model.config, self.size)
        work = operations(model.config, height, width)
        precisions = {str(dtype).removeprefix("torch."): dtype for dtype in (model.dtype, model.state_dtype)}
        before = {name: product_peak(model.device, dtype, clock=clock) for name, dtype in precisions.items()}
        reconstructors = {
            f"rule {name}": Reconstructor(model, rule, ALL_OUTPUTS, size=None, health=None)
            for name, rule in rules.items()
        }
        reconstructors["pose only"] = Reconstructor(model, rules[self.rule], ("pose",), size=None, health=None)
        pushed = push_in_turn(reconstructors, height, width, self.repeats, warmup=self.warmup, clock=clock)
        after = {name: product_peak(model.device, dtype, clock=clock) for name, dtype in precisions.items()}
        peaks = {name: max(before[name], after[name]) for name in precisions}
        chosen = pushed[f"rule {self.rule}"]
        on_cuda = model.device.type == "cuda"
        return {
            "recal3r": __version__,
            "hardware": hardware(model.device),
            "network": {
                "weights": self.weights or (f"untrained {self.untrained}" if self.untrained else "tiny"),
                "dtype": str(model.dtype).removeprefix("torch."),
                "config": dataclasses.asdict(model.config),
            },
            "picture": {"width": width, "height": height},
            "repeats": self.repeats,
            "clock": self.clock,
            "peak": {name: peak / _GIGA for name, peak in peaks.items()},
            "rule": describe(rules[self.rule]),
            "stages": stages(chosen, work, peaks, model),
            "rules": {name: compared(pushed, f"rule {name}", f"rule {_BASE}") for name in rules},
            "pose_only": compared(pushed, "pose only", f"rule {self.rule}"),
            "memory": {
                "host_bytes": peak_memory(),
                "device_bytes": torch.cuda.max_memory_allocated(model.device) if on_cuda else None,
            },
        }

    def _network(self) -> Cut3r:
        from recal3r.model.config import CUT3R_512_DPT
        from recal3r.model.load import load_model, prepared, untrained

        if self.untrained is None:
            return load_model(self.weights or "tiny", device=self.device, dtype=self.dtype)
        config = CUT3R_512_DPT if self.untrained == "full" else small_config()
        return prepared(untrained(config, device=self.device, dtype=self.dtype))


def small_config() -> Any:
    """A network that any machine runs several times a second."""
    from recal3r.model.config import Cut3rConfig

    return Cut3rConfig(
        encoder_width=256,
        encoder_depth=6,
        encoder_heads=8,
        decoder_width=192,
        decoder_depth=4,
        image_heads=6,
        state_heads=6,
        state_tokens=192,
        memory_slots=32,
        head="linear",  # most of a small dpt network would be its heads
        image_size=256,
    )


def stages(pushed: Pushed, work: dict[str, float], peaks: dict[str, float], model: Cut3r) -> dict[str, Any]:
    """Seconds, operations, and the share of what the fastest product does in the precision that the stage works in."""
    trunk, heads = (str(dtype).removeprefix("torch.") for dtype in (model.dtype, model.state_dtype))
    rows: dict[str, Any] = {}
    for stage, times in {**pushed.stages, "frame": pushed.frame}.items():
        parts = work if stage == "frame" else {stage: work[stage]}
        at_best = sum(count / peaks[heads if part == "heads" else trunk] for part, count in parts.items())
        count = sum(parts.values())
        rows[stage] = {
            "best_seconds": times.best,
            "median_seconds": times.median,
            "gflop": count / _GIGA,
            "gflop_per_second": count / times.best / _GIGA,
            "share_of_peak": at_best / times.best,
        }
    rows["frame"]["share_of_trunk_peak"] = sum(work.values()) / peaks[trunk] / pushed.frame.best
    return rows


def compared(pushed: dict[str, Pushed], name: str, base: str) -> dict[str, float]:
    one, other = pushed[name].frame, pushed[base].frame
    return {"best_seconds": one.best, "median_seconds": one.median, "against": one.best / other.best}


def print_tables(result: dict[str, Any]) -> None:
    machine, network = result["hardware"], result["network"]
    picture, peaks = result["picture"], result["peak"]
    print(f"{machine['accelerator'] or machine['processor']}, {machine['threads']} of {machine['cores']} cores")
    print(f"torch {machine['torch']}, {machine['instructions']}, {machine['system']}")
    print(f"network {network['weights']}, {network['dtype']}, {picture['width']}x{picture['height']} pixels")
    shown = ", ".join(f"{peak:.0f} GFLOP/s in {name}" for name, peak in peaks.items())
    print(f"fastest matrix product: {shown}")

    print(f"\n{result['rule']}, all outputs, best of {result['repeats']} frames")
    print(f"{'stage':10} {'ms':>9} {'median':>9} {'GFLOP':>9} {'GFLOP/s':>9} {'of peak':>8}")
    for stage, row in result["stages"].items():
        times = f"{1e3 * row['best_seconds']:9.1f} {1e3 * row['median_seconds']:9.1f}"
        rates = f"{row['gflop']:9.2f} {row['gflop_per_second']:9.0f} {row['share_of_peak']:8.0%}"
        print(f"{stage:10} {times} {rates}")

    print(f"\n{'rule':30} {'ms':>9} {'median':>9} {'of ' + _BASE:>9}")
    for name, row in result["rules"].items():
        print(f"{name:30} {1e3 * row['best_seconds']:9.1f} {1e3 * row['median_seconds']:9.1f} {row['against']:9.3f}")
    row = result["pose_only"]
    print(f"\npose only: {1e3 * row['best_seconds']:.1f} ms, {1 / row['against']:.2f} times as fast as all outputs")
    memory = result["memory"]
    host = "unknown here" if memory["host_bytes"] is None else f"{memory['host_bytes'] / _MEGA:.0f} MB"
    device = "" if memory["device_bytes"] is None else f", of the device {memory['device_bytes'] / _MEGA:.0f} MB"
    print(f"peak memory, loading included: {host}{device}")


COMMAND: type[Command] = Bench
