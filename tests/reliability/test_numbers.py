"""Numbers that are none, and pictures that show nothing: the state is never poisoned, and it is said."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import recal3r
from data.seeded import seeded_frames
from networks import seeded_network
from recal3r.engine.health import NUMBERS
from recal3r.engine.session import Session, all_finite, flatten
from recal3r.errors import ImageError
from recal3r.rules import available
from recal3r.sources.open import open_source

FIELDS = ("T_world_camera", "depth", "points_world", "confidence_world", "learning_rate")


@pytest.fixture(scope="module")
def model() -> recal3r.Cut3r:
    """A network of our own: its parts are made to misbehave."""
    return seeded_network("mini-linear")


def recon(model: recal3r.Cut3r, rule: str = "recal3r", **options) -> recal3r.Reconstructor:
    return recal3r.Reconstructor(model, rule, **{"size": None, **options})


@contextmanager
def poisoned(model: recal3r.Cut3r, part: str, value: float, stream: int = 0) -> Generator[None]:
    """One number that a part of the network gives for a stream is `value`."""

    def hurt(tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.clone()
        tensor[stream].view(-1)[7] = value
        return tensor

    def after(_module: object, _inputs: object, output):
        return output._replace(**{part: hurt(getattr(output, part))}) if part != "tokens" else hurt(output)

    handle = (model.image_encoder if part == "tokens" else model.decoder).register_forward_hook(after)
    try:
        yield
    finally:
        handle.remove()


def equal_sessions(one: Session, other: Session) -> bool:
    memories = [{} if session.rule_memory is None else flatten(session.rule_memory, "rule") for session in (one, other)]
    return (
        torch.equal(one.state, other.state)
        and torch.equal(one.pose_memory, other.pose_memory)
        and memories[0].keys() == memories[1].keys()
        and all(torch.equal(memories[0][name], memories[1][name]) for name in memories[0])
    )


def same(one: recal3r.Prediction, other: recal3r.Prediction) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in FIELDS)


# -- NaN and infinity --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", available())
@pytest.mark.parametrize(
    ("part", "value"), [("candidate", np.nan), ("candidate", -np.inf), ("pose", np.nan), ("tokens", np.inf)]
)
def test_a_frame_without_numbers_is_not_written(
    model: recal3r.Cut3r, frames: np.ndarray, rule: str, part: str, value: float
) -> None:
    """The session afterwards is the one of a run that was told not to write that frame, bit for bit."""
    run, told = recon(model, rule), recon(model, rule)
    for frame in frames[:3]:
        run.push(frame)
        told.push(frame)
    with poisoned(model, part, value):
        hurt = run.push(frames[3])
    told.push(frames[3], update=False)
    assert equal_sessions(run.session, told.session)
    assert (hurt.health.finite, hurt.health.unwell) == (False, (NUMBERS,))
    assert [alarm.kind for alarm in hurt.health.alarms] == [NUMBERS]
    assert run.session.places[0].past.unwell[NUMBERS] == 1
    for frame in frames[4:6]:
        one, other = run.push(frame), told.push(frame)
        assert same(one, other)
        assert one.index == other.index
        assert one.health.finite


def test_a_first_frame_without_numbers_is_not_the_first(model: recal3r.Cut3r, frames: np.ndarray) -> None:
    run, fresh = recon(model), recon(model)
    with poisoned(model, "candidate", np.nan):
        assert not run.push(frames[0]).health.finite
    first = run.push(frames[1])
    assert (first.learning_rate == 1).all()
    assert same(first, fresh.push(frames[1]))
    assert same(run.push(frames[2]), fresh.push(frames[2]))


def test_one_stream_without_numbers_leaves_the_others_bit_equal(model: recal3r.Cut3r, frames: np.ndarray) -> None:
    for rule in available():
        run, plain, told = (recon(model, rule, streams=3) for _ in range(3))
        for t in range(6):
            batch = [frames[t], frames[t + 3], frames[11 - t]]
            if t in (0, 3):  # the first frame of a segment, and a later one
                with poisoned(model, "candidate", np.nan, stream=1):
                    found = run.push_batch(batch)
                assert [one.health.finite for one in found] == [True, False, True]
            else:
                found = run.push_batch(batch)
            expected = plain.push_batch(batch)
            alone = told.push_batch(batch, update=[True, t not in (0, 3), True])
            assert same(found[0], expected[0])
            assert same(found[2], expected[2])
            assert t in (0, 3) or same(found[1], alone[1])
        assert torch.equal(run.session.state, told.session.state)


def test_a_segment_does_not_end_with_a_pose_that_is_none(model: recal3r.Cut3r, frames: np.ndarray) -> None:
    for output in ("candidate", "pose"):  # what is written is none; so is what is read
        run = recon(model, reset_interval=3)
        for t, frame in enumerate(frames[:9]):
            if t == 2:
                with poisoned(model, output, np.nan):
                    run.push(frame)
                assert run.session.places[0].segment_frames == 2
            else:
                assert np.isfinite(run.push(frame).T_world_camera).all()
        assert np.isfinite(run.session.places[0].T_world_segment).all()
        assert not np.array_equal(run.session.places[0].T_world_segment, np.eye(4)), "later segments were begun"


def test_without_numbers_where_a_rule_takes_over_and_sizes_change(model: recal3r.Cut3r, frames: np.ndarray) -> None:
    for rule in available():
        run = recon(model, "cut3r")
        run.push(frames[0])
        run = run.fork(rule)
        with poisoned(model, "tokens", np.nan):
            run.push(frames[1])
            run.push(seeded_frames(1, 64, 48)[0])
        for frame in (frames[2], seeded_frames(1, 64, 48)[0], frames[3]):
            found = run.push(frame)
            assert found.health.finite
            assert np.isfinite(found.learning_rate).all()
        assert all_finite(run.session.state, run.session.pose_memory, run.session.rule_memory).all()


def test_a_camera_without_numbers_is_not_written(model: recal3r.Cut3r, frames: np.ndarray) -> None:
    run = recon(model)
    camera = run.push(frames[0]).camera
    before = run.session.fork()
    broken = dataclasses.replace(camera, T_world_camera=np.full((4, 4), np.nan))
    assert not run.push(frames[1], camera=broken).health.finite
    assert equal_sessions(run.session, before)


def test_all_finite_is_per_stream() -> None:
    tree = [torch.zeros(3, 4, 5), torch.zeros(3), torch.zeros(3, 2, dtype=torch.float64)]
    assert all_finite(*tree).tolist() == [True] * 3
    tree[0][0, 3, 4], tree[1][2] = torch.nan, torch.inf
    assert all_finite(*tree).tolist() == [False, True, False]


# -- pictures that show nothing ----------------------------------------------------------------------------------------

NOISE = np.random.default_rng(0).integers(0, 256, (48, 64, 3), dtype=np.uint8)
PICTURES = {
    "black": np.zeros_like(NOISE),
    "saturated": np.full_like(NOISE, 255),
    "noise": NOISE,
    "one pixel lit": np.where(np.arange(NOISE.size).reshape(NOISE.shape) == 1000, 255, 0).astype(np.uint8),
    "checkers": ((np.indices(NOISE.shape[:2]).sum(0) % 2)[..., None] * np.full(3, 255)).astype(np.uint8),
}


@pytest.mark.parametrize("rule", available())
@pytest.mark.parametrize("picture", PICTURES)
def test_pictures_that_show_nothing(model: recal3r.Cut3r, frames: np.ndarray, rule: str, picture: str) -> None:
    """First, in mid-stream, twice in a row, and what comes after."""
    run = recon(model, rule)
    for frame in (PICTURES[picture], frames[0], PICTURES[picture], PICTURES[picture], frames[1]):
        found = run.push(frame)
        assert found.health.finite
        assert all(np.isfinite(getattr(found, name)).all() for name in FIELDS)
        assert found.learning_rate.min() >= 0
        assert found.learning_rate.max() <= 1
    assert all_finite(run.session.state, run.session.pose_memory).all()


def test_sizes_of_every_kind_in_one_stream(model: recal3r.Cut3r, tmp_path: Path) -> None:
    """Pictures are fitted, or refused in one sentence that leaves the stream as it was."""
    sizes = {(64, 48): True, (1, 1): True, (48, 64): True, (20000, 20): False, (20, 20000): False, (4000, 3000): True}
    run, plain = recon(model, size="auto"), recon(model, size="auto")
    for (width, height), fits in sizes.items():
        Image.new("RGB", (width, height), (90, 120, 30)).save(tmp_path / f"{width}x{height}.png")
        (frame,) = open_source(tmp_path / f"{width}x{height}.png")
        if fits:
            found, expected = run.push(frame), plain.push(frame)
            assert same(found, expected)
            assert np.isfinite(found.points_world).all()
            assert (found.camera.original.width, found.camera.original.height) == (width, height)
        else:
            with pytest.raises(ImageError, match="too thin") as caught:
                run.push(frame)
            assert "\n" not in str(caught.value)
    with pytest.raises(ImageError, match="whole patches"):
        recon(model, size=None).push(np.zeros((1, 1, 3), np.uint8))
