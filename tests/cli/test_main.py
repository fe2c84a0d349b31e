"""The command line as a newcomer meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recal3r.cli.main import main


def test_help_needs_no_torch() -> None:
    """What makes `recal3r --help` and `import recal3r` quick."""
    script = "import sys, recal3r.cli.main; recal3r.cli.main.main(['--help']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "demo" in done.stdout


def test_the_public_names_are_there() -> None:
    import recal3r

    for name in recal3r.__all__:
        assert getattr(recal3r, name) is not None
        assert name in dir(recal3r)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = recal3r.nothing


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "demo"
    arguments = ["demo", "--output", str(folder), "--frames", "8", "--rules", "cut3r", "recal3r(beta_base=0.05)"]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "a camera that never moved" in printed
    assert "recal3r(beta_base=0.05)" in printed
    for name in ("trajectory-truth", "cut3r/trajectory", "recal3r-beta-base-0.05/trajectory"):
        poses = np.loadtxt(folder / f"{name}.tum.txt")
        assert poses.shape == (8, 8)
        np.testing.assert_allclose(np.linalg.norm(poses[:, 4:], axis=1), 1, atol=1e-6)
    found = folder / "cut3r"
    assert (found / "cloud.ply").read_bytes().startswith(b"ply\nformat binary_little_endian 1.0\n")
    assert "<html" in (found / "report.html").read_text()
    assert len(list((found / "frames").glob("*.npz"))) == 8, "what the viewer shows"
    assert len(list((found / "depth").glob("*.png"))) == 8
    assert np.asarray(Image.open(folder / "reconstruction.png")).std() > 10
    assert json.loads((folder / "settings.json").read_text())["frames"] == 8

    (folder / "mine.txt").write_text("keep")
    assert main(arguments) == 1
    assert "not empty" in capsys.readouterr().err
    assert main([*arguments, "--overwrite"]) == 0
    assert (folder / "mine.txt").read_text() == "keep"


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([], 2, "commands:"),
        (["nonsense"], 2, "invalid choice"),
        (["demo", "--rules", "recal4r"], 1, "There is no rule named 'recal4r'"),
        (["demo", "--frames", "1"], 1, "too short"),
        (["demo", "--frames", "many"], 2, "invalid int value"),
        (["demo", "--output", "/proc/no/such"], 1, "cannot be made"),
    ],
)
def test_wrong_arguments(
    arguments: list[str],
    status: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == status
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
