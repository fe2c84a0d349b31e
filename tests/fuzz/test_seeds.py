"""What fuzzers begin with, and what they ever found, through every target. `make fuzz` looks for more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.kept import FOLDER, kept
from fuzz.targets import NONSENSE, TARGETS, examples


@pytest.mark.parametrize("name", TARGETS)
def test_whole_ones_and_what_was_found(name: str) -> None:
    read = TARGETS[name]()
    whole = examples()[name]
    assert whole, "a search that begins with nothing finds nothing"
    for data in (b"", *whole, *kept(name), *NONSENSE):
        read(data)
    for data in whole:
        for cut in range(0, len(data), max(1, len(data) // 16)):
            read(data[:cut])


def test_what_was_found_has_a_target() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(TARGETS)


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_guided_search_finds_nothing(name: str, tmp_path: Path) -> None:
    pytest.importorskip("atheris", reason="guided searches need atheris: `make fuzz`")
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, tests / "fuzz" / "guided.py", name, tmp_path / name, os.environ.get("RECAL3R_FUZZ", "5")],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(tests)},
    )
    left = {path.name: path.read_bytes() for path in tmp_path.glob(f"{name}-*")}
    assert done.returncode == 0, f"{left}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert "stat::number_of_executed_units" in done.stderr
