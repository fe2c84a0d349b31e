"""Both loops and the executors, on a small untrained network: cached, resumed, killed, and always the same bytes."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import recal3r
from eval.killing import dies_once
from recal3r.engine.reconstructor import Reconstructor
from recal3r.errors import EvalError
from recal3r.eval.contestants import CONTROLS, Contestant, called
from recal3r.eval.cuts import Central, Cropped, Squeezed
from recal3r.eval.datasets import dataset
from recal3r.eval.predict import Request, open_prediction, predict
from recal3r.eval.protocol import PROTOCOLS, protocol
from recal3r.eval.results import Result, failures, mean, read_results, shorter
from recal3r.eval.score import Job, run_job
from recal3r.eval.sweep import Executor, OnRay, Plan, Processes, Sweep, ThisProcess, read_recipe, run_sweep
from recal3r.eval.tasks import Reconstruction
from recal3r.model.checkpoint import write_safetensors

LaidOut = Callable[[str], Path]
CONTESTANT = Contestant("recal3r", "recal3r")
REQUEST = Request(CONTESTANT, "scene-000", Central(), ("depth", "points_world", "pose"))


@pytest.fixture(scope="module")
def weights(mini: recal3r.Cut3r, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "mini.safetensors"
    write_safetensors(path, mini.config, mini.official_state_dict())
    return path


def synthetic_sweep(*contestants: str) -> Sweep:
    reconstruction = dataclasses.replace(
        protocol("reconstruction/synthetic"), task=Reconstruction(central=None, most=300)
    )
    return Sweep(
        "short",
        "A short sweep",
        (protocol("pose/synthetic"), protocol("video-depth/synthetic"), reconstruction),
        called(*(contestants or ("cut3r", "recal3r"))),
        (4, 8),
    )


def plan(sweep: Sweep, weights: Path, laid_out: LaidOut, output: Path, **options: Any) -> Plan:
    roots = {"synthetic": laid_out("synthetic")}
    return Plan(sweep, str(weights), roots, output, output / "predictions", **options)


def files(output: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(output)): path.read_bytes()
        for part in ("results", "trajectories")
        for path in sorted((output / part).rglob("*"))
        if path.is_file()
    }


# -- loop 1 ----------------------------------------------------------------------------------------------------------


def test_predicted_once(
    mini: recal3r.Cut3r, laid_out: LaidOut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shots = dataset("synthetic", laid_out("synthetic")).open("scene-000").shots
    first, speed = predict(mini, REQUEST, shots, tmp_path)
    assert first.poses.shape == (8, 4, 4)
    assert first.points_world.shape == (8, 48, 64, 3)
    assert speed.frames_per_second > 0
    recon = Reconstructor(mini, "recal3r", size=None)
    for k, shot in enumerate(shots):
        said = recon.push(shot.image())
        np.testing.assert_array_equal(first.poses[k], said.T_world_camera)
        np.testing.assert_array_equal(first.depth[k], said.depth)
        np.testing.assert_array_equal(first.points_world[k], said.points_world)
    monkeypatch.setattr(Reconstructor, "push", None)  # whoever predicts again fails
    again, _ = predict(mini, REQUEST, shots, tmp_path)
    np.testing.assert_array_equal(again.points_world, first.points_world)


def test_every_setting_is_part_of_the_key(mini: recal3r.Cut3r, laid_out: LaidOut) -> None:
    shots = dataset("synthetic", laid_out("synthetic")).open("scene-000").shots
    other_pictures = dataset("synthetic", laid_out("synthetic")).open("scene-001").shots
    requests = [
        REQUEST,
        dataclasses.replace(REQUEST, contestant=Contestant("x", "recal3r(beta_base=0.05)")),
        dataclasses.replace(REQUEST, contestant=dataclasses.replace(CONTESTANT, reset_interval=4)),
        dataclasses.replace(REQUEST, contestant=dataclasses.replace(CONTROLS[0], rule="recal3r")),
        dataclasses.replace(REQUEST, cut=Squeezed()),
        dataclasses.replace(REQUEST, outputs=("pose",)),
        dataclasses.replace(REQUEST, sequence="scene-001"),
    ]
    keys = [request.key(mini, shots) for request in requests]
    keys += [REQUEST.key(mini, shots[:-1]), REQUEST.key(mini, other_pictures)]
    keys += [REQUEST.key(recal3r.model.load.untrained(mini.config), shots)]
    assert len(set(keys)) == len(keys)
    renamed = dataclasses.replace(REQUEST, contestant=dataclasses.replace(CONTESTANT, name="another name"))
    assert renamed.key(mini, shots) == keys[0]


@pytest.mark.parametrize("interrupted_at", [1, 4, 5, 7])
def test_an_interrupted_prediction_goes_on_bit_for_bit(
    interrupted_at: int, mini: recal3r.Cut3r, laid_out: LaidOut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shots = dataset("synthetic", laid_out("synthetic")).open("scene-000").shots
    whole, _ = predict(mini, REQUEST, shots, tmp_path / "whole", save_every=2)
    push, counter = Reconstructor.push, itertools.count()

    def interrupted(self: Reconstructor, *arguments: Any, **options: Any) -> Any:
        if next(counter) == interrupted_at:
            raise KeyboardInterrupt
        return push(self, *arguments, **options)

    monkeypatch.setattr(Reconstructor, "push", interrupted)
    with pytest.raises(KeyboardInterrupt):
        predict(mini, REQUEST, shots, tmp_path / "parts", save_every=2)
    resumed, _ = predict(mini, REQUEST, shots, tmp_path / "parts", save_every=2)
    assert next(counter) == 1 + interrupted_at + 8 - interrupted_at // 2 * 2, "it went on from the last saved session"
    for one, other in ((resumed.poses, whole.poses), (resumed.depth, whole.depth)):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(resumed.points_world, whole.points_world)
    assert [path.name for path in (tmp_path / "parts").iterdir()] == [REQUEST.key(mini, shots)]


def test_a_damaged_prediction_is_no_prediction(mini: recal3r.Cut3r, laid_out: LaidOut, tmp_path: Path) -> None:
    shots = dataset("synthetic", laid_out("synthetic")).open("scene-000").shots
    predict(mini, REQUEST, shots, tmp_path)
    folder = tmp_path / REQUEST.key(mini, shots)
    with (folder / "depth.bin").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(EvalError, match="damaged prediction"):
        open_prediction(folder)


# -- loop 2 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROTOCOLS)
def test_every_protocol_runs(name: str, laid_out: LaidOut, weights: Path, tmp_path: Path) -> None:
    """On a folder in the dataset's layout, from the picture to the number."""
    root = laid_out(protocol(name).dataset)
    wanted = protocol(name)
    if "start" in str(wanted.frames):
        wanted = dataclasses.replace(wanted, frames=dataclasses.replace(wanted.frames, start=1, stride=1))
    sequence = dataset(wanted.dataset, root).names()[0]
    job = Job(str(weights), CONTESTANT, (wanted,), (4,), root, sequence, tmp_path)
    (result,) = run_job(job).results
    assert result.error is None
    assert len(result.frames) == 4
    assert set(result.values) == {measure.name for measure in wanted.task.metrics}
    assert all(math.isfinite(value) for value in result.values.values())


