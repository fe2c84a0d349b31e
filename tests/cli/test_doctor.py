"""What the doctor says of this machine, of a stream, and of what stands in its way."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.seeded import seeded_frames
from networks import MINI
from recal3r.cli import doctor
from recal3r.cli.main import main
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.config import Cut3rConfig
from recal3r.model.load import untrained


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Weights, and a folder of 40 pictures."""
    folder = tmp_path_factory.mktemp("given")
    model = untrained(Cut3rConfig(**MINI, head="linear"), device="cpu", dtype="float32")
    write_safetensors(folder / "mini.safetensors", model.config, model.official_state_dict())
    (folder / "pictures").mkdir()
    for number, frame in enumerate(seeded_frames(40, 48, 64)):
        Image.fromarray(frame).save(folder / "pictures" / f"{number}.png")
    return str(folder / "mini.safetensors"), str(folder / "pictures")


def test_the_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    said = capsys.readouterr().out
    for name in ("recal3r", "torch", "numpy", "safetensors", "pillow", "cpu", "cut3r-512", "cache", "viewer", "video"):
        assert re.search(rf"^  {name} +\S", said, re.MULTILINE), name
    assert said.endswith("nothing stands in the way\n")


def test_a_stream_is_tried_and_forecast(given: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    """Time and disk are those of the frames tried, times the frames there are; nothing is left behind."""
    weights, pictures = given
    assert main(["doctor", pictures, "--weights", weights, "--frames", "8", "--write", "tum,depth"]) == 0
    said = capsys.readouterr().out
    (tried, rate) = re.search(r"tried +(\d+) frames: ([\d.]+) a second", said).groups()
    hours, minutes, seconds = map(int, re.search(r"time +(\d+):(\d+):(\d+) for all 40 frames", said).groups())
    assert int(tried) == 8
    assert abs(40 / float(rate) - (3600 * hours + 60 * minutes + seconds)) <= 1 + 0.1 * 40 / float(rate)
    depth_maps = 40 * (48 * 64 * (2 + 2)) / 2**20  # half precision, depth and confidence, uncompressed at the most
    (disk,) = map(float, re.search(r"disk +about (\d+) MB", said).groups())
    assert disk <= 2 * depth_maps + 1
    assert re.search(r"memory +[\d,]+ MB at the peak", said)
    assert sorted(path.name for path in Path(pictures).parent.iterdir()) == [
        "mini.json",
        "mini.safetensors",
        "pictures",
    ]


def test_what_stands_in_the_way(
    given: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, pictures = given

    def problem(*arguments: str) -> str:
        assert main(["doctor", *arguments]) == 1
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("PROBLEM")]
        return line

    assert "is nothing that frames can be had from" in problem(str(tmp_path / "nothing.mp4"), "--weights", weights)
    assert "project page" in problem(pictures, "--weights", "cut3r-512")
    (tmp_path / "x.safetensors").write_bytes(b"nothing")
    assert "no safetensors" in problem(pictures, "--weights", str(tmp_path / "x.safetensors"))
    monkeypatch.setattr(doctor, "available_memory", lambda: 1_000_000)
    assert re.search(r"takes at least \d+ MB and 0 MB are free; .*bfloat16", problem(pictures, "--weights", weights))


def test_memory_is_what_the_system_says() -> None:
    found = doctor.available_memory()
    assert found is None or 2**20 < found < 2**50
    assert np.isfinite(found or 0)
