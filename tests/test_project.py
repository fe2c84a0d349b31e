"""The project keeps what its documents promise: examples run, folders import downwards, links lead somewhere."""

from __future__ import annotations

import ast
import functools
import re
import runpy
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.seeded import seeded_frames
from networks import MINI
from recal3r.model.checkpoint import write_safetensors
from recal3r.model.config import Cut3rConfig
from recal3r.model.load import untrained
from sinks.walks import interrupted, shown, walk, written
from sources.footage import write_video

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "recal3r"
# What each folder may import from; itself goes without saying. A folder that is not listed is an error.
BELOW = {
    "types": {"errors"},
    "errors": set(),
    "jsontext": set(),
    "geometry": {"types", "errors"},
    "sources": {"types", "errors", "jsontext", "geometry"},
    "sinks": {"types", "errors", "jsontext", "geometry"},
    "model": {"types", "errors", "jsontext", "geometry"},
    "rules": {"types", "errors", "geometry", "model"},
    "engine": {"types", "errors", "jsontext", "geometry", "model", "rules"},
    "eval": {"types", "errors", "jsontext", "geometry", "sources", "model", "rules", "engine", "sinks"},
    "train": {"types", "errors", "geometry", "sources", "model", "rules", "engine", "eval"},
    "viewer": {"types", "errors", "jsontext", "geometry", "sinks"},
    "pipeline": {
        *("types", "errors", "jsontext", "geometry", "sources", "model", "rules", "engine", "sinks", "viewer"),
        "__init__",
    },
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


def test_example_live(tmp_path: Path) -> None:
    """A stream from the network, newest frame first, and its trajectory."""
    model = untrained(Cut3rConfig(**MINI, head="linear"))
    write_safetensors(tmp_path / "mini.safetensors", model.config, model.official_state_dict())
    write_video(tmp_path / "clip.mp4", 40, movflags="faststart")
    handler = functools.partial(QuietHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/clip.mp4"
        said = run_example("03_live.py", tmp_path / "mini.safetensors", address, tmp_path / "path.txt")
        server.shutdown()
    found = re.search(r"^(\d+) frames, (\d+) dropped to keep up$", said, re.MULTILINE)
    assert found is not None
    assert 1 <= int(found[1]) <= 40
    assert int(found[1]) + int(found[2]) == 40
    assert "watch it at http://127.0.0.1:" in said
    assert len((tmp_path / "path.txt").read_text().splitlines()) == int(found[1])


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...  # its name in the base class


def test_example_own_sink(tmp_path: Path) -> None:
    assert "6 frames" in run_example("05_own_sink.py", tmp_path / "out")
    table = np.loadtxt(tmp_path / "out" / "speed.csv", delimiter=",", skiprows=1)
    path = np.loadtxt(tmp_path / "out" / "trajectory.txt")
    steps = np.linalg.norm(np.diff(path[:, 1:4], axis=0), axis=1) / np.diff(path[:, 0])
    np.testing.assert_allclose(table[1:, 2], steps, atol=1e-5)
    assert table[0, 2] == 0


@pytest.mark.parametrize(("at", "lost"), [(0, 2), (1, 1), (4, 3)])
def test_the_own_sink_goes_on_byte_for_byte(tmp_path: Path, at: int, lost: int) -> None:
    own = runpy.run_path(str(ROOT / "examples" / "05_own_sink.py"))["SpeedSink"]
    pairs = shown(walk(8))
    written(own(tmp_path / "whole.csv"), pairs)
    interrupted(own, tmp_path / "killed.csv", pairs, at, lost)
    assert (tmp_path / "killed.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()
