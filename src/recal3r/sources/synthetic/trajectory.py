"""Ways to carry a camera through the free middle of a room. Endless, lazy, and a function of (space, seed) alone.

A trajectory is a frozen dataclass; `poses(space, seed, start)` yields T_world_camera from frame `start` on and holds
nothing but its last step. Those made of smooth noise can start anywhere at once; those that walk replay the steps
before `start` (about 10 µs each), because where a walker is depends on where it was.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice
from typing import Protocol

import numpy as np

from recal3r.errors import ConfigError
from recal3r.sources.synthetic.chance import smooth_noise, uniform
from recal3r.sources.synthetic.poses import Pose, look_along
from recal3r.sources.synthetic.scene import SceneSpec, Vec3

_SLOPE = 0.43  # mean absolute slope of smooth_noise per unit
_DEGREE = math.pi / 180.0


@dataclass(frozen=True)
class Space:
    """The box a camera may be in."""

    low: Vec3
    high: Vec3

    @property
    def centre(self) -> Vec3:
        return (
            0.5 * (self.low[0] + self.high[0]),
            0.5 * (self.low[1] + self.high[1]),
            0.5 * (self.low[2] + self.high[2]),
        )

    @property
    def half(self) -> Vec3:
        return (
            0.5 * (self.high[0] - self.low[0]),
            0.5 * (self.high[1] - self.low[1]),
            0.5 * (self.high[2] - self.low[2]),
        )


class Trajectory(Protocol):
    def poses(self, space: Space, seed: int, start: int = 0) -> Iterator[Pose]: ...


def free_space(spec: SceneSpec) -> Space:
    return Space(spec.free_low, spec.free_high)


def _require_positive(**values: float) -> None:
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{name}={value} moves no camera; use a finite number above 0.")


@dataclass(frozen=True)
class _Shake:
    """The unsteadiness of a hand: angles in radians that wander with about `rate` degrees a frame."""

    seed: int
    rate: float

    def angle(self, name: str, frame: int, amplitude: float) -> float:
        reach = amplitude * _DEGREE
        return reach * smooth_noise(self.seed, name, frame * self.rate / (_SLOPE * amplitude))


@dataclass(frozen=True)
class HandHeld:
    """Standing about and looking around, `step` metres and `turn` degrees a frame, position and gaze smooth noise."""

    step: float = 0.02
    turn: float = 1.0
    reach: float = 0.8  # metres from the middle, at most

    def __post_init__(self) -> None:
        _require_positive(step=self.step, turn=self.turn, reach=self.reach)

    def poses(self, space: Space, seed: int, start: int = 0) -> Iterator[Pose]:
        towards = 2.0 * math.pi * uniform(seed, "towards")
        gaze = _Shake(seed, 0.75 * self.turn)
        for frame in count(start):
            yaw = towards + gaze.angle("yaw", frame, 75.0)
            pitch = gaze.angle("pitch", frame, 22.0) - 6.0 * _DEGREE
            roll = _Shake(seed, 0.3 * self.turn).angle("roll", frame, 8.0)
            yield look_along(_wander(space, seed, frame, self.step, self.reach), yaw, pitch, roll)


@dataclass(frozen=True)
class Turning:
    """Turning on the spot without an end, `turn` degrees a frame, with a body that sways."""

    step: float = 0.02
    turn: float = 2.0
    reach: float = 0.5

    def __post_init__(self) -> None:
        _require_positive(step=self.step, turn=self.turn, reach=self.reach)

    def poses(self, space: Space, seed: int, start: int = 0) -> Iterator[Pose]:
        sign = 1.0 if uniform(seed, "sign") < 0.5 else -1.0
        begin = 2.0 * math.pi * uniform(seed, "towards")
        gaze = _Shake(seed, 0.2 * self.turn)
        for frame in count(start):
            yaw = begin + sign * self.turn * _DEGREE * frame + gaze.angle("yaw", frame, 10.0)
            pitch = gaze.angle("pitch", frame, 15.0) - 6.0 * _DEGREE
            yield look_along(
                _wander(space, seed, frame, self.step, self.reach), yaw, pitch, gaze.angle("roll", frame, 5.0)
            )


@dataclass(frozen=True)
class Looping:
    """Round and round the room on a closed curve, looking ahead: every lap sees what the first one saw."""

    step: float = 0.04
    look_out: float = 35.0  # degrees between the line of sight and the path, towards the walls

    def __post_init__(self) -> None:
        _require_positive(step=self.step)

    def poses(self, space: Space, seed: int, start: int = 0) -> Iterator[Pose]:
        half, centre = space.half, space.centre
        a, b = 0.94 * half[0], 0.94 * half[1]
        angle = np.linspace(0.0, 2.0 * math.pi, 721)
        pieces = np.hypot(np.diff(a * np.cos(angle)), np.diff(b * np.sin(angle)))
        arc = np.append(np.zeros(1), np.cumsum(pieces))  # length along the ellipse
        length = float(arc[-1])
        frames = max(8, round(length / self.step))
        sign = 1.0 if uniform(seed, "sign") < 0.5 else -1.0
        first = uniform(seed, "towards")
        hand = _Shake(seed, 0.15)
        for frame in count(start):
            place = (frame / frames + first) % 1.0
            at = float(np.interp(place * length, arc, angle)) * sign
            heading = math.atan2(b * math.cos(at) * sign, -a * math.sin(at) * sign)
            z = centre[2] + 0.3 * half[2] * smooth_noise(seed, "z", frame / 40.0)
            yaw = heading - sign * self.look_out * _DEGREE + hand.angle("yaw", frame, 4.0)
            yield look_along(
                (centre[0] + a * math.cos(at), centre[1] + b * math.sin(at), z),
                yaw,
                hand.angle("pitch", frame, 4.0) - 8.0 * _DEGREE,
                hand.angle("roll", frame, 2.0),
            )


@dataclass(frozen=True)
class Walking:
    """From one spot of the free space to the next, looking where one goes: `step` metres and `turn` degrees a frame."""

    step: float = 0.03
    turn: float = 1.5

    def __post_init__(self) -> None:
        _require_positive(step=self.step, turn=self.turn)

    def poses(self, space: Space, seed: int, start: int = 0) -> Iterator[Pose]:
        return islice(self._walk(space, seed), start, None)

    def _walk(self, space: Space, seed: int) -> Iterator[Pose]:
        x, y = _spot(space, seed, 0)
        goal, since = 1, 0
        heading = 2.0 * math.pi * uniform(seed, "towards")
        gaze = _Shake(seed, 0.35 * self.turn)
        for frame in count():
            z = space.centre[2] + 0.5 * space.half[2] * smooth_noise(seed, "z", frame * self.step / 0.5)
            pitch = gaze.angle("pitch", frame, 12.0) - 8.0 * _DEGREE
            yield look_along((x, y, z), heading + gaze.angle("yaw", frame, 15.0), pitch, gaze.angle("roll", frame, 4.0))
            to_x, to_y = _spot(space, seed, goal)
            since += 1
            if math.hypot(to_x - x, to_y - y) < 0.4 or since * self.step > 6.0:
                goal, since = goal + 1, 0
            error = _wrap(math.atan2(to_y - y, to_x - x) - heading)
            limit = 1.3 * self.turn * _DEGREE
            heading += max(-limit, min(limit, 0.08 * error))
            stride = self.step * (0.85 + 0.3 * uniform(seed, "stride", frame)) * (0.8 + 0.2 * math.cos(error))
            x, y = _keep_inside(space, x + stride * math.cos(heading), y + stride * math.sin(heading))


def _wander(space: Space, seed: int, frame: int, step: float, reach: float) -> Vec3:
    """Smooth noise around the middle of the space that covers `step` metres a frame on the mean."""
    axes: list[float] = []
    for axis, name in enumerate(("x", "y", "z")):
        amplitude = min(space.half[axis], reach) * (0.4 if axis == 2 else 1.0)
        share = 0.25 if axis == 2 else 0.62  # of the step, so that the three axes together make it up
        axes.append(
            space.centre[axis] + amplitude * smooth_noise(seed, name, frame * share * step / (_SLOPE * amplitude))
        )
    return (axes[0], axes[1], axes[2])


def _spot(space: Space, seed: int, index: int) -> tuple[float, float]:
    """The index-th place a walker goes to; odd ones lie in one half of the longer side, even ones in the other."""
    u, v = uniform(seed, "spot x", index), uniform(seed, "spot y", index)
    if space.half[0] >= space.half[1]:
        u = 0.5 * (u + index % 2)
    else:
        v = 0.5 * (v + index % 2)
    return (
        space.low[0] + 2.0 * space.half[0] * u,
        space.low[1] + 2.0 * space.half[1] * v,
    )


def _keep_inside(space: Space, x: float, y: float) -> tuple[float, float]:
    return min(max(x, space.low[0]), space.high[0]), min(max(y, space.low[1]), space.high[1])


def _wrap(angle: float) -> float:
    return (angle + math.pi) % (2.0 * math.pi) - math.pi