def test_a_shorter_stream_is_the_beginning_of_a_longer_one(
    laid_out: LaidOut, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[int] = []
    push = Reconstructor.push

    def counted(self: Reconstructor, *arguments: Any, **options: Any) -> Any:
        shown.append(1)
        return push(self, *arguments, **options)

    monkeypatch.setattr(Reconstructor, "push", counted)
    root, protocols = laid_out("synthetic"), synthetic_sweep().protocols
    both = run_job(Job(str(weights), CONTESTANT, protocols, (4, 8), root, "scene-000", tmp_path / "both")).results
    assert len(shown) == 8
    alone = run_job(Job(str(weights), CONTESTANT, protocols, (4,), root, "scene-000", tmp_path / "alone")).results
    by_place = {one.place(Path()): one for one in both}
    assert all(by_place[one.place(Path())] == one for one in alone)


def test_what_fails_is_said_and_never_a_number(laid_out: LaidOut, weights: Path, tmp_path: Path) -> None:
    wanted = protocol("pose/tum-dynamics")
    sweep = Sweep("tum", "TUM", (wanted,), called("cut3r"))
    roots = {"tum": laid_out("tum")}
    results, _ = run_sweep(Plan(sweep, str(weights), roots, tmp_path, tmp_path / "store"))
    assert len(results) == 8
    assert len(failures(results)) == 7
    assert "is not there, but TUM RGB-D is laid out as" in failures(results)[0].error
    found = mean(results, "ate")
    assert (found.sequences, found.of) == (1, 8)
    assert str(found).endswith("(1 of 8)")
    assert math.isnan(mean(failures(results), "ate").value)


def test_broken_pictures_and_predictions_fail_their_sequence_alone(
    laid_out: LaidOut, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push = Reconstructor.push

    def lost(self: Reconstructor, *arguments: Any, **options: Any) -> Any:
        said = push(self, *arguments, **options)
        return dataclasses.replace(said, T_world_camera=said.T_world_camera * np.nan) if said.index == 2 else said

    monkeypatch.setattr(Reconstructor, "push", lost)
    result, depth, _ = run_job(
        Job(str(weights), CONTESTANT, synthetic_sweep().protocols, (8,), laid_out("synthetic"), "scene-000", tmp_path)
    ).results
    assert "no finite number" in result.error
    assert math.isnan(result.value("ate"))
    assert depth.error is None


def test_means() -> None:
    def one(value: float, weight: float, error: str | None = None, frames: int = 9) -> Result:
        return Result("p", "c", 9, "s", "", {}, ("x",) * frames, {"m": value}, weight, error)

    results = [one(1, 1), one(4, 3, frames=5), one(100, 1, "broke")]
    found = mean(results, "m")
    assert found == (3.25, 2, 3)
    assert shorter(results) == [results[1]]
    assert str(mean([one(1, 1)], "m")) == "1.000"


# -- sweeps ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def one_process(weights: Path, laid_out: LaidOut, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    output = tmp_path_factory.mktemp("one")
    run_sweep(plan(synthetic_sweep(), weights, laid_out, output))
    return files(output)


def test_results_hold_everything(one_process: dict[str, bytes], laid_out: LaidOut) -> None:
    assert sum(name.startswith("results/") for name in one_process) == 3 * 2 * 2 * 2
    assert sum(name.startswith("trajectories/") for name in one_process) == (2 + 1) * 2 * 2, "and the truth"
    result = json.loads(one_process["results/pose-synthetic/recal3r/4/scene-001.json"])
    assert result["frames"] == ["000000", "000001", "000002", "000003"]
    assert result["settings"]["protocol"]["frames"] == {"kind": "First", "count": None, "stride": 1, "start": 0}
    assert result["settings"]["contestant"]["rule"].startswith("recal3r(beta_base=0.1, ")
    assert str(laid_out("synthetic")) not in str(one_process), "results say nothing of the machine"


def test_interrupted_and_resumed(
    one_process: dict[str, bytes], weights: Path, laid_out: LaidOut, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    push, counter = Reconstructor.push, itertools.count()

    def interrupted(self: Reconstructor, *arguments: Any, **options: Any) -> Any:
        if next(counter) == 13:
            raise KeyboardInterrupt
        return push(self, *arguments, **options)

    monkeypatch.setattr(Reconstructor, "push", interrupted)
    wanted = plan(synthetic_sweep(), weights, laid_out, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(wanted)
    assert sum(name.startswith("results/") for name in files(tmp_path)) == 6
    assert run_sweep(wanted).done_before == 6
    assert files(tmp_path) == one_process
    said: list[str] = []
    assert run_sweep(wanted, said=said.append).done_before == 24
    assert not said


def test_predictions_need_not_stay(
    one_process: dict[str, bytes], weights: Path, laid_out: LaidOut, tmp_path: Path
) -> None:
    run_sweep(plan(synthetic_sweep(), weights, laid_out, tmp_path, keep=False))
    assert files(tmp_path) == one_process
    assert not list((tmp_path / "predictions").iterdir())


def test_results_of_other_settings_are_refused(weights: Path, laid_out: LaidOut, tmp_path: Path) -> None:
    sweep = synthetic_sweep("cut3r")
    run_sweep(plan(sweep, weights, laid_out, tmp_path))
    other = dataclasses.replace(sweep, protocols=(dataclasses.replace(sweep.protocols[0], cut=Squeezed()),))
    with pytest.raises(EvalError, match="of other weights, settings or version"):
        run_sweep(plan(other, weights, laid_out, tmp_path))
    changed = sweep.changed(["frames.stride=2"])
    assert changed.protocols[0].name == "pose/synthetic with frames.stride=2"
    assert run_sweep(plan(changed, weights, laid_out, tmp_path)).done_before == 0
    assert len(read_results(tmp_path)) == 3 * 2 * 2 * 2


EXECUTORS: dict[str, Executor] = {"processes": Processes(("cpu", "cpu")), "ray": OnRay(2)}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXECUTORS)
def test_other_executors_give_the_same_bytes(
    name: str, one_process: dict[str, bytes], weights: Path, laid_out: LaidOut, tmp_path: Path
) -> None:
    run_sweep(plan(synthetic_sweep(), weights, laid_out, tmp_path), EXECUTORS[name])
    assert files(tmp_path) == one_process


@dataclasses.dataclass(frozen=True)
class Deadly:
    """An executor one of whose workers is killed in the middle."""

    inner: Executor

    def run(self, work: Any, jobs: list[Job]) -> Iterator[Any]:
        yield from self.inner.run(dies_once, jobs)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXECUTORS)
def test_a_worker_killed_in_the_middle_changes_nothing(
    name: str,
    one_process: dict[str, bytes],
    weights: Path,
    laid_out: LaidOut,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))  # where the workers find eval.killing
    run_sweep(plan(synthetic_sweep(), weights, laid_out, tmp_path), Deadly(EXECUTORS[name]))
    assert (tmp_path / "predictions" / "died").exists()
    assert files(tmp_path) == one_process


def test_a_sequence_that_kills_every_worker_is_a_failure(weights: Path, laid_out: LaidOut, tmp_path: Path) -> None:
    @dataclasses.dataclass(frozen=True)
    class Hopeless:
        def run(self, work: Any, jobs: list[Job]) -> Iterator[Any]:
            yield jobs[0], None
            yield from ThisProcess().run(work, jobs[1:])

    results, _ = run_sweep(plan(synthetic_sweep("cut3r"), weights, laid_out, tmp_path), Hopeless())
    assert len(failures(results)) == 6
    assert all("died" in one.error for one in failures(results))
    again, before = run_sweep(plan(synthetic_sweep("cut3r"), weights, laid_out, tmp_path, again=True))
    assert not failures(again)
    assert before == 6


# -- recipes ---------------------------------------------------------------------------------------------------------


def test_a_recipe_is_a_file(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.py", tmp_path / "bad.py"
    good.write_text(
        "from recal3r.eval.contestants import called\n"
        "from recal3r.eval.protocol import protocol\n"
        "from recal3r.eval.sweep import Sweep\n"
        "def sweep():\n    return Sweep('x', 'X', (protocol('pose/kitti'),), called('cut3r'))\n"
    )
    bad.write_text("pass\n")
    assert read_recipe(good).protocols == (PROTOCOLS["pose/kitti"],)
    for path in (bad, tmp_path / "none.py"):
        with pytest.raises(EvalError, match=r"recipe|sweep\(\)"):
            read_recipe(path)
    with pytest.raises(EvalError, match="twice"):
        Sweep("x", "X", (PROTOCOLS["pose/kitti"],) * 2, called("cut3r"))
    with pytest.raises(EvalError, match="no contestant named"):
        called("nobody")


def test_cuts_at_the_networks_size(mini: recal3r.Cut3r) -> None:
    picture = np.zeros((436, 1024, 3), np.uint8)
    assert Squeezed().image(picture, None, mini.config).shape[:2] == (16, 64)
    assert Cropped().image(picture, None, mini.config) is picture
    assert Central().image(picture, None, mini.config).shape[:2] == (48, 64)
