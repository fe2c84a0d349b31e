"""Whether a stream is well: a few numbers a frame, held against limits that are parameters.

B streams · N state tokens · S the state, S_0 the one it began with
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor

from recal3r.errors import StreamError
from recal3r.geometry.vector import lengths
from recal3r.types import Alarm, Health, Prediction

if TYPE_CHECKING:
    from recal3r.engine.session import Session
    from recal3r.engine.step import Outcome

_log = logging.getLogger("recal3r.health")
NUMBERS = "numbers"
"""The condition of a frame whose numbers are NaN or infinite. It needs no limit."""
_EVERY = 4  # rows and columns of the confidence map that are looked at
_LEARNING = 0.02  # how much of a new frame goes into what is usual
_WARM_UP = 20  # frames until it is known what is usual


@dataclass(frozen=True)
class Limits:
    """Beyond which a stream is unwell. What a stream was not asked to compute is not watched."""

    drift: float = 3.0
    """mean_m ‖S_m - S_0,m‖, as a multiple of what it was after the first frame of the segment"""
    frozen: float = 0.5
    """share of the tokens that moved by less than `still`"""
    still: float = 1e-3
    """the rate β below which a token does not move"""
    entropy: float = 0.05
    """mean over the tokens of their attention's entropy, of the most there could be; of rules that measure it"""
    confidence: float = 0.1
    """median over the pixels of confidence - 1, as a multiple of what is usual in the stream"""
    jump: float = 20.0
    """length of the camera's step, as a multiple of what is usual in the stream"""
    turn: float = 60.0
    """degrees by which the camera turned"""
    patience: int = 30
    """frames in a row that drift, frozen tokens, entropy and confidence have to be beyond their limit"""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            whole = name != "patience" or isinstance(value, int)
            if isinstance(value, bool) or not whole or not value > 0:
                raise StreamError(f"The health limit {name}={value!r} is none; use a number above 0.")


def limits_of(asked: str | Mapping[str, Any] | Limits | None) -> Limits | None:
    """Limits from their names and numbers, as text `drift=2,patience=50` or as a mapping; `none` watches nothing."""
    if asked is None or isinstance(asked, Limits):
        return asked
    if isinstance(asked, str):
        if asked.strip() == "none":
            return None
        asked = dict(_named(word) for word in asked.split(",") if word.strip())
    names = [field.name for field in fields(Limits)]
    unknown = sorted(set(asked) - set(names))
    if unknown:
        raise StreamError(f"There is no health limit named {unknown[0][:40]!r}; there are {', '.join(names)}.")
    return Limits(**asked)


def _named(word: str) -> tuple[str, float]:
    name, _, number = (part.strip() for part in word.partition("="))
    try:
        value = float(number)
    except ValueError:
        raise StreamError(f"{word.strip()[:40]!r} is no health limit; write them like drift=2,patience=50.") from None
    return name, int(value) if value.is_integer() else value


@dataclass(frozen=True)
class Past:
    """What a stream's health is judged by: as many numbers however long it is. Replaced with every frame."""

    first_drift: float | None = None  # after the segment's first frame
    usual_confidence: float | None = None
    usual_step: float | None = None
    steps: int = 0  # that went into what is usual
    last_pose: tuple[tuple[float, ...], ...] | None = None  # T_world_camera, the upper three rows
    beyond: Mapping[str, int] = field(default_factory=dict[str, int])  # frames in a row, by condition
    unwell: Mapping[str, int] = field(default_factory=dict[str, int])  # frames of the whole stream, by condition
    alarms: Mapping[str, int] = field(default_factory=dict[str, int])  # by condition

    def __post_init__(self) -> None:
        """As it is, or as it comes back from JSON."""
        numbers = (self.first_drift, self.usual_confidence, self.usual_step, self.steps)
        counts = [count for part in (self.beyond, self.unwell, self.alarms) for count in part.values()]
        pose = None if self.last_pose is None else np.array(self.last_pose, np.float64)
        if not all(number is None or math.isfinite(number) for number in (*numbers, *counts)):
            raise ValueError("a past of numbers that are none")
        if pose is not None and (pose.shape != (3, 4) or not np.isfinite(pose).all()):
            raise ValueError("a past with a pose that is none")


