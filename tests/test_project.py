"""The project keeps what its documents promise: examples run, folders import downwards, links lead somewhere."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.seeded import seeded_frames
from networks import MINI
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.config import Cut3rConfig
from recal3r.model.load import untrained

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "recal3r"
# What each folder may import from; itself goes without saying. A folder that is not listed is an error.
BELOW = {
    "types": {"errors"},
    "errors": set(),
    "geometry": {"types", "errors"},
    "sources": {"types", "errors", "geometry"},
    "sinks": {"types", "errors", "geometry"},
    "model": {"types", "errors", "geometry"},
    "rules": {"types", "errors", "geometry", "model"},
    "engine": {"types", "errors", "geometry", "model", "rules"},
    "eval": {"types", "errors", "geometry", "sources", "model", "rules", "engine", "sinks"},
    "train": {"types", "errors", "geometry", "sources", "model", "rules", "engine", "eval"},
    "viewer": {"types", "errors", "geometry", "sinks"},
    "pipeline": {"types", "errors", "geometry", "sources", "model", "rules", "engine", "sinks", "viewer", "__init__"},
    "cli": {
        *("types", "errors", "geometry", "sources", "model", "rules", "engine", "sinks", "eval", "train", "viewer"),
        *("pipeline", "__init__"),
    },
    "__init__": {"types", "errors", "geometry", "sources", "model", "rules", "engine"},
}


def imports(path: Path) -> set[str]:
    """The parts of recal3r that a module names, imports inside functions included."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "recal3r":
            found |= {name.name if (PACKAGE / name.name).exists() else "__init__" for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("recal3r."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {
                [*alias.name.split("."), "__init__"][1] for alias in node.names if alias.name.startswith("recal3r")
            }
    return found


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_folders_import_downwards(path: Path) -> None:
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert imports(path) - {part} <= BELOW[part]


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_is_evaluated_or_unpickled(path: Path) -> None:
    """No eval, no exec, no pickle; torch.load only where it builds tensors and plain values and nothing else."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in {"eval", "exec", "pickle.load", "pickle.loads"}, called
            assert called != "torch.load" or "weights_only=True" in ast.unparse(node)


def links() -> list[tuple[str, str]]:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    return [
        (str(document.relative_to(ROOT)), target)
        for document in documents
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text())
        if "://" not in target
    ]


@pytest.mark.parametrize(("document", "target"), links())
def test_links_lead_somewhere(document: str, target: str) -> None:
    assert ((ROOT / document).parent / target).exists()


def run_example(name: str, *arguments: object) -> str:
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / name), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_example_images(tmp_path: Path) -> None:
    model = untrained(Cut3rConfig(**MINI, head="linear"))
    write_safetensors(tmp_path / "mini.safetensors", model.config, model.official_state_dict())
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number, frame in enumerate(seeded_frames(3, 90, 120)):
        Image.fromarray(frame).save(folder / f"{number}.png")
    lines = run_example("01_images.py", tmp_path / "mini.safetensors", folder).splitlines()
    assert [line.split(":")[0] for line in lines] == ["0", "1", "2"]
    assert np.isfinite([float(line.split("median depth ")[1]) for line in lines]).all()


def test_example_own_rule() -> None:
    lines = run_example("04_own_rule.py").splitlines()
    rates = [float(line.split()[-1]) for line in lines]
    assert len(rates) == 6
    assert rates[0] == pytest.approx(44 / 48, abs=1e-3), "the first frame is written fully, but for MeMix's mask"
    assert all(0 < rate < 1 for rate in rates)
