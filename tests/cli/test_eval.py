"""`recal3r eval`, from a recipe to a report, on a small untrained network."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

import recal3r
from eval.layouts import LAYOUTS
from recal3r.cli.main import main
from recal3r.eval.contestants import ABLATIONS, BETA_BASES, CONTROLS, RULES
from recal3r.eval.protocol import PROTOCOLS
from recal3r.eval.published import published
from recal3r.eval.results import read_results
from recal3r.eval.sweep import read_recipe
from recal3r.model.checkpoint import write_safetensors

ROOT = Path(__file__).parents[2]
RECIPE_FOR_ALL = str(ROOT / "recipes" / "synthetic.py")
RECIPES = sorted((ROOT / "recipes").glob("*.py"))


OWN_RECIPE = """
from recal3r.eval.contestants import called
from recal3r.eval.protocol import protocol
from recal3r.eval.sweep import Sweep

def sweep():
    protocols = (protocol("pose/synthetic"), protocol("reconstruction/synthetic"))
    return Sweep("mine", "My own", protocols, called("cut3r", "ttt3r"), (4,), ("ate_share", "acc"))
"""


@pytest.fixture(scope="module")
def weights(mini: recal3r.Cut3r, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("weights") / "mini.safetensors"
    write_safetensors(path, mini.config, mini.official_state_dict())
    return str(path)


@pytest.fixture(scope="module")
def rooms(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(LAYOUTS["synthetic"](tmp_path_factory.mktemp("synthetic")))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_a_sweep_whose_metrics_exist(path: Path) -> None:
    sweep = read_recipe(path)
    measured = {measure.name for one in sweep.protocols for measure in one.task.metrics}
    assert set(sweep.metrics) <= measured
    assert all(one == PROTOCOLS[one.name] for one in sweep.protocols)


def test_recipes_ask_for_every_published_number() -> None:
    import recal3r.eval.published as module

    numbers = json.loads(Path(module.__file__).with_name("published.json").read_text())
    del numbers["_about"]
    asked = {
        (one.name, contestant.name, str(length), metric)
        for sweep in map(read_recipe, RECIPES)
        for one in sweep.protocols
        for contestant in sweep.contestants
        for length in sweep.lengths
        for metric in sweep.metrics
    }
    said = {
        (name, contestant, length, metric)
        for name, contestants in numbers.items()
        for contestant, lengths in contestants.items()
        for length, values in lengths.items()
        for metric in values
    }
    assert said <= asked
    assert len(said) > 300


def test_the_recipe_for_everybody_has_all_rules_and_ablations() -> None:
    sweep = read_recipe(Path(RECIPE_FOR_ALL))
    assert {*RULES, *ABLATIONS, *CONTROLS} <= set(sweep.contestants)
    rules = {one.rule for one in sweep.contestants}
    assert {one.rule for one in BETA_BASES} <= rules | {"recal3r(beta_base=0.1)"}, "0.1 is recal3r itself"
    assert {one.dataset for one in sweep.protocols} == {"synthetic"}
    shown = {name for group in sweep.groups for name in group.contestants}
    assert shown >= {one.name for one in sweep.contestants}


def test_a_recipe_runs_and_goes_on(
    weights: str, rooms: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, recipe = tmp_path / "out", tmp_path / "mine.py"
    recipe.write_text(OWN_RECIPE)
    arguments = ["eval", "run", str(recipe), weights, str(output), "--data", f"synthetic={rooms}", "--devices", "cpu"]
    arguments += ["--lengths", "4", "8", "--rules", "cut3r", "recal3r", "recal3r(beta_base=0.3)"]
    arguments += ["--change", "task.icp=null"]
    # Only one of the protocols has an ICP, and to leave it out of a pose is a mistake.
    assert main(arguments) == 1
    assert "names no field 'icp'" in capsys.readouterr().err
    assert main([*arguments[:-2], "--no-keep"]) == 0
    assert "24 results, 0 of them from before, 0 failed" in capsys.readouterr().out
    assert main([*arguments[:-2], "--no-keep"]) == 0
    assert "24 results, 24 of them from before, 0 failed" in capsys.readouterr().out
    assert len(read_results(output)) == 24
    assert len(list((output / "trajectories").rglob("*.txt"))) == 4 * 2 * 2, "three contestants and the truth"
    page = (output / "report.md").read_text()
    assert "| recal3r(beta_base=0.3) |" in page
    assert "paper" not in page, "nobody has published numbers of made-up rooms"
    (output / "report.md").unlink()
    assert main(["eval", "report", str(output)]) == 0
    assert (output / "report.md").read_text() == page


@pytest.mark.slow
def test_what_make_paper_synthetic_runs(weights: str, tmp_path: Path) -> None:
    """Its two commands, on rooms and streams that are small, with the network that is small."""
    asked = ["make", "-n", "-o", ".venv/.ready", "paper-synthetic", "SCENES=1", "FRAMES=5"]
    lines = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout.replace("\\\n", " ")
    prepare, evaluate = (
        shlex.split(line.partition("recal3r ")[2]) for line in lines.splitlines() if "recal3r " in line
    )
    place = {"tiny": weights, "results/rooms-1x5": f"{tmp_path}/rooms", "results/synthetic-1x5": f"{tmp_path}/out"}
    place |= {"synthetic=results/rooms-1x5": f"synthetic={tmp_path}/rooms", "recipes/synthetic.py": RECIPE_FOR_ALL}
    assert set(prepare) | set(evaluate) >= set(place)
    assert main([place.get(word, word) for word in prepare] + ["--size", "64", "48"]) == 0
    assert main([place.get(word, word) for word in evaluate] + ["--lengths", "4", "5"]) == 0
    page = (tmp_path / "out" / "report.md").read_text()
    sweep = read_recipe(Path(RECIPE_FOR_ALL))
    assert all(f"| {one.name} |" in page for one in sweep.contestants)
    assert "are missing" not in page
    assert page.count("over length](") == len(sweep.groups) * len(sweep.protocols)
    assert page.count("from above](") == len(sweep.groups)
    assert not list((tmp_path / "out" / "predictions").iterdir())


def test_a_protocol_beside_the_published_numbers(
    weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table of the paper on a folder in ScanNet's layout; both are far shorter than is asked for, which is said."""
    (tmp_path / "data").mkdir()
    root = LAYOUTS["scannet"](tmp_path / "data")
    output = tmp_path / "out"
    arguments = ["eval", "run", "pose/scannet-50", weights, str(output), "--data", f"scannet={root}"]
    assert main([*arguments, "--rules", "cut3r", "recal3r", "--lengths", "300", "--devices", "cpu"]) == 0
    page = (output / "report.md").read_text()
    assert "300 frames: ours | 300 frames: paper | 300 frames: difference" in page
    assert f"{published('pose/scannet-50', 'recal3r', 300, 'ate'):.4f}" in page
    assert "scene0708_00: 7 of 300 frames" in page
    capsys.readouterr()


