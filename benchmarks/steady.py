"""Whether late frames cost what early ones do: python benchmarks/steady.py WEIGHTS --frames 1000

Two streams on one network: one that has seen all frames but the last few, one that begins. Their frames are timed in
turn, so that a machine that slows down meanwhile slows both.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

import recal3r
from recal3r.cli.measure import ALL_OUTPUTS, WALL, WORK, picture_size, pictures, push_in_turn
from recal3r.model.load import load_model
from recal3r.pipeline.timings import peak_memory

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("weights")
parser.add_argument("--frames", type=int, default=1000)
parser.add_argument("--timed", type=int, default=20, help="how many frames of each to time")
parser.add_argument("--rule", default="recal3r")
parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"))
parser.add_argument("--clock", choices=("wall", "work"), default="wall", help="work: CPU time, with one thread")
options = parser.parse_args()
model = load_model(Path(options.weights) if Path(options.weights).exists() else options.weights, device="cpu")
height, width = picture_size(model.config, options.size)


def stream(frames: int) -> recal3r.Reconstructor:
    recon = recal3r.Reconstructor(model, options.rule, ALL_OUTPUTS, size=None)
    for picture in islice(pictures(height, width), frames):
        recon.push(picture)
    return recon


streams = {"early": stream(9)}
begun = peak_memory()
streams["late"] = stream(options.frames - options.timed)
clock = {"wall": WALL, "work": WORK}[options.clock]
times = push_in_turn(streams, height, width, options.timed, warmup=1, clock=clock)
early, late = (times[name].frame for name in ("early", "late"))
grown = "" if begun is None else f"; peak memory grew by {((peak_memory() or 0) - begun) / 1e6:.1f} MB"
print(f"{width}x{height}, frame 10: {1e3 * early.best:.2f} ms, median {1e3 * early.median:.2f}")
print(f"frame {options.frames}: {1e3 * late.best:.2f} ms, median {1e3 * late.median:.2f}")
print(f"ratio {late.best / early.best:.3f}, of medians {late.median / early.median:.3f}{grown}")
