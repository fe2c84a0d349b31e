"""Nothing is imported before it is needed, and what is missing is said in one sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, metadata, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "recal3r"
# Modules that are nothing but the way to an extra; each is imported where somebody asks for it.
BRIDGES = {
    "recal3r.sources.pyav": "av",
    "recal3r.sources.video": "av",
    "recal3r.sources.live": "av",
    "recal3r.viewer": "viser",
}
EXTRAS = ("av", "pyarrow", "viser", "websockets", "rerun", "scipy", "matplotlib", "ray", "pillow_heif", "pandas")
BLOCKED = f"""
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocked())
"""


def run(script: str, *, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        check=False,
        capture_output=True,
        text=True,
        env=os.environ | (environment or {}),
    )


def modules() -> list[str]:
    paths = [path.relative_to(PACKAGE.parent).with_suffix("") for path in sorted(PACKAGE.rglob("*.py"))]
    return [".".join(path.parts).removesuffix(".__init__") for path in paths]


def test_every_module_imports_without_extras() -> None:
    """One process imports all; bridges fail, and for want of their own extra."""
    script = f"""{BLOCKED}
import importlib, json
failed = {{}}
for name in {modules()!r}:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed[name] = str(error)
print(json.dumps([failed, [extra for extra in {EXTRAS} if extra in sys.modules]]))
"""
    done = run(script)
    assert done.returncode == 0, done.stderr
    failed, imported = json.loads(done.stdout)
    assert imported == []
    unexpected = {
        name: why
        for name, why in failed.items()
        if not any(name == bridge or name.startswith(f"{bridge}.") for bridge in BRIDGES)
    }
    assert unexpected == {}
    for bridge, extra in BRIDGES.items():
        assert f"No module named {extra!r}" in failed[bridge]


def test_every_module_imports_by_itself() -> None:
    """Whichever comes first: no module needs another to have been imported before it."""
    script = f"""
import importlib, sys
import numpy, torch, av, viser
for name in {modules()!r}:
    for other in [other for other in sys.modules if other.partition(".")[0] == "recal3r"]:
        del sys.modules[other]
    importlib.import_module(name)
"""
    done = run(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_nothing_heavy_before_there_is_something_to_do(arguments: list[str]) -> None:
    script = f"""
import sys
from recal3r.cli.main import main
status = main({arguments!r})
heavy = {{"torch", "numpy", "PIL", "safetensors", *{EXTRAS}}} & set(sys.modules)
sys.exit(f"imported {{heavy}}" if heavy else status)
"""
    done = run(script)
    assert done.returncode == 0, done.stderr


def test_no_compiler_before_the_first_prediction() -> None:
    """Which would take a second of every start."""
    script = """
import sys
import numpy, recal3r
recal3r.Reconstructor(recal3r.load_model("tiny")).push(numpy.zeros((96, 128, 3), numpy.uint8))
heavy = {"torch._dynamo", "torch._inductor", "sympy"} & set(sys.modules)
sys.exit(f"imported {heavy}" if heavy else 0)
"""
    done = run(script)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("call", "extra"),
    [
        ("recal3r.open_source(video)", "video"),
        ("recal3r.open_source('rtsp://127.0.0.1/nothing')", "video"),
        ("recal3r.viewer.Viewer", "viewer"),
        ("recal3r.sinks.GatesSink(folder / 'gates.arrow').__enter__()", "arrow"),
        ("recal3r.sinks.RerunSink(folder / 'x.rrd').__enter__()", "rerun"),
        ("recal3r.eval.metrics.cloud.tree_of(None)", "eval"),
    ],
)
def test_a_missing_extra_is_named(tmp_path: Path, call: str, extra: str) -> None:
    (tmp_path / "x.mp4").write_bytes(b"nothing")
    script = f"""{BLOCKED}
import importlib, pathlib, recal3r
from recal3r.errors import Recal3rError
folder = pathlib.Path({str(tmp_path)!r}); video = folder / "x.mp4"
try:
    for name in ("recal3r.sinks", "recal3r.eval.metrics.cloud", "recal3r.viewer"):
        if name in {call!r}:
            importlib.import_module(name)
    {call}
except Recal3rError as error:
    print(error)
"""
    done = run(script)
    assert done.returncode == 0, done.stderr
    assert f"recal3r[{extra}]" in done.stdout
    assert done.stdout.count("\n") == 1


# -- what is depended on -----------------------------------------------------------------------------------------------


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])


def requirements() -> dict[str, str]:
    """Name -> lower bound, of the package and all its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    found = [re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9.]+)", line) for line in lines if not line.startswith("recal3r[")]
    assert all(found), f"a requirement without a lower bound, or with another: {lines}"
    return {match[1].lower().replace("_", "-"): match[2] for match in found if match}


def test_what_is_tested_lies_above_every_lower_bound() -> None:
    pinned = dict(
        line.lower().replace("_", "-").split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    )
    optional = {"pillow-heif"}  # where it is not installed, no test needs it
    for name, bound in requirements().items():
        if name not in optional:
            assert name in pinned, f"constraints.txt has no {name}"
            assert numbers(pinned[name]) >= numbers(bound), name


def test_the_oldest_set_is_the_lower_bounds() -> None:
    lines = (ROOT / "constraints-oldest.txt").read_text().splitlines()
    oldest = dict(line.split("==") for line in lines if "==" in line)
    bounds = requirements()
    assert oldest == {name: bounds[name] for name in oldest}
    assert {"torch", "numpy", "safetensors", "pillow"} <= oldest.keys()


def test_what_runs_here_lies_above_every_lower_bound() -> None:
    from importlib.metadata import version

    for name in ("torch", "numpy", "safetensors", "pillow"):
        assert numbers(version(name)) >= numbers(requirements()[name]), name


PERMISSIVE = re.compile(
    r"\b(MIT|BSD|0BSD|Apache|HPND|PSF|Python Software Foundation|ISC|Zlib|Unlicense|MPL|Mozilla)\b", re.IGNORECASE
)


def licences_below(name: str, extras: tuple[str, ...], found: dict[str, str]) -> None:
    """What `name` and all that it needs here say of their licences, into `found`. What is not installed is left out."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    try:
        about, needed = metadata(name), requires(name) or []
    except PackageNotFoundError:
        return
    if key in found and not extras:
        return
    classifiers = [line for line in about.get_all("Classifier") or [] if line.startswith("License")]
    licence = (about.get("License") or "")[:300]
    found[key] = " ".join([about.get("License-Expression") or "", licence, *classifiers])
    for one in map(Requirement, needed):
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in (*extras, "")):
            licences_below(one.name, tuple(sorted(one.extras)), found)


def test_all_that_users_install_has_a_permissive_licence() -> None:
    found: dict[str, str] = {}
    licences_below("recal3r", ("arrow", "eval", "heic", "ray", "rerun", "video", "viewer"), found)
    assert {"torch", "numpy", "safetensors", "pillow", "scipy", "viser", "sympy"} <= found.keys()
    assert {name: said for name, said in found.items() if not PERMISSIVE.search(said)} == {}