def test_a_failed_sequence_is_the_status(weights: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data").mkdir()
    root = LAYOUTS["tum"](tmp_path / "data")
    arguments = ["eval", "run", "pose/tum-dynamics", weights, str(tmp_path / "out"), "--data", f"tum={root}"]
    assert main([*arguments, "--rules", "cut3r", "--lengths", "5", "--devices", "cpu"]) == 1
    assert "8 results, 0 of them from before, 7 failed" in capsys.readouterr().out
    page = (tmp_path / "out" / "report.md").read_text()
    assert "(1 of 8)" in page
    assert "7 results are missing" in page


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--data"], "no folder of it was given; add --data synthetic=FOLDER"),
        (["--data", "synthetic"], "write it like 7scenes=FOLDER"),
        (["--data", "nothing=here"], "no dataset named 'nothing'"),
        (["--rules", "recal3rr"], "recal3rr"),
        (["--devices"], "--devices names none"),
    ],
)
def test_mistakes_are_explained(
    change: list[str], said: str, weights: str, rooms: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["eval", "run", "pose/synthetic", weights, str(tmp_path / "o"), "--data", f"synthetic={rooms}"]
    assert main([*arguments, *change]) == 1
    assert said in capsys.readouterr().err
    assert main(["eval", "run", "nothing", weights, str(tmp_path / "o")]) == 1
    assert "is no recipe" in capsys.readouterr().err


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "list"]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in PROTOCOLS)
    assert "recal3r(calibrated=false)" in text
