"""The monitor says what it should when it should, and nothing of a stream that is well."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import recal3r
from data.seeded import seeded_frames
from networks import DATA
from recal3r.engine.health import Limits, Past, examined
from recal3r.errors import SessionError, StreamError
from recal3r.types import Health, Prediction

WELL = (True, 5.0, 0.0)  # numbers, ‖S - S_0‖, the share that stood still


def walked(metres: float, degrees: float = 0.0) -> np.ndarray:
    angle = np.radians(degrees)
    T = np.eye(4)
    T[:3, :3] = [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    T[0, 3] = metres
    return T


def shown(index: int, confidence: float = 3.0, entropy: float = 0.5, T: np.ndarray | None = None) -> Prediction:
    return Prediction(
        index,
        T_world_camera=walked(0.1 * index) if T is None else T,
        confidence_camera=np.full((8, 8), confidence, np.float32),
        learning_rate=np.full(6, 0.3, np.float32),
        signals={"entropy": np.full(6, entropy, np.float32)},
    )


def story(*frames: tuple[tuple[bool, float, float], Prediction], limits: Limits = Limits()) -> list[Health]:  # noqa: B008
    past, told = Past(), []
    for reading, prediction in frames:
        past, health = examined(past, limits, reading, prediction)
        told.append(health)
    return told


def alarms(told: list[Health]) -> list[tuple[int, str]]:
    return [(frame, alarm.kind) for frame, health in enumerate(told) for alarm in health.alarms]


def test_a_stream_that_is_well_is_left_in_peace() -> None:
    rng = np.random.default_rng(0)
    frames = [
        ((True, rng.uniform(4, 7), rng.uniform(0, 0.3)), shown(t, rng.uniform(2, 5), rng.uniform(0.3, 0.9)))
        for t in range(300)
    ]
    told = story(*frames)
    assert alarms(told) == []
    assert all(health.finite and health.unwell == () for health in told)
    assert told[-1].vitals.keys() == {"frozen", "drift", "entropy", "confidence", "turn", "step"}


@pytest.mark.parametrize(
    ("kind", "reading", "what"),
    [
        ("drift", (True, 16.0, 0.0), {}),
        ("frozen", (True, 5.0, 0.6), {}),
        ("entropy", WELL, {"entropy": 0.01}),
        ("confidence", WELL, {"confidence": 1.01}),
    ],
)
def test_what_lasts_is_said_once_when_it_has_lasted(kind: str, reading: tuple[bool, float, float], what: dict) -> None:
    limits = Limits(patience=5)
    well = [(WELL, shown(t)) for t in range(40)]
    ill = [(reading, shown(t, **what)) for t in range(40, 50)]
    again = [(WELL, shown(t)) for t in range(50, 55)] + [(reading, shown(t, **what)) for t in range(55, 60)]
    told = story(*well, *ill, *again, limits=limits)
    assert alarms(told) == [(44, kind), (59, kind)]
    assert [frame for frame, health in enumerate(told) if health.unwell] == [*range(44, 50), 59]
    sentence = told[44].alarms[0].sentence
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert f"limit {getattr(limits, kind):g}" in sentence
    assert alarms(story(*well, *ill[:4], *((WELL, shown(t)) for t in range(44, 60)))) == [], (
        "what does not last is not said"
    )


@pytest.mark.parametrize(("kind", "T"), [("jump", walked(6.0)), ("turn", walked(4.0, 90))])
def test_a_jump_is_said_at_once(kind: str, T: np.ndarray) -> None:
    told = story(*((WELL, shown(t)) for t in range(40)), (WELL, shown(40, T=T)))
    assert alarms(told) == [(40, kind)]


def test_limits_are_parameters() -> None:
    frames = [*((WELL, shown(t)) for t in range(40)), (WELL, shown(40, T=walked(4.0, 90)))]
    assert alarms(story(*frames, limits=Limits(turn=91))) == []
    tight = Limits(drift=0.9, frozen=1e-9, entropy=0.9, confidence=1.1, patience=3)
    said = story(*[((True, 5.0, 0.1), shown(t)) for t in range(5)], limits=tight)
    assert alarms(said) == [(2, "drift"), (2, "frozen"), (2, "entropy"), (3, "confidence")]
    for wrong in ({"patience": 1.5}, {"patience": 0}, {"drift": float("nan")}, {"turn": -1.0}, {"still": True}):
        with pytest.raises(StreamError, match=f"{next(iter(wrong))}=") as caught:
            Limits(**wrong)
        assert "\n" not in str(caught.value)


def test_numbers_that_are_none_are_not_what_is_usual() -> None:
    broken = dataclasses.replace(shown(20), T_world_camera=np.full((4, 4), np.nan))
    told = story(*((WELL, shown(t)) for t in range(20)), (WELL, broken), ((False, np.nan, np.nan), shown(21)),
                 *((WELL, shown(t)) for t in range(22, 60)))  # fmt: skip
    assert alarms(told) == [(20, "numbers")]
    assert [health.finite for health in told[19:23]] == [True, False, False, True]
    assert "pose" in told[20].alarms[0].sentence


# -- on a network ------------------------------------------------------------------------------------------------------


def test_a_rule_that_never_writes_freezes_the_state(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run = recal3r.Reconstructor(mini, "constant(rate=0)", size=None, health=Limits(patience=4, turn=181))
    told = [run.push(frame).health for frame in frames[:8]]
    assert alarms(told) == [(4, "frozen")]
    assert told[4].vitals["frozen"] == 1
    assert told[4].vitals["drift"] == pytest.approx(1), "the state stands where the first frame put it"


def test_nothing_is_watched_where_that_is_asked_for(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    run = recal3r.Reconstructor(mini, "constant(rate=0)", size=None, health=None)
    assert all(run.push(frame).health == Health() for frame in frames)


def test_watching_changes_no_number(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    watched, not_watched = (recal3r.Reconstructor(mini, size=None, health=health) for health in (Limits(), None))
    for frame in frames:
        one, other = watched.push(frame), not_watched.push(frame)
        assert np.array_equal(one.points_world, other.points_world)
        assert np.array_equal(one.learning_rate, other.learning_rate)


def test_the_past_is_saved(mini: recal3r.Cut3r, frames: np.ndarray, tmp_path: Path) -> None:
    run = recal3r.Reconstructor(mini, size=None, reset_interval=5, health=Limits(patience=9, frozen=0.1, still=0.5))
    for frame in frames[:7]:
        run.push(frame)
    run.save(tmp_path / "session")
    loaded = recal3r.Reconstructor.load(tmp_path / "session", mini)
    assert loaded.health == run.health
    for frame in frames[7:]:
        assert loaded.push(frame).health == run.push(frame).health
    assert loaded.session.places[0].past == run.session.places[0].past


# -- what older versions saved -----------------------------------------------------------------------------------------


def test_a_session_of_format_1_goes_on(mini: recal3r.Cut3r, frames: np.ndarray) -> None:
    """Saved before there was health, after 7 frames."""
    loaded = recal3r.Reconstructor.load(DATA / "session-format-1.safetensors", mini)
    assert loaded.health == Limits()
    assert loaded.session.places[0].past == Past()
    run = recal3r.Reconstructor(mini, "ttt3r", size=None, reset_interval=5)
    for frame in frames[:7]:
        run.push(frame)
    for frame in frames[7:]:
        found, expected = loaded.push(frame), run.push(frame)
        np.testing.assert_allclose(found.points_world, expected.points_world, atol=1e-3)
        assert found.index == expected.index
        assert found.health.finite


def test_a_session_of_a_newer_format_says_so(mini: recal3r.Cut3r, tmp_path: Path) -> None:
    path = tmp_path / "session"
    recal3r.Reconstructor(mini).save(path)
    content = path.read_bytes()
    assert content.count(b'\\"format_version\\": 2') == 1
    path.write_bytes(content.replace(b'\\"format_version\\": 2', b'\\"format_version\\": 3'))
    with pytest.raises(SessionError, match=r"saved in format 3.*formats up to 2"):
        recal3r.Reconstructor.load(path, mini)


def test_a_stream_of_minutes_is_not_called_ill_for_nothing(mini: recal3r.Cut3r) -> None:
    """Untrained, so that its poses say nothing; what it does to its state is of the usual size."""
    run = recal3r.Reconstructor(mini, size=None, outputs=("pose", "learning_rate"))
    told = [run.push(frame).health for frame in seeded_frames(200, 48, 64)]
    assert {kind for _, kind in alarms(told)} <= {"jump", "turn"}
