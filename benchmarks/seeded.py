"""Writes the full network with the weights that the golden arrays were recorded with: python benchmarks/seeded.py FILE

Nothing else here needs a checkpoint of anybody's: these weights can be made anywhere, bit for bit.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from recal3r.model.checkpoint import write_safetensors

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from networks import CONFIGS, seeded_network

parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("file", type=Path, help="a .safetensors file to write")
parser.add_argument("--network", default="cut3r_512_dpt", choices=sorted(CONFIGS))
options = parser.parse_args()
network = seeded_network(options.network)
write_safetensors(options.file, network.config, network.official_state_dict())
