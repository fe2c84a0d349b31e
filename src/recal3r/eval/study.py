"""The long-stream study: what each rule makes of the same held-out walks, at every length.

S scenes side by side · T frames · K sampled pixels a frame

A stream of T frames holds every shorter one, so each contestant walks once. What it said is stored once
(`<slug>.npz`, under the hash of weights, walks and contestant) and scored as often as one likes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from recal3r.engine.reconstructor import Reconstructor
from recal3r.engine.snapshot import fingerprint
from recal3r.errors import EvalError
from recal3r.eval.contestants import Contestant
from recal3r.eval.metrics.cloud import cloud_error
from recal3r.eval.metrics.depth import abs_rel
from recal3r.eval.metrics.pose import ate, rotation_drift, spread, straight_line
from recal3r.geometry.align import umeyama
from recal3r.model.cut3r import Cut3r
from recal3r.rules.registry import describe, get_rule
from recal3r.sources.synthetic import SyntheticFrame, SyntheticWorld, Training, WorldConfig, split_seed

Numbers = NDArray[np.floating]


METRICS = ("ATE / spread", "rotation drift (°)", "AbsRel", "Acc (m)", "Comp (m)", "mean rate")


@dataclass(frozen=True)
class Walks:
    """Which walks through which rooms: scenes of the test split, from `first` on."""

    scenes: int = 20
    frames: int = 800
    width: int = 64
    height: int = 48
    pixels: int = 48
    """How many pixels of a frame go into the clouds."""
    first: int = 0

    def worlds(self) -> list[SyntheticWorld]:
        config = WorldConfig(width=self.width, height=self.height, trajectory=Training())
        return [SyntheticWorld(split_seed("test", self.first + scene), config) for scene in range(self.scenes)]

    def sampled(self, frame: int) -> NDArray[np.intp]:
        """The pixels (flat) of a frame that go into the clouds: [K]."""
        return np.random.default_rng(frame).choice(self.width * self.height, self.pixels, replace=False)


class Record(NamedTuple):
    """What a contestant said, and what was true."""

    poses: Numbers  # [S, T, 4, 4]
    true_poses: Numbers  # [S, T, 4, 4], the first one is the identity
    abs_rel: Numbers  # [S, T]
    points: Numbers  # [S, T, K, 3] world points, in the first camera's frame
    true_points: Numbers  # [S, T, K, 3]
    rate: Numbers  # [S, T], mean β over tokens


def record(
    model: Cut3r,
    contestant: Contestant,
    walks: Walks,
    folder: Path,
    said: Callable[[str], None] = lambda _: None,
) -> Record:
    """The contestant's walk, from `folder` if it has been walked there with these weights."""
    path, key = folder / f"{contestant.slug}.npz", _key(model, contestant, walks)
    if path.is_file():
        with np.load(path) as stored:
            if str(stored["key"]) != key:
                raise EvalError(f"{path} is of other weights, walks or parameters; write into another folder.")
            return Record(*(stored[name] for name in Record._fields))
    said(f"walking: {contestant.name}")
    found = walk(model, contestant, walks)
    unfinished = path.with_suffix(".part.npz")
    np.savez_compressed(unfinished, key=np.array(key), **found._asdict())
    unfinished.replace(path)
    return found


def _key(model: Cut3r, contestant: Contestant, walks: Walks) -> str:
    """Everything that decides the numbers."""
    parts = [fingerprint(model), json.dumps(asdict(walks)), contestant.name, describe(get_rule(contestant.rule))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def walk(model: Cut3r, contestant: Contestant, walks: Walks) -> Record:
    recon = Reconstructor(
        model,
        contestant.rule,
        outputs=("pose", "depth", "points_world", "learning_rate"),
        size=None,
        streams=walks.scenes,
        reset_interval=contestant.reset_interval,
    )
    worlds = walks.worlds()
    firsts = [np.linalg.inv(world.frame(0).T_world_camera) for world in worlds]  # T_first_world
    rows: list[list[tuple[Numbers, ...]]] = []
    for frame, truths in enumerate(_side_by_side(worlds, walks.frames)):
        found = recon.push_batch([truth.image for truth in truths], update=contestant.writes(frame))
        contestant.after(recon.session)
        pixels = walks.sampled(frame)
        row: list[tuple[Numbers, ...]] = []
        for prediction, truth, T_first_world in zip(found, truths, firsts, strict=True):
            pose, depth, points = prediction.T_world_camera, prediction.depth, prediction.points_world
            if pose is None or depth is None or points is None:
                raise EvalError("A prediction lacks what was asked for.")
            true_points = truth.points_world() @ T_first_world[:3, :3].T + T_first_world[:3, 3]
            rate = np.nan if prediction.learning_rate is None else prediction.learning_rate.mean()
            row.append(
                (
                    pose,
                    T_first_world @ truth.T_world_camera,
                    np.array(abs_rel(depth, truth.depth)),
                    points.reshape(-1, 3)[pixels].astype(np.float32),
                    true_points.reshape(-1, 3)[pixels].astype(np.float32),
                    np.array(rate),
                )
            )
        rows.append(row)
    columns = (np.stack([np.stack([scene[part] for scene in row]) for row in rows], axis=1) for part in range(6))
    return Record(*columns)


def _side_by_side(worlds: Sequence[SyntheticWorld], frames: int) -> Iterator[tuple[SyntheticFrame, ...]]:
    yield from zip(*(world.frames(frames) for world in worlds), strict=True)


def scores(found: Record, length: int) -> dict[str, Numbers]:
    """Of the first `length` frames, each metric [S]. ATE as a share of the walk's spread."""
    poses, true_poses = found.poses[:, :length], found.true_poses[:, :length]
    pairs = list(zip(poses, true_poses, strict=True))
    clouds = [
        _cloud(points.reshape(-1, 3), true.reshape(-1, 3))
        for points, true in zip(found.points[:, :length], found.true_points[:, :length], strict=True)
    ]
    columns = (
        np.array([ate(a, b) / spread(b) for a, b in pairs]),
        np.array([rotation_drift(a, b) for a, b in pairs]),
        found.abs_rel[:, max(0, length - 50) : length].mean(1),  # at the end of the stream, not since its beginning
        np.array([accuracy for accuracy, _ in clouds]),
        np.array([completeness for _, completeness in clouds]),
        found.rate[:, 1:length].mean(1),  # NaN where frames were not written
    )
    return dict(zip(METRICS, columns, strict=True))


def line_scores(found: Record, length: int) -> dict[str, Numbers]:
    """The straight line, which knows nothing but the order of the frames. It has no depth and no cloud: NaN."""
    line, unknown = straight_line(length), np.full(len(found.true_poses), np.nan)
    shares = [ate(line, true[:length]) / spread(true[:length]) for true in found.true_poses]
    return dict.fromkeys(METRICS, unknown) | {METRICS[0]: np.array(shares)}


def _cloud(points: Numbers, truth: Numbers) -> tuple[float, float]:
    """Acc and Comp after the best similarity between points that show the same pixel."""
    if not np.isfinite(points).all():
        return float("nan"), float("nan")
    return cloud_error(umeyama(points, truth)(points), truth)