@dataclass(frozen=True)
class _Condition:
    """One way of being unwell: `vital` above (or below) the limit of the condition's name."""

    vital: str
    sentence: str  # of the vital and the limit, as {vital} and {limit}
    below: bool = False
    patient: bool = True

    def holds(self, vital: float, limit: float) -> bool:
        return vital < limit if self.below else vital > limit


_CONDITIONS: Mapping[str, _Condition] = {
    "drift": _Condition(
        "drift",
        "The state is {vital:.3g} times as far from where it began as after the segment's first frame "
        "(limit {limit:g}); a reset_interval would begin anew now and then.",
    ),
    "frozen": _Condition(
        "frozen",
        "A share of {vital:.3g} of the state's tokens hardly moves any more (limit {limit:g}); "
        "a rule with a higher rate would take in what is new.",
    ),
    "entropy": _Condition(
        "entropy",
        "The state looks at hardly any patch but a few: entropy {vital:.3g} (limit {limit:g}); "
        "look whether the pictures still show something.",
        below=True,
    ),
    "confidence": _Condition(
        "confidence",
        "The network is {vital:.3g} times as sure of its depth as usual (limit {limit:g}); "
        "look whether the pictures are dark, blurred or of another place.",
        below=True,
    ),
    "jump": _Condition(
        "step",
        "The camera's step is {vital:.3g} times as long as usual (limit {limit:g}); frames may be missing here.",
        patient=False,
    ),
    "turn": _Condition(
        "turn",
        "The camera turned by {vital:.3g} degrees between two frames (limit {limit:g}); frames may be missing here.",
        patient=False,
    ),
}
_NOT_WRITTEN = "The network gave NaN or infinity for this frame: nothing of it was written into the state."
_NO_POSE = "The network gave this frame a pose or focal length of NaN or infinity: where it was taken is not known."


def readings(session: Session, outcome: Outcome, limits: Limits | None) -> list[tuple[bool, float, float]]:
    """Of every stream, as one transfer from the device: whether its numbers were finite, ‖S - S_0‖ and the share of
    tokens that stood still; NaN for what there is none of."""
    sound = outcome.sound
    if sound is None:  # nothing was to be written
        sound = torch.ones(len(session.places), dtype=torch.bool, device=session.state.device)
    unknown = torch.full_like(session.state[:, 0, 0], torch.nan)
    distance, still = unknown, unknown
    if limits is not None:
        distance = lengths(session.state - session.initial_state).mean(-1)
        still = unknown if outcome.rate is None else _share(outcome.rate < limits.still).to(unknown.dtype)
    numbers = cast("list[list[float]]", torch.stack((sound.to(unknown.dtype), distance, still), dim=1).tolist())
    return [(bool(sound), distance, still) for sound, distance, still in numbers]


def _share(flags: Tensor) -> Tensor:  # [B, N] -> [B]
    return flags.float().mean(-1)


def examined(
    past: Past, limits: Limits | None, reading: tuple[bool, float, float], prediction: Prediction
) -> tuple[Past, Health]:
    """What a frame says of its stream's health, and what is to be remembered of it."""
    sound, distance, still = reading
    if not sound:
        return _judged(past, limits, {}, _NOT_WRITTEN)
    if not _is_finite(prediction):
        return _judged(past, limits, {}, _NO_POSE)
    if limits is None:
        return _judged(past, limits, {})
    if past.first_drift is None and prediction.learning_rate is not None:
        past = replace(past, first_drift=distance)
    vitals = {"frozen": still, **_drift(past, distance), **_entropy(prediction)}
    past, confidence = _confidence(past, prediction)
    past, motion = _motion(past, prediction)
    known = {name: value for name, value in {**vitals, **confidence, **motion}.items() if not math.isnan(value)}
    return _judged(past, limits, known)


