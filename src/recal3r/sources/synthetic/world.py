"""A procedural world: rooms with furniture, a camera that is carried through them, and the exact truth of every frame.

    world = SyntheticWorld(seed=7, config=WorldConfig(width=128, height=96, trajectory=Walking(step=0.03)))
    for frame in world.frames(300): ...

Everything is a function of the seed and the configuration. A world holds one baked room and nothing of its stream.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import ConfigError
from recal3r.sources.synthetic.chance import channel, mix
from recal3r.sources.synthetic.effects import Effects, develop, is_dropped, shutter_times
from recal3r.sources.synthetic.poses import Pose, between
from recal3r.sources.synthetic.render import Pinhole, render
from recal3r.sources.synthetic.rooms import draw_scene
from recal3r.sources.synthetic.scene import RoomConfig, SceneSpec
from recal3r.sources.synthetic.texture import bake
from recal3r.sources.synthetic.trajectory import Trajectory, Walking, free_space

Split = Literal["train", "validation", "test"]
_SEEDS_PER_SPLIT = 1 << 40
_SPLITS: dict[str, int] = {"train": 0, "validation": 1, "test": 2}
_FINEST_TEXEL = 0.004  # metres


@dataclass(frozen=True)
class WorldConfig:
    """How a world is looked at. `focal` in pixels replaces the field of view where it is given."""

    width: int = 128
    height: int = 96
    fov_degrees: float = 80.0  # across the width
    focal: float | None = None
    trajectory: Trajectory = field(default_factory=Walking)
    effects: Effects = field(default_factory=Effects)
    room: RoomConfig = field(default_factory=RoomConfig)
    supersample: int = 1  # rays a pixel along each side, for colour; depth is always the pixel centre's
    frame_rate: float = 30.0

    def __post_init__(self) -> None:
        if self.width < 2 or self.height < 2:
            raise ConfigError(f"An image of {self.width}×{self.height} has no inside; use 2×2 pixels or more.")
        if not 5.0 <= self.fov_degrees <= 150.0:
            raise ConfigError(f"fov_degrees={self.fov_degrees} is no pinhole camera; use 5 to 150.")
        if self.focal is not None and not 0.0 < self.focal < math.inf:
            raise ConfigError(f"focal={self.focal} is no focal length; use a finite number of pixels above 0.")
        if not 1 <= self.supersample <= 8:
            raise ConfigError(f"supersample={self.supersample} is no number of rays; use 1 to 8.")
        if not 0.0 < self.frame_rate < math.inf:
            raise ConfigError(f"frame_rate={self.frame_rate} gives no timestamps; use a finite number above 0.")

    def camera(self) -> Pinhole:
        focal = self.focal or 0.5 * self.width / math.tan(0.5 * math.radians(self.fov_degrees))
        return Pinhole(self.width, self.height, focal)


@dataclass(frozen=True)
class SyntheticFrame:
    """One picture and the truth about it."""

    image: NDArray[np.uint8]  # [H, W, 3]
    depth: NDArray[np.float32]  # [H, W] metres along the camera's z
    T_world_camera: NDArray[np.float64]  # [4, 4]
    intrinsics: NDArray[np.float64]  # [3, 3]
    index: int
    timestamp: float  # seconds

    def points_camera(self) -> NDArray[np.float32]:
        """The point map in the camera's axes: [H, W, 3]."""
        return points_from_depth(self.depth, self.intrinsics)

    def points_world(self) -> NDArray[np.float32]:
        """The point map in the world: [H, W, 3]."""
        points = self.points_camera() @ self.T_world_camera[:3, :3].T + self.T_world_camera[:3, 3]
        return points.astype(np.float32)


