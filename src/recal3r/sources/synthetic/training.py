"""The trajectory a small network learns from: steps of 0.12–0.40 m, about 4° a frame, half of the scenes keep turning.

Smaller steps move a frame of 64×48 by one or two pixels, and nothing is learned from that; larger ones leave nothing in
common between neighbours. So a step shrinks where the wall in view is near, and the gaze turns away from near walls.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from recal3r.errors import ConfigError
from recal3r.sources.synthetic.chance import channel, mix
from recal3r.sources.synthetic.poses import Pose, look_along
from recal3r.sources.synthetic.trajectory import Space

_DEGREE = math.pi / 180.0
_LARGEST_YAW, _LARGEST_PITCH, _LARGEST_ROLL = 10.0, 4.0, 2.0  # degrees a frame: below 12 together
_TURNS = (0.0, 40.0, -40.0, 80.0, -80.0, 120.0, -120.0, 160.0, -160.0)  # one of them always stays inside


@dataclass
class _Walker:
    """Where the camera is and where it tends to; angles in degrees."""

    x: float
    y: float
    z: float
    course: float  # of the feet
    yaw: float  # of the eyes
    pitch: float = -6.0
    roll: float = 0.0
    yaw_rate: float = 0.0
    pitch_rate: float = 0.0
    roll_rate: float = 0.0


@dataclass(frozen=True)
class Training:
    """Metres a frame between `shortest` and `longest`; the feet go where they like, whatever the eyes look at."""

    shortest: float = 0.12
    longest: float = 0.40

    def __post_init__(self) -> None:
        if not 0.0 < self.shortest <= self.longest <= 0.40:
            raise ConfigError(
                f"Steps of {self.shortest} to {self.longest} m fit in no room; use 0 < shortest ≤ longest ≤ 0.40."
            )

    def poses(self, space: Space, seed: int, start: int = 0) -> Iterator[Pose]:
        return islice(self._walk(space, seed), start, None)

    def _walk(self, space: Space, seed: int) -> Iterator[Pose]:
        dice = random.Random(mix(seed, channel("training")))
        turning = dice.random() < 0.5
        drift = dice.choice((-1.0, 1.0)) * dice.uniform(3.5, 6.0) if turning else 0.0
        walker = _Walker(
            dice.uniform(space.low[0], space.high[0]),
            dice.uniform(space.low[1], space.high[1]),
            dice.uniform(space.low[2], space.high[2]),
            dice.uniform(0.0, 360.0),
            dice.uniform(0.0, 360.0),
        )
        if not turning:
            walker.yaw = math.degrees(math.atan2(space.centre[1] - walker.y, space.centre[0] - walker.x))
        while True:
            yield look_along(
                (walker.x, walker.y, walker.z), walker.yaw * _DEGREE, walker.pitch * _DEGREE, walker.roll * _DEGREE
            )
            clear = _clear_distance(space, walker)
            _take_step(walker, space, dice, dice.uniform(self.shortest, self._longest_at(clear)))
            _turn_gaze(walker, space, dice, drift, clear)

    def _longest_at(self, clear: float) -> float:
        """The longest step that keeps most of what is seen in view; walls are 0.35 m or more behind the rim."""
        return max(self.shortest, min(self.longest, 0.4 * (clear + 0.35)))


def _clear_distance(space: Space, walker: _Walker) -> float:
    """Metres along the horizontal gaze to the rim of the free space."""
    dx, dy = math.cos(walker.yaw * _DEGREE), math.sin(walker.yaw * _DEGREE)
    to_x = ((space.high[0] if dx > 0 else space.low[0]) - walker.x) / dx if abs(dx) > 1e-6 else math.inf
    to_y = ((space.high[1] if dy > 0 else space.low[1]) - walker.y) / dy if abs(dy) > 1e-6 else math.inf
    return min(to_x, to_y)


def _take_step(walker: _Walker, space: Space, dice: random.Random, length: float) -> None:
    """Exactly `length` metres, mostly level, on a course that changes slowly and turns away at the rim."""
    rise = max(-0.3, min(0.3, dice.gauss(0.0, 0.15))) * length
    if not space.low[2] <= walker.z + rise <= space.high[2]:
        rise = 0.0
    level = math.sqrt(length * length - rise * rise)
    course = walker.course + dice.gauss(0.0, 25.0)
    side = dice.choice((-1.0, 1.0))
    for turn in _TURNS:
        angle = (course + side * turn) * _DEGREE
        x, y = walker.x + level * math.cos(angle), walker.y + level * math.sin(angle)
        if space.low[0] <= x <= space.high[0] and space.low[1] <= y <= space.high[1]:
            walker.course = course + side * turn
            walker.x, walker.y, walker.z = x, y, walker.z + rise
            return


def _turn_gaze(walker: _Walker, space: Space, dice: random.Random, drift: float, clear: float) -> None:
    """Rates of turning wander around their tendency; near walls a gaze that does not drift turns to the middle."""
    tendency = drift
    if drift == 0.0 and clear < 0.9:
        middle = math.degrees(math.atan2(space.centre[1] - walker.y, space.centre[0] - walker.x))
        error = (middle - walker.yaw + 180.0) % 360.0 - 180.0
        tendency = math.copysign(5.0, error) if abs(error) > 10.0 else 0.0
    walker.yaw_rate += 0.4 * (tendency - walker.yaw_rate) + dice.gauss(0.0, 1.7 if drift == 0.0 else 1.3)
    walker.pitch_rate += 0.5 * (-0.15 * (walker.pitch + 6.0) - walker.pitch_rate) + dice.gauss(0.0, 1.0)
    walker.roll_rate += 0.5 * (-0.2 * walker.roll - walker.roll_rate) + dice.gauss(0.0, 0.6)
    walker.yaw_rate = _limit(walker.yaw_rate, _LARGEST_YAW)
    walker.pitch_rate = _limit(walker.pitch_rate, _LARGEST_PITCH)
    walker.roll_rate = _limit(walker.roll_rate, _LARGEST_ROLL)
    walker.yaw += walker.yaw_rate
    walker.pitch = _limit(walker.pitch + walker.pitch_rate, 30.0)
    walker.roll = _limit(walker.roll + walker.roll_rate, 15.0)


def _limit(value: float, largest: float) -> float:
    return max(-largest, min(largest, value))
