"""Runs as people start them, and what they leave behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from recal3r.pipeline.outputs import OUTPUTS

_TIMINGS = re.compile(rb'(?<=<script type="application/json" id="timings">).*?(?=</script>)', re.DOTALL)
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
# All that there are; of two that write to the same place the first.
EVERYTHING = ",".join(
    name for name in OUTPUTS if name != "colmap-text" and find_spec(f"recal3r.sinks.{OUTPUTS[name].module}")
)


def command(source: object, output: Path, weights: Path, *options: object) -> list[str]:
    """The arguments of `recal3r run`, for a network of 64x48 pixels."""
    return ["run", str(source), "-o", str(output), "--weights", str(weights), *map(str, options)]


def recal3r(*arguments: object) -> subprocess.CompletedProcess[str]:
    """The program, in a process of its own."""
    program = [sys.executable, "-W", "error", "-m", "recal3r.cli.main", *map(str, arguments)]
    return subprocess.run(program, check=False, capture_output=True, text=True, env=ONE_THREAD)


def content(folder: Path) -> dict[str, bytes]:
    """Every file by its name, but for how long the run took: `timings.json`, and its place in the report."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "timings.json"]
    return {str(path.relative_to(folder)): _TIMINGS.sub(b"", path.read_bytes()) for path in files}
