"""`kill -9` at any moment, and the same command again: byte for byte what an uninterrupted run leaves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from data.seeded import seeded_frames
from pipeline.runs import EVERYTHING, ONE_THREAD, content

OPTIONS = (
    *("--write", EVERYTHING, "--checkpoint-every", 7, "--reset-interval", 25),
    *("--cloud-points", 4000, "--cloud-edge", 0.02, "--least-confidence", 1),
)


def run_and_kill(source: Path, folder: Path, weights: Path, kills: int) -> None:
    folder.mkdir()
    frames = len(list(source.iterdir()))
    program = [sys.executable, str(Path(__file__).with_name("killer.py")), kills, 0, frames, folder]
    arguments = [*program, "run", source, "--weights", weights, *OPTIONS]
    done = subprocess.run([*map(str, arguments)], check=False, capture_output=True, text=True, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr

    said = [line for line in done.stdout.splitlines() if line.startswith("killed")]
    assert len(said) == kills
    assert len(set(said)) > kills // 2, f"the kills came at different places: {said}"
    whole = content(folder / "whole")
    assert len(whole) > 3 * frames
    for output in folder.glob("killed-*"):
        found = content(output)
        assert found.keys() == whole.keys()
        different = [name for name in whole if found[name] != whole[name]]
        assert not different, f"after {said}: {different}"


def test_three_kills(pictures: Path, weights: Path, tmp_path: Path) -> None:
    run_and_kill(pictures, tmp_path / "runs", weights, kills=3)


@pytest.mark.slow
def test_twenty_kills(weights: Path, tmp_path: Path) -> None:
    source = tmp_path / "pictures"
    source.mkdir()
    for number, frame in enumerate(seeded_frames(150, 48, 64)):
        Image.fromarray(frame).save(source / f"{number:03d}.png")
    run_and_kill(source, tmp_path / "runs", weights, kills=20)
