"""Procedural rooms with exact ground truth: pictures, depth, poses, point maps."""

from recal3r.sources.synthetic.clips import Clip, Shards, open_shards, render_clip, write_shards
from recal3r.sources.synthetic.effects import Effects
from recal3r.sources.synthetic.render import Pinhole
from recal3r.sources.synthetic.rooms import draw_scene
from recal3r.sources.synthetic.scene import RoomConfig, SceneSpec
from recal3r.sources.synthetic.training import Training
from recal3r.sources.synthetic.trajectory import HandHeld, Looping, Space, Trajectory, Turning, Walking
from recal3r.sources.synthetic.world import SyntheticFrame, SyntheticWorld, WorldConfig, points_from_depth, split_seed

__all__ = [
    "Clip",
    "Effects",
    "HandHeld",
    "Looping",
    "Pinhole",
    "RoomConfig",
    "SceneSpec",
    "Shards",
    "Space",
    "SyntheticFrame",
    "SyntheticWorld",
    "Training",
    "Trajectory",
    "Turning",
    "Walking",
    "WorldConfig",
    "draw_scene",
    "open_shards",
    "points_from_depth",
    "render_clip",
    "split_seed",
    "write_shards",
]