def points_from_depth(depth: NDArray[np.floating], intrinsics: NDArray[np.float64]) -> NDArray[np.float32]:
    """Depth [..., H, W] along z to points [..., H, W, 3] in the camera's axes."""
    height, width = depth.shape[-2:]
    x = (np.arange(width, dtype=np.float64) - intrinsics[0, 2]) / intrinsics[0, 0]
    y = (np.arange(height, dtype=np.float64) - intrinsics[1, 2]) / intrinsics[1, 1]
    z = depth.astype(np.float64)
    return np.stack([z * x, z * y[:, None], z], axis=-1).astype(np.float32)


def split_seed(split: Split, index: int) -> int:
    """The seed of the index-th scene of a split. No seed belongs to two splits."""
    if split not in _SPLITS:
        raise ConfigError(f"There is no split {split!r}; use one of {', '.join(_SPLITS)}.")
    if not 0 <= index < _SEEDS_PER_SPLIT:
        raise ConfigError(f"Scene {index} of {split} does not exist; use 0 to {_SEEDS_PER_SPLIT - 1}.")
    return _SPLITS[split] * _SEEDS_PER_SPLIT + index


class SyntheticWorld:
    """A room and a camera's way through it. `walk` chooses another way through the same room."""

    def __init__(self, seed: int, config: WorldConfig | None = None, walk: int = 0) -> None:
        if seed < 0:
            raise ConfigError(f"seed={seed} names no world; use 0 or more.")
        self.seed = seed
        self.config = config or WorldConfig()
        self.camera = self.config.camera()
        self.spec: SceneSpec = draw_scene(seed, self.config.room, self.config.effects.moving_objects)
        texel = max(_FINEST_TEXEL, 1.15 / self.camera.focal)  # about a pixel at one metre
        self._scene = bake(self.spec, texel)
        self._walk_seed = mix(seed, channel("walk"), walk)

    def render(self, T_world_camera: Pose, time: float = 0.0) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """Image [H, W, 3] and depth [H, W] of any pose inside the room at a frame time, without effects."""
        return render(self._scene, self.camera, T_world_camera, time, self.config.supersample)

    def poses(self, start: int = 0) -> Iterator[Pose]:
        """T_world_camera of every frame from `start` on, without an end, dropped ones included."""
        return self.config.trajectory.poses(free_space(self.spec), self._walk_seed, start)

    def frame(self, index: int) -> SyntheticFrame:
        """Frame `index` of the camera, whether or not it is dropped from the stream."""
        if index < 0:
            raise ConfigError(f"Frame {index} is before the first one; use 0 or more.")
        poses = self.poses(index)
        return self._shoot(index, next(poses), next(poses))

    def frames(self, count: int | None = None, start: int = 0) -> Iterator[SyntheticFrame]:
        """`count` frames that arrive (all, without an end, for None); dropped ones leave a gap in index and time."""
        arrived = 0
        for index, (pose, following) in enumerate(pairwise(self.poses(start)), start):
            if count is not None and arrived >= count:
                return
            if is_dropped(self.config.effects, self._walk_seed, index):
                continue
            yield self._shoot(index, pose, following)
            arrived += 1

    def __iter__(self) -> Iterator[SyntheticFrame]:
        return self.frames()

    def _shoot(self, index: int, pose: Pose, following: Pose) -> SyntheticFrame:
        effects = self.config.effects
        image, depth = self.render(pose, index)
        if effects.motion_blur or effects.exposure or effects.noise:
            light = image.astype(np.float32)
            if effects.motion_blur:
                light = self._blurred(index, pose, following)
            image = develop(light, effects, self._walk_seed, index)
        return SyntheticFrame(image, depth, pose, self.camera.intrinsics(), index, index / self.config.frame_rate)

    def _blurred(self, index: int, pose: Pose, following: Pose) -> NDArray[np.float32]:
        """The mean of what the sensor sees while the shutter is open, centred on the frame's own pose."""
        times = shutter_times(self.config.effects)
        total = np.zeros((self.config.height, self.config.width, 3), np.float32)
        for time in times:
            total += self.render(between(pose, following, time), index + time)[0]
        return total / np.float32(len(times))
