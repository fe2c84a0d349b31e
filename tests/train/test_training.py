"""Training stops and goes on exactly, runs through the loop that everything runs through, and learns."""

import csv
import dataclasses

import numpy as np
import pytest
import torch

from recal3r.engine.reconstructor import Reconstructor
from recal3r.engine.session import Session
from recal3r.model.cut3r import Cut3r
from recal3r.model.load import load_model
from recal3r.train import checkpoint as disk
from recal3r.train.footage import Reels, ResidentFootage
from recal3r.train.helpers import watching
from recal3r.train.initial import fresh_network
from recal3r.train.lessons import read_pair, streams_lesson
from recal3r.train.loop import Trainer, learning_rate
from recal3r.train.recipe import TINY_NETWORK, Helpers, Stage, TrainError
from recal3r.train.validate import ate, run_streams, straight_line_ate
from train.short import SHORT, SMALLEST


def _trainer(footage, folder, recipe=SHORT):
    return Trainer(recipe, footage, None, folder, say=lambda _: None)


@pytest.mark.parametrize("stop", [2, 5, 11])
def test_a_resumed_run_has_the_same_curve_bit_for_bit(footage, tmp_path, one_thread, stop):
    whole = _trainer(footage, tmp_path / "whole")
    whole.run()
    first = _trainer(footage, tmp_path / "parts")
    first.run(until=stop)
    second = _trainer(footage, tmp_path / "parts")
    second.restore(disk.read_checkpoint(tmp_path / "parts"))
    second.run()
    assert second.rows == whole.rows
    assert len(whole.rows) == 14
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, second.model.state_dict()[name]), name


def test_a_step_beyond_the_end_of_a_stage_belongs_to_the_next(footage, tmp_path):
    trainer = _trainer(footage, tmp_path)
    trainer.run(until=4)
    assert (trainer.stage.name, trainer.iteration) == ("pairs", 1)


def test_stopping_leaves_what_is_needed_to_go_on(footage, tmp_path):
    trainer = _trainer(footage, tmp_path)
    trainer.stopping = True
    trainer.run()
    names = {path.name for path in tmp_path.iterdir()}
    assert {disk.CHECKPOINT, disk.WEIGHTS, disk.PLACE, "weights.json", "curves.csv", "curves.png"} <= names


def test_written_weights_are_a_network_that_runs(footage, tmp_path):
    trainer = _trainer(footage, tmp_path)
    trainer.run(until=3)
    with (tmp_path / "curves.csv").open() as file:
        assert [row["stage"] for row in csv.DictReader(file)] == ["encoder"] * 3
    model = load_model(tmp_path / disk.WEIGHTS)
    assert Reconstructor(model, "cut3r").push(np.zeros((48, 64, 3), np.uint8)).depth.shape == (48, 64)
    again = _trainer(footage, tmp_path)
    again.start_from(tmp_path / disk.WEIGHTS, "long")
    assert again.stage.name == "long"
    torch.testing.assert_close(again.model.pose_token, trainer.model.pose_token, atol=1e-4, rtol=1e-3)


def test_training_reads_what_the_reconstructor_reads(footage):
    model = fresh_network(SMALLEST, 5).eval()
    takes = footage.cut(np.array([1]), np.arange(6)[None], np.array([0]))
    run = run_streams(model, takes)
    reconstructor = Reconstructor(model, "cut3r", size=None)
    for t, image in enumerate(footage.shards[0].images[1][:6]):
        seen = reconstructor.push(image)
        np.testing.assert_allclose(seen.T_world_camera, run.poses[0, t], atol=1e-5)
        np.testing.assert_allclose(seen.depth, run.depth[0, t], rtol=1e-4)


def test_it_learns_two_frames_by_heart(footage, tmp_path):
    stage = Stage("two", "streams", 50, 1, 1e-2, helpers=Helpers(), warmup=5)
    recipe = dataclasses.replace(SHORT, stages=(stage,))
    trainer = _trainer(footage, tmp_path, recipe)
    takes = footage.cut(np.array([0]), np.array([[0, 1]]), np.array([0]))
    trainer.reels.next = lambda rng: (np.array([True]), takes)
    losses = [trainer.train_step() for _ in range(50)]
    assert losses[-1]["camera"] < 0.4 * losses[0]["camera"]
    assert losses[-1]["translation"] < 0.4 * losses[0]["translation"]


