"""`recal3r bench` on a network that takes no time."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from networks import CONFIGS, seeded_network
from recal3r.cli import bench
from recal3r.cli.main import main
from recal3r.cli.measure import operations, picture_size, pictures, product_peak
from recal3r.errors import ConfigError
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.config import CUT3R_512_DPT


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    path, mini = tmp_path / "mini.safetensors", seeded_network("mini-linear")
    write_safetensors(path, mini.config, mini.official_state_dict())
    return path


def test_bench(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = tmp_path / "bench.json"
    arguments = ["bench", "--weights", str(weights), "--repeats", "2", "--warmup", "1", "--size", "64", "48"]
    arguments += ["--device", "cpu", "--json", str(told)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    result = json.loads(told.read_text())
    for word in ("fastest matrix product", "memix(ttt3r)", "pose only", "peak memory", result["hardware"]["torch"]):
        assert word in printed
    rows = result["stages"]
    parts = [rows[name] for name in ("encode", "decode", "heads", "rest")]
    assert sum(part["gflop"] for part in parts) == pytest.approx(rows["frame"]["gflop"])
    for row in rows.values():
        assert 0 < row["share_of_peak"] < 1.5
        assert row["gflop_per_second"] == pytest.approx(row["gflop"] / row["best_seconds"])
        assert row["best_seconds"] <= row["median_seconds"]
    assert result["rules"]["cut3r"]["against"] == 1
    assert set(result["rules"]) == {"cut3r", *bench.Bench().rules}
    assert result["rules"]["recal3r"]["best_seconds"] == rows["frame"]["best_seconds"]
    assert result["pose_only"]["against"] < 1
    assert result["memory"]["host_bytes"] is None or result["memory"]["host_bytes"] > 1e7

    assert main(arguments) == 1
    assert "exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--repeats", "0"], "measures nothing"),
        (["--untrained", "small", "--weights", "tiny"], "two networks"),
        (["--untrained", "small", "--size", "63", "48"], "whole patches"),
        (["--untrained", "small", "--rules", "nonsense"], "no rule named"),
    ],
)
def test_what_cannot_be_measured(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 1
    assert said in capsys.readouterr().err


def test_operations_are_those_of_the_layers() -> None:
    """One linear network counted by hand; the official one is what its paper's readers measured."""
    config = dataclasses.replace(CONFIGS["mini-linear"], encoder_depth=1)
    two = dataclasses.replace(config, encoder_depth=2)
    patches, width = 12, 128
    linear = 2 * patches * width * (3 * width + width + 8 * width)
    attention = 4 * patches * patches * width
    block = operations(two, 48, 64)["encode"] - operations(config, 48, 64)["encode"]
    assert block == linear + attention
    whole = sum(operations(CUT3R_512_DPT, 384, 512).values())
    assert whole == pytest.approx(1.56e12, rel=0.03)


def test_the_peak_is_a_speed_and_pictures_change() -> None:
    assert product_peak(torch.device("cpu"), torch.float32, seconds=0.05) > 1e8
    first, second = (picture for picture, _ in zip(pictures(48, 64), range(2), strict=False))
    assert first.shape == (48, 64, 3)
    assert (first != second).any()
    assert picture_size(CUT3R_512_DPT, None) == (384, 512)
    assert picture_size(CONFIGS["cut3r_224_linear"], None) == (224, 224)
    with pytest.raises(ConfigError, match="whole patches"):
        picture_size(CUT3R_512_DPT, (500, 384))
