"""The stream: sessions, segments, batches, forks, and what it costs to let it run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import recal3r
from data.seeded import seeded_frames
from networks import seeded_network
from recal3r.engine.outputs import EVERYTHING
from recal3r.engine.step import PROBES
from recal3r.errors import ImageError, RuleError, SessionError, StreamError
from recal3r.model.decoder import Reading
from recal3r.types import Prediction

FIELDS = ("T_world_camera", "points_camera", "depth", "confidence_camera", "points_world", "confidence_world")


def same(one: Prediction, other: Prediction) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


def recon(model: recal3r.Cut3r, rule: str = "recal3r", **options) -> recal3r.Reconstructor:
    return recal3r.Reconstructor(model, rule, **{"size": None, **options})


# -- saving and forking ----------------------------------------------------------------------------------------------


def test_continues_in_a_new_process_bit_for_bit(mini: recal3r.Cut3r, frames: np.ndarray, tmp_path: Path) -> None:
    running = recon(mini, "memix(recal3r(mean_anchor=true))", reset_interval=5)
    for frame in frames[:7]:
        running.push(frame)
    running.save(tmp_path / "session")
    expected = [running.push(frame) for frame in frames[7:]]
    script = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import numpy as np, recal3r
from networks import seeded_network
from data.seeded import seeded_frames
recon = recal3r.Reconstructor.load({str(tmp_path / "session")!r}, seeded_network("mini-linear"))
found = [recon.push(frame) for frame in seeded_frames(12, 48, 64)[7:]]
np.savez({str(tmp_path / "found.npz")!r}, points=np.stack([p.points_world for p in found]),
         poses=np.stack([p.T_world_camera for p in found]), rates=np.stack([p.learning_rate for p in found]),
         index=[p.index for p in found])
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    with np.load(tmp_path / "found.npz") as found:
        assert np.array_equal(found["points"], np.stack([p.points_world for p in expected]))
        assert np.array_equal(found["poses"], np.stack([p.T_world_camera for p in expected]))
        assert np.array_equal(found["rates"], np.stack([p.learning_rate for p in expected]))
        assert found["index"].tolist() == [7, 8, 9, 10, 11]


def test_forks_do_not_disturb_each_other(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    def alone(rule: str) -> list[Prediction]:
        run = recon(mini, "ttt3r")
        for frame in frames[:5]:
            run.push(frame)
        run = run.fork(rule)
        return [run.push(frame) for frame in frames[5:9]]

    one = recon(mini, "ttt3r")
    for frame in frames[:5]:
        one.push(frame)
    two = one.fork("recal3r")
    interleaved = [(one.push(frame), two.push(frame)) for frame in frames[5:9]]
    for (a, b), expected_a, expected_b in zip(interleaved, alone("ttt3r"), alone("recal3r"), strict=True):
        assert same(a, expected_a)
        assert same(b, expected_b)
    assert not same(*interleaved[-1])


def test_a_damaged_or_foreign_session_is_one_sentence(mini: recal3r.Cut3r, frames: np.ndarray, tmp_path: Path) -> None:
    run = recon(mini)
    run.push(frames[0])
    path = tmp_path / "session"
    run.save(path)
    whole = path.read_bytes()

    def refused(model: recal3r.Cut3r, match: str) -> None:
        with pytest.raises(SessionError, match=match) as caught:
            recal3r.Reconstructor.load(path, model)
        assert "\n" not in str(caught.value)

    refused(seeded_network("mini-linear", torch.float64), "other weights or another dtype")
    refused(seeded_network("mini-dpt"), "other weights")
    for damaged in (b"", whole[:100], whole[: len(whole) // 2], b"x" * 500):
        path.write_bytes(damaged)
        refused(mini, "no saved session, or a damaged one")
    flipped = bytearray(whole)
    flipped[-5] ^= 1
    path.write_bytes(flipped)
    refused(mini, "checksum")
    path.unlink()
    refused(mini, "There is no saved session")


def test_saving_leaves_no_litter(mini: recal3r.Cut3r, tmp_path: Path) -> None:
    recon(mini).save(tmp_path / "session")
    assert [path.name for path in tmp_path.iterdir()] == ["session"]
    with pytest.raises(RuleError, match="has no name"):
        recon(mini, OwnRule()).save(tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["session"]


# -- batches ---------------------------------------------------------------------------------------------------------


def batches(frames: np.ndarray) -> list[list[np.ndarray]]:
    """Three streams that show different frames."""
    return [[frames[t], frames[(t + 3) % 12], frames[11 - t]] for t in range(8)]


@pytest.mark.parametrize("rule", ["cut3r", "ttt3r", "ttsa3r", "memix", "recal3r", "recal3r-release"])
def test_a_batch_equals_its_streams_alone(rule: str, frames: np.ndarray) -> None:
    model = seeded_network("mini-linear", torch.float64)
    together = recon(model, rule, streams=3)
    found = [together.push_batch(batch) for batch in batches(frames)]
    for stream in range(3):
        alone = recon(model, rule)
        for t, batch in enumerate(batches(frames)):
            expected = alone.push(batch[stream])
            for name in (*FIELDS, "learning_rate"):
                np.testing.assert_allclose(
                    getattr(found[t][stream], name), getattr(expected, name), atol=1e-9, rtol=0, err_msg=name
                )


@pytest.mark.parametrize("rule", ["cut3r", "ttt3r", "ttsa3r", "memix", "recal3r", "recal3r-release"])
def test_resetting_one_stream_leaves_the_others_bit_equal(rule: str, mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    undisturbed, disturbed = recon(mini, rule, streams=3), recon(mini, rule, streams=3)
    fresh = recon(mini, rule, streams=3)
    for t, batch in enumerate(batches(frames)):
        if t == 4:
            disturbed.reset(stream=1)
        expected, found = undisturbed.push_batch(batch), disturbed.push_batch(batch)
        assert same(expected[0], found[0])
        assert same(expected[2], found[2])
        assert same(expected[1], found[1]) == (t < 4)
        if t >= 4:  # the reset stream goes on as a fresh one
            started = fresh.push_batch(batch)
            assert same(started[1], found[1])
            assert found[1].index == t - 4


def test_one_stream_of_a_batch_not_written(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run = recon(mini, streams=2)
    run.push_batch([frames[0], frames[1]])
    before = run.session.fork()
    run.push_batch([frames[2], frames[3]], update=[True, False])
    assert not torch.equal(run.session.state[0], before.state[0])
    assert torch.equal(run.session.state[1], before.state[1])
    assert torch.equal(run.session.pose_memory[1], before.pose_memory[1])
    assert torch.equal(run.session.rule_memory.pressure[1], before.rule_memory.pressure[1])


def test_frames_of_changing_size(mini: recal3r.Cut3r) -> None:
    for rule in recal3r.rules.available():
        run = recon(mini, rule)
        for height, width in ((48, 64), (64, 48), (16, 16), (48, 64), (32, 160)):
            found = run.push(seeded_frames(1, height, width)[0])
            assert found.depth.shape == (height, width)
            assert np.isfinite(found.points_world).all()
    run = recon(mini, "ttsa3r", streams=2)
    run.push_batch(list(seeded_frames(2, 48, 64)))
    with pytest.raises(StreamError, match="frame size changed"):
        run.push_batch(list(seeded_frames(2, 64, 48)), update=[True, False])


# -- reading without writing -----------------------------------------------------------------------------------------


def test_query_and_unwritten_frames_leave_the_session_alone(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run, plain = recon(mini), recon(mini)
    for t in range(6):
        if t:  # look around between frames
            camera = plain_prediction.camera  # noqa: F821  # of the frame before
            assert np.isfinite(run.query(camera).points_world).all()
        run.push(frames[11], update=False)
        plain_prediction = plain.push(frames[t])
        assert same(run.push(frames[t]), plain_prediction)


def test_an_unwritten_first_frame_is_not_the_first(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run = recon(mini)
    unwritten = run.push(frames[0], update=False)
    assert unwritten.learning_rate is None
    first = run.push(frames[0])
    assert (first.learning_rate == 1).all()
    assert (unwritten.index, first.index) == (0, 1)


def test_a_known_camera_changes_what_is_seen(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run = recon(mini)
    camera = run.push(frames[0]).camera
    assert not same(run.push(frames[1], camera=camera, update=False), run.push(frames[1], update=False))


# -- segments --------------------------------------------------------------------------------------------------------


def test_reset_interval_by_hand(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    """Reset after frames 3 and 7; each is seen again as the first of the next segment; poses are chained."""
    run, by_hand = recon(mini, "ttt3r", reset_interval=4), recon(mini, "ttt3r")
    base = np.eye(4)
    for t, frame in enumerate(frames[:10]):
        found, expected = run.push(frame), by_hand.push(frame)
        np.testing.assert_allclose(found.T_world_camera, base @ expected.T_world_camera, atol=1e-12)
        moved = expected.points_world @ base[:3, :3].T + base[:3, 3]
        np.testing.assert_allclose(found.points_world, moved, atol=1e-4)
        np.testing.assert_allclose(found.camera.T_world_camera, found.T_world_camera)
        assert found.index == t
        if t in (3, 7):
            base = base @ expected.T_world_camera
            by_hand.reset()
            by_hand.push(frame)


def test_segments_need_no_pose_output(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    full, depth_only = recon(mini, reset_interval=3), recon(mini, reset_interval=3, outputs=("depth",))
    for frame in frames[:8]:
        one, other = full.push(frame), depth_only.push(frame)
        assert np.array_equal(one.depth, other.depth)
        assert other.T_world_camera is None
    places = zip(full.session.places, depth_only.session.places, strict=True)
    assert all(np.array_equal(a.T_world_segment, b.T_world_segment) for a, b in places)


def test_reset_is_a_new_world(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run, fresh = recon(mini, reset_interval=3), recon(mini, reset_interval=3)
    for frame in frames[:5]:
        run.push(frame)
    run.reset()
    for frame in frames[5:]:
        one, other = run.push(frame), fresh.push(frame)
        assert same(one, other)
        assert one.index == other.index


# -- outputs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", ["mini-linear", "mini-dpt"])
@pytest.mark.parametrize("output", EVERYTHING)
def test_only_what_is_asked_for_is_computed(network: str, output: str, frames: np.ndarray) -> None:
    model = seeded_network(network)
    ran: set[str] = set()
    for name in ("pose", "camera", "world", "rgb", "to_world.0"):
        model.heads.get_submodule(name).register_forward_hook(lambda *_, name=name: ran.add(name))
    run, full = recon(model, outputs=(output,)), recon(seeded_network(network), outputs=EVERYTHING)
    for frame in frames[:2]:
        found, expected = run.push(frame), full.push(frame)
    fields = {"pose": "T_world_camera"}
    for name in EVERYTHING:
        value = getattr(found, fields.get(name, name))
        if name != output:
            assert value is None
        elif name == "camera":
            assert np.array_equal(value.intrinsics, expected.camera.intrinsics)
        else:
            assert np.array_equal(value, getattr(expected, fields.get(name, name)))
    needed = {
        "pose": {"pose"},
        "camera": {"pose", "camera"},
        "rgb": {"rgb"},
        "learning_rate": set(),
        "reliability": set(),
    }
    needed |= {name: {"camera"} for name in ("depth", "points_camera", "confidence_camera")}
    needed |= {name: {"world", "to_world.0"} for name in ("points_world", "confidence_world")}
    assert ran == needed[output]


def test_reliability_of_pixels_is_that_of_the_tokens_they_were_read_from(
    mini: recal3r.Cut3r, frames: np.ndarray
) -> None:
    run = recon(mini, "recal3r", outputs=("reliability", "learning_rate"))
    assert run.push(frames[0]).reliability is None, "on the first frame no token has a past"
    for frame in frames[1:4]:
        found = run.push(frame)
        assert found.reliability.shape == frame.shape[:2]
        rho, patches = found.signals["reliability"], found.reliability[::16, ::16]
        assert rho.min() - 1e-6 <= patches.min() < patches.max() <= rho.max() + 1e-6
        assert np.array_equal(np.kron(patches, np.ones((16, 16), np.float32)), found.reliability)
    assert recon(mini, "ttt3r", outputs=("reliability",)).push(frames[0]).reliability is None


def test_reading_is_the_mean_over_heads_of_attention_to_state_tokens() -> None:
    torch.manual_seed(0)
    queries, keys = torch.randn(2, 3, 1 + 5, 8, dtype=torch.float64), torch.randn(2, 3, 7, 8, dtype=torch.float64)
    values = torch.rand(2, 7, dtype=torch.float64)
    maps = (queries[:, :, 1:] @ keys.transpose(-1, -2) / 8**0.5).softmax(-1).mean(1)
    torch.testing.assert_close(Reading(queries, keys).of(values), (maps @ values[..., None])[..., 0])


def test_plain_and_fused_statistics_give_the_same_stream(frames: np.ndarray) -> None:
    model = seeded_network("mini-linear", torch.float64)
    assert set(PROBES) == {True, False}
    for rule in recal3r.rules.available():
        fused, plain = recon(model, rule), recon(model, rule, fast=False)
        for frame in frames[:6]:
            np.testing.assert_allclose(fused.push(frame).points_world, plain.push(frame).points_world, atol=1e-9)


def test_bfloat16_runs_and_stays_near(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    exact, rounded = recon(mini, "cut3r"), recon(seeded_network("mini-linear", torch.bfloat16), "cut3r")
    for frame in frames[:4]:
        one, other = exact.push(frame), rounded.push(frame)
        assert other.points_world.dtype == np.float32
        assert np.median(np.abs(one.points_world - other.points_world)) < 0.1
    assert not np.array_equal(one.points_world, other.points_world)


# -- wrong use -------------------------------------------------------------------------------------------------------


class OwnRule(recal3r.rules.Memoryless):
    def step(self, evidence, memory):
        return recal3r.rules.Decision(evidence.candidate.new_full((1, 48), 0.5), memory)


def test_wrong_use_is_one_sentence(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run = recon(mini)
    wrong = [
        (ImageError, lambda: run.push(frames[0].astype(np.float32))),
        (ImageError, lambda: run.push(frames[0, ..., 0])),
        (ImageError, lambda: run.push(frames[0, :0])),
        (ImageError, lambda: run.push(frames[0, :40])),
        (ImageError, lambda: run.push("picture.png")),
        (StreamError, lambda: run.push_batch([frames[0], frames[1]])),
        (StreamError, lambda: recon(mini, outputs=("depht",))),
        (StreamError, lambda: recon(mini, reset_interval=1)),
        (StreamError, lambda: recon(mini, streams=0)),
        (StreamError, lambda: recon(mini, fast=None)),
        (StreamError, lambda: recon(mini, streams=2).query(run.push(frames[0]).camera)),
        (StreamError, lambda: run.reset(stream=1)),
        (ImageError, lambda: recon(mini, streams=2).push_batch([frames[0], seeded_frames(1, 64, 48)[0]])),
        (ImageError, lambda: recon(mini, size="large")),
        (ImageError, lambda: recon(mini, size=8)),
        (ImageError, lambda: recon(mini, size="auto").push(np.zeros((1, 500, 3), np.uint8))),
        (RuleError, lambda: recon(mini, "recal4r")),
        (RuleError, lambda: (own := recon(mini, OwnRule())).push(frames[0]) and own.push(frames[1])),
    ]
    for at, (error, action) in enumerate(wrong):
        with pytest.raises(error) as caught:
            action()
        assert "\n" not in str(caught.value), at
        assert str(caught.value).endswith("."), at


def test_a_refused_frame_changes_nothing(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run, plain = recon(mini), recon(mini)
    run.push(frames[0])
    plain.push(frames[0])
    with pytest.raises(ImageError):
        run.push(frames[1, :40])
    one, other = run.push(frames[1]), plain.push(frames[1])
    assert same(one, other)
    assert one.index == other.index == 1


# -- memory ----------------------------------------------------------------------------------------------------------


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads resident memory from /proc")
@pytest.mark.parametrize("rule", ["recal3r"])
def test_two_thousand_frames_in_constant_memory(rule: str, mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run = recon(mini, rule, outputs=EVERYTHING)
    at_200 = 0
    for t in range(2000):
        run.push(frames[t % 12])
        if t == 200:
            at_200 = resident_bytes()
    assert resident_bytes() - at_200 < 5_000_000
    assert torch.isfinite(run.session.state).all()