def test_gradients_reach_back_through_the_state_and_no_further_than_the_window(footage):
    model = fresh_network(SMALLEST, 5)
    reels = Reels(footage, 2, (8,), 2, np.random.default_rng(0))
    session = Session.fresh(model, 2)
    lesson = streams_lesson(model, session, reels.next(np.random.default_rng(0))[1], Helpers(passing=1.0))
    assert session.state.requires_grad
    assert set(lesson.helping) == {"passing"}
    sum([*lesson.losses.values(), *lesson.helping.values()]).backward()
    assert model.decoder.register_tokens.weight.grad.abs().sum() > 0
    assert model.pose_memory.write_blocks[0].mlp.fc1.weight.grad.abs().sum() > 0


def test_streams_go_on_where_their_last_window_ended(footage):
    rng = np.random.default_rng(1)
    reels = Reels(footage, 3, (8,), 2, rng)
    for window in range(9):
        starts, takes = reels.next(rng)
        assert starts.tolist() == [window % 4 == 0] * 3
        if starts.all():
            whole = footage.cut(reels.clip, reels.first[:, None] + reels.direction[:, None] * np.arange(8), reels.first)
            torch.testing.assert_close(takes.poses[:, 0], torch.eye(4).expand(3, 4, 4), atol=1e-5, rtol=0)
        at = 2 * (window % 4)
        assert torch.equal(takes.images, whole.images[:, at : at + 2])
        assert torch.equal(takes.poses, whole.poses[:, at : at + 2])


def test_footage_in_the_memory_of_a_device_is_the_same(footage):
    resident = ResidentFootage([*footage.shards, *footage.shards], torch.device("cpu"))
    assert (resident.clips, resident.length) == (8, 12)
    clips, frames, firsts = np.array([3, 5]), np.array([[4, 3, 2], [0, 1, 2]]), np.array([4, 0])
    for found, expected in zip(
        resident.cut(clips, frames, firsts), footage.cut(clips % 4, frames, firsts), strict=True
    ):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_two_heads_of_the_middle_layers_are_watched(footage):
    model = fresh_network(SMALLEST, 5)
    takes = footage.pairs(np.random.default_rng(0), 2)
    with watching(model) as seen:
        read_pair(model, takes)
    assert [tuple(logits.shape) for logits in seen.attention] == [(2, 2, 48, 64)] * 2
    assert not model.decoder._forward_hooks


def test_the_learning_rate_warms_up_and_falls():
    stage = Stage("one", "pairs", 100, 1, 1e-3, warmup=10)
    rates = [learning_rate(stage, i) for i in range(100)]
    assert rates[0] == pytest.approx(1e-4)
    assert max(rates) < 1e-3
    assert rates[-1] < 0.06e-3


def test_helpers_fall_to_zero():
    helpers = Helpers(attention=1.0, until=0.5)
    assert [helpers.left(p) for p in (0.0, 0.25, 0.5, 1.0)] == [1.0, 0.5, 0.0, 0.0]


def test_the_tiny_network_fits_its_package():
    with torch.device("meta"):
        parameters = sum(p.numel() for p in Cut3r(TINY_NETWORK).parameters())
    assert parameters * 2 < 15.9e6


def test_a_window_that_does_not_divide_the_horizon_is_an_error():
    with pytest.raises(TrainError, match="divides every horizon"):
        Stage("odd", "streams", 1, 1, 1e-3, horizons=(8, 9), window=8)


def test_nothing_to_resume_from_is_an_error(tmp_path):
    with pytest.raises(TrainError, match="to resume from"):
        disk.read_checkpoint(tmp_path)


def test_a_similar_trajectory_has_no_error():
    rng = np.random.default_rng(0)
    path = rng.normal(size=(20, 3))
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    assert ate(0.3 * path @ turn.T + 2.0, path) == pytest.approx(0.0, abs=1e-6)
    assert ate(np.zeros((20, 3)), path) == pytest.approx(1.0)
    assert straight_line_ate(np.arange(20.0)[None, :, None] * np.array([1.0, 2.0, 0.5])) == pytest.approx(0.0, abs=1e-6)
