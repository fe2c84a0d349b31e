"""The fast path beside the plain one, and rules beside cut3r: python benchmarks/speed.py WEIGHTS

All ratios are of times taken within this run; rules take turns. The plain path goes first, before the fast network is
loaded: that changes how the whole process keeps memory. Nothing is reported where the two paths disagree.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import torch
from parity import outputs_of, stream_on, verdict

import recal3r
from recal3r.cli.bench import stages
from recal3r.cli.measure import (
    WALL,
    WORK,
    hardware,
    operations,
    picture_size,
    pictures,
    product_peak,
    push_in_turn,
)
from recal3r.model.load import load_model

RULES = ("cut3r", "recal3r", "ttsa3r", "memix(ttt3r)")

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("weights", type=Path, help="of benchmarks/seeded.py, or any other")
parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32", help="of the fast path")
parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"))
parser.add_argument("--repeats", type=int, default=3)
parser.add_argument("--threads", type=int)
parser.add_argument("--clock", choices=("wall", "work"), default="wall", help="work: CPU time, with --threads 1")
parser.add_argument("--json", type=Path)
options = parser.parse_args()
if options.clock == "work" and options.threads != 1:
    parser.error("--clock work is right for one thread alone; add --threads 1")
if options.threads:
    torch.set_num_threads(options.threads)
clock = {"wall": WALL, "work": WORK}[options.clock]

plain = stream_on(load_model(options.weights, device="cpu", dtype="float32", fast=False), fast=False)
height, width = size = picture_size(plain.model.config, options.size)
reference = outputs_of(plain, size)
pushed = push_in_turn({"plain": plain}, height, width, options.repeats, warmup=0, clock=clock)
del plain

fast = load_model(options.weights, device="cpu", dtype=options.dtype)
contestants = {"recal3r": stream_on(fast, fast=True)}
same, worst = verdict(outputs_of(contestants["recal3r"], size), reference, options.dtype)
print(f"{width}x{height}, {options.dtype} against plain float32:")
print("".join(f"  {name:20} {value:.2e}\n" for name, value in worst.items()), flush=True)
if not same:
    sys.exit("The two paths disagree: nothing is reported of their speed.")


contestants |= {rule: stream_on(fast, fast=True, rule=rule) for rule in RULES if rule != "recal3r"}
contestants["pose only"] = recal3r.Reconstructor(fast, "recal3r", ("pose",), size=None, health=None)
for recon in list(contestants.values())[1:]:  # the one that was compared has seen frames
    recon.push(next(pictures(height, width)))
precisions = {str(dtype).removeprefix("torch."): dtype for dtype in (fast.dtype, fast.state_dtype)}


def measured_peaks() -> dict[str, float]:
    return {name: product_peak(fast.device, dtype, clock=clock) for name, dtype in precisions.items()}


before = measured_peaks()
pushed |= push_in_turn(contestants, height, width, options.repeats, warmup=0, clock=clock)
after = measured_peaks()
peaks = {name: max(before[name], after[name]) for name in before}
rows = stages(pushed["recal3r"], operations(fast.config, height, width), peaks, fast)
best = {name: times.frame.best for name, times in pushed.items()}
result = {
    "hardware": hardware(fast.device),
    "clock": options.clock,
    "dtype": options.dtype,
    "picture": {"width": width, "height": height},
    "parity": worst,
    "peak_gflops": {name: peak / 1e9 for name, peak in peaks.items()},
    "seconds": {name: times.frame.seconds for name, times in pushed.items()},
    "stages": rows,
    "against_plain": best["plain"] / best["recal3r"],
    "rules_against_cut3r": {rule: best[rule] / best["cut3r"] for rule in RULES},
    "pose_only_faster": best["recal3r"] / best["pose only"],
}
machine = result["hardware"]
print(f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores, torch {machine['torch']}")
print("peak: " + ", ".join(f"{peak / 1e9:.0f} GFLOP/s in {name}" for name, peak in peaks.items()))
for stage, row in rows.items():
    rate = f"{row['gflop_per_second']:6.0f} GFLOP/s"
    print(f"  {stage:8} {row['best_seconds']:7.3f} s  {rate}  {row['share_of_peak']:4.0%} of what its precision can do")
print(f"  frame: {rows['frame']['share_of_trunk_peak']:.0%} of the {options.dtype} peak\n")
print(f"plain / fast            {result['against_plain']:.2f}")
for rule, ratio in result["rules_against_cut3r"].items():
    print(f"{rule:12} / cut3r    {ratio:.3f}")
print(f"all outputs / pose only {result['pose_only_faster']:.2f}")
if options.json:
    options.json.write_text(json.dumps(result, indent=2) + "\n")