def _judged(
    past: Past, limits: Limits | None, vitals: Mapping[str, float], broken: str | None = None
) -> tuple[Past, Health]:
    """`broken`: what is wrong with the numbers of a frame of which nothing else is known."""
    sentences = {} if broken is None else {NUMBERS: broken}
    for name, condition in _CONDITIONS.items():
        vital, limit = vitals.get(condition.vital), math.nan if limits is None else getattr(limits, name)
        if vital is not None and condition.holds(vital, limit):
            sentences[name] = condition.sentence.format(vital=vital, limit=limit)
    kept = past.beyond if broken else dict[str, int]()  # what was beyond its limit is neither better nor worse
    beyond = {**kept, **{name: past.beyond.get(name, 0) + 1 for name in sentences}}
    needed = {name: limits.patience if limits and _is_patient(name) else 1 for name in sentences}
    unwell = tuple(name for name in sentences if beyond[name] >= needed[name])
    alarms = tuple(Alarm(name, sentences[name]) for name in unwell if beyond[name] == needed[name])
    past = replace(
        past,
        beyond=beyond,
        unwell=_counted(past.unwell, unwell),
        alarms=_counted(past.alarms, [alarm.kind for alarm in alarms]),
    )
    return past, Health(broken is None, unwell, alarms, vitals)


def _is_patient(name: str) -> bool:
    return name in _CONDITIONS and _CONDITIONS[name].patient


def _counted(counts: Mapping[str, int], names: Sequence[str]) -> Mapping[str, int]:
    return {**counts, **{name: counts.get(name, 0) + 1 for name in names}}


def told_to_the_log(index: int, health: Health, past: Past) -> None:
    """The first of each kind, the second, the fourth, the eighth...: a stream runs for days."""
    for alarm in health.alarms:
        many = past.alarms[alarm.kind]
        if many & (many - 1) == 0:
            _log.warning("frame %d: %s%s", index, alarm.sentence, f" ({many} times so far)" if many > 1 else "")


# -- vitals: each a number, or none where the stream does not say it -------------------------------------------------


def _drift(past: Past, distance: float) -> dict[str, float]:
    return {"drift": distance / past.first_drift} if past.first_drift else {}


def _entropy(prediction: Prediction) -> dict[str, float]:
    entropy = prediction.signals.get("entropy")
    return {} if entropy is None else {"entropy": float(np.mean(entropy, dtype=np.float64))}


def _confidence(past: Past, prediction: Prediction) -> tuple[Past, dict[str, float]]:
    if prediction.confidence_camera is None:
        return past, {}
    surety = float(np.median(prediction.confidence_camera[::_EVERY, ::_EVERY])) - 1
    if math.isnan(surety):
        return past, {}
    usual = past.usual_confidence
    past = replace(past, usual_confidence=_blended(usual, surety))
    return past, {"confidence": surety / usual} if usual else {}


def _motion(past: Past, prediction: Prediction) -> tuple[Past, dict[str, float]]:
    if prediction.T_world_camera is None:
        return past, {}
    now, before = prediction.T_world_camera[:3], past.last_pose
    past = replace(past, last_pose=tuple(tuple(row) for row in now.tolist()))
    if before is None:
        return past, {}
    then = np.array(before)
    step = float(np.linalg.norm(now[:, 3] - then[:, 3]))
    cosine = (np.trace(then[:, :3].T @ now[:, :3]) - 1) / 2
    vitals = {"turn": float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))}
    if past.usual_step and past.steps >= _WARM_UP:
        vitals["step"] = step / past.usual_step
    return replace(past, usual_step=_blended(past.usual_step, step), steps=past.steps + 1), vitals


def _blended(usual: float | None, now: float) -> float:
    return now if usual is None else usual + _LEARNING * (now - usual)


def _is_finite(prediction: Prediction) -> bool:
    camera = None if prediction.camera is None else prediction.camera.intrinsics
    return all(part is None or bool(np.isfinite(part).all()) for part in (prediction.T_world_camera, camera))
