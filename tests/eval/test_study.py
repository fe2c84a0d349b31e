"""The study, on a small untrained network: it runs, resumes, refuses to mix, and is honest."""

from __future__ import annotations

import csv
import dataclasses
from pathlib import Path

import numpy as np
import pytest

import recal3r
from recal3r.cli.main import main
from recal3r.errors import EvalError
from recal3r.eval.contestants import CONTROLS, EVERYONE, Contestant
from recal3r.eval.metrics.cloud import cloud_error
from recal3r.eval.report import markdown, paired
from recal3r.eval.study import METRICS, Record, Walks, record, scores, walk
from recal3r.model.checkpoint import write_safetensors

WALKS = Walks(scenes=2, frames=6)


def test_the_truth_scores_perfectly(mini: recal3r.Cut3r) -> None:
    found = walk(mini, [Contestant("cut3r", "cut3r")], WALKS)[0]
    perfect = Record(
        found.true_poses, found.true_poses, np.zeros((2, 6)), found.true_points, found.true_points, found.rate
    )
    best = scores(perfect, 6)
    for metric in METRICS[:5]:
        np.testing.assert_allclose(best[metric], 0, atol=1e-5)
    np.testing.assert_allclose(found.true_poses[:, 0], np.broadcast_to(np.eye(4), (2, 4, 4)), atol=1e-12)
    np.testing.assert_allclose(best["mean rate"], 1)


def test_a_world_in_another_scale_is_as_good(mini: recal3r.Cut3r) -> None:
    found = walk(mini, [Contestant("cut3r", "cut3r")], WALKS)[0]
    other = found.true_poses.copy()
    other[..., :3, 3] *= 3
    scaled = found._replace(poses=other, points=3 * found.true_points + 1)
    for metric in ("ATE / spread", "Acc (m)", "Comp (m)"):
        np.testing.assert_allclose(scores(scaled, 6)[metric], 0, atol=1e-4)


def test_a_lost_stream_is_nan(mini: recal3r.Cut3r) -> None:
    found = walk(mini, [Contestant("cut3r", "cut3r")], WALKS)[0]
    found.poses[1, 3] = np.nan
    found.points[1, 3] = np.nan
    lost = scores(found, 6)
    assert np.isfinite([lost["ATE / spread"][0], lost["Acc (m)"][0]]).all()
    assert np.isnan([lost["ATE / spread"][1], lost["Acc (m)"][1]]).all()
    table = {"cut3r": {6: lost}}
    assert "1 of 2" in markdown(table, "ATE / spread", [6])


def test_controls_do_what_they_say(mini: recal3r.Cut3r) -> None:
    """Frozen: no rate after the first frame. State reset: every frame is read against S_0, as a second frame is."""
    frozen = next(one for one in CONTROLS if one.name.startswith("frozen"))
    still, forgetful, ordinary = walk(mini, [frozen, CONTROLS[0], Contestant("cut3r", "cut3r")], WALKS)
    assert np.isfinite(still.rate).tolist() == [[True] + [False] * 5] * 2
    alone = walk(mini, [Contestant("cut3r", "cut3r")], WALKS)[0]
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(alone, ordinary, strict=True)), "nobody disturbs"
    assert np.array_equal(forgetful.poses[:, 0], ordinary.poses[:, 0])
    assert not np.array_equal(forgetful.poses[:, 1], ordinary.poses[:, 1])
    assert len({one.slug for one in EVERYONE}) == len({one.name for one in EVERYONE}) == len(EVERYONE)


def test_recorded_once_and_never_mixed(mini: recal3r.Cut3r, tmp_path: Path) -> None:
    said: list[str] = []
    both = [Contestant("ttt3r", "ttt3r"), Contestant("cut3r", "cut3r")]
    (one,) = record(mini, both[:1], WALKS, tmp_path, said.append)
    again, _ = record(mini, both, WALKS, tmp_path, said.append)
    assert said == ["walking: ttt3r", "walking: cut3r"], "each once"
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, again, strict=True))
    with pytest.raises(EvalError, match="other weights, walks or parameters"):
        list(record(mini, both[:1], dataclasses.replace(WALKS, frames=7), tmp_path))


def test_cloud_error_by_hand() -> None:
    plane = np.stack(np.meshgrid(np.arange(20.0), np.arange(20.0)), -1).reshape(-1, 2)
    truth = np.column_stack((plane, np.zeros(400)))
    shifted = truth + np.array([0, 0, 0.05])
    assert cloud_error(shifted, truth) == pytest.approx((0.05, 0.05))
    half = truth[:200]
    found = cloud_error(half, truth)
    assert found.accuracy == 0
    assert found.completeness == pytest.approx(np.arange(1, 11).mean() / 2)
    assert np.isnan(cloud_error(np.full((3, 3), np.nan), truth)).all()


def test_report_tells_apart_what_can_be_told_apart() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(1, 0.3, 20)
    table = {
        "cut3r": {50: {"m": base}},
        "better": {50: {"m": base - 0.2 + rng.normal(0, 0.01, 20)}},
        "same": {50: {"m": base + rng.normal(0, 0.01, 20)}},
    }
    lines = paired(table, "m", 50, "cut3r").splitlines()
    assert lines[2].startswith("| better | -0.199")
    assert lines[2].endswith("| yes |")
    assert lines[3].endswith("| no |")
    assert "**" in markdown(table, "m", [50]).splitlines()[3], "the best mean is bold"


def test_the_command(mini: recal3r.Cut3r, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    weights = tmp_path / "mini.safetensors"
    write_safetensors(weights, mini.config, mini.official_state_dict())
    arguments = ["study", str(weights), str(tmp_path / "out"), "--scenes", "2", "--lengths", "3", "5"]
    assert main([*arguments, "--contestants", "cut3r", "recal3r"]) == 0
    assert main([*arguments, "--contestants", "cut3r", "recal3r"]) == 0
    assert capsys.readouterr().out.count("walking") == 1, "the second time everything is there"
    text = (tmp_path / "out" / "study.md").read_text()
    assert "straight line" in text
    assert "minus cut3r" in text
    with (tmp_path / "out" / "study.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * 2 * len(METRICS) * 2
    assert (tmp_path / "out" / "study.png").stat().st_size > 10_000
    assert main(["study", str(weights), str(tmp_path / "out"), "--lengths", "1"]) == 1
