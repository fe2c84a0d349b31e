"""How long one waits: for help, and for the first prediction: python benchmarks/start.py [WEIGHTS]

The best of several starts; the first one, which may have to read files from the disk, counts as any other.
"""

from __future__ import annotations

import subprocess
import sys
import time

FIRST = """
import sys
import numpy as np
import recal3r
model = recal3r.load_model(sys.argv[1])
side = model.config.image_size
recal3r.Reconstructor(model).push(np.zeros((3 * side // 4, side, 3), np.uint8))
"""


def best(command: list[str], starts: int) -> float:
    seconds: list[float] = []
    for _ in range(starts):
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds.append(time.perf_counter() - begun)
    return min(seconds)


weights = sys.argv[1] if len(sys.argv) > 1 else "tiny"
print(f"recal3r --help: {best([sys.executable, '-m', 'recal3r.cli.main', '--help'], 5):.2f} s")
print(f"first prediction of {weights}: {best([sys.executable, '-c', FIRST, weights], 3):.2f} s")
