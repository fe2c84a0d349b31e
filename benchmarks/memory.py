"""The most memory that a process holds, loading included: python benchmarks/memory.py WEIGHTS

Each precision runs in a process of its own. Nothing is reported of one that gives other numbers than the plain path.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from parity import Arrays, outputs_of, stream_on, verdict

from recal3r.cli.measure import picture_size
from recal3r.model.load import load_model
from recal3r.pipeline.timings import peak_memory

PATHS = ("plain", "float32", "bfloat16")


def child(weights: Path, size: list[int] | None, path: str, file: Path) -> None:
    """Prints its peak, and leaves its predictions in `file`."""
    fast = path != "plain"
    model = load_model(weights, device="cpu", dtype=path if fast else "float32", fast=fast)
    found = outputs_of(stream_on(model, fast=fast), picture_size(model.config, size))
    print(peak_memory())
    np.savez(file, **{f"{at}.{name}": array for at, frame in enumerate(found) for name, array in frame.items()})


def kept(file: Path) -> list[Arrays]:
    frames: dict[str, dict[str, np.ndarray]] = {}
    with np.load(file) as arrays:
        for key in arrays.files:
            at, _, name = key.partition(".")
            frames.setdefault(at, {})[name] = arrays[key]
    return list(frames.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("weights", type=Path, help="of benchmarks/seeded.py, or any other")
    parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--child", nargs=2, metavar=("PATH", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.child:
        child(options.weights, options.size, options.child[0], Path(options.child[1]))
        return 0
    refused = 0
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, list[Arrays]] = {}
        for path in PATHS:
            file = Path(folder) / f"{path}.npz"
            command = [sys.executable, __file__, *sys.argv[1:], "--child", path, str(file)]
            peak = int(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
            found[path] = kept(file)
            same, worst = verdict(found[path], found["plain"], "bfloat16" if path == "bfloat16" else "float32")
            if same:
                print(f"{path:9} {peak / 1e9:.2f} GB", flush=True)
            else:
                refused = 1
                print(f"{path:9} disagrees with the plain path, nothing is reported: {worst}", flush=True)
    return refused


if __name__ == "__main__":
    sys.exit(main())
