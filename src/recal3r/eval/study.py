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
from recal3r.eval.metrics.cloud import nearest
from recal3r.eval.metrics.depth import abs_rel
from recal3r.eval.metrics.pose import ate, rotation_drift, spread, straight_line
from recal3r.geometry.align import umeyama
from recal3r.model.cut3r import Cut3r
from recal3r.rules.registry import describe, get_rule
from recal3r.sources.synthetic import SyntheticFrame, SyntheticWorld, Training, WorldConfig, split_seed
from recal3r.types import Prediction

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


_ASKED = 4000
_ABREAST = 9  # contestants that walk together: more of them are sooner done, and lose more when they are interrupted


class Record(NamedTuple):
    """What a contestant said, and what was true."""

    poses: Numbers  # [S, T, 4, 4]
    true_poses: Numbers  # [S, T, 4, 4], the first one is the identity
    abs_rel: Numbers  # [S, T]
    points: Numbers  # [S, T, K, 3] world points, in the first camera's frame
    true_points: Numbers  # [S, T, K, 3]
    rate: Numbers  # [S, T], mean β over tokens


Row = Record
"""One frame of it: the same without T."""


def record(
    model: Cut3r,
    contestants: Sequence[Contestant],
    walks: Walks,
    folder: Path,
    said: Callable[[str], None] = lambda _: None,
) -> Iterator[Record]:
    """The contestants' walks, from `folder` where they have been walked there with these weights. Those that have not
    go a few abreast, so that the rooms are painted once for all of them."""
    for first in range(0, len(contestants), _ABREAST):
        group = contestants[first : first + _ABREAST]
        missing = [one for one in group if not _place(folder, one).is_file()]
        if missing:
            said(f"walking: {', '.join(one.name for one in missing)}")
            for one, found in zip(missing, walk(model, missing, walks), strict=True):
                _store(_place(folder, one), _key(model, one, walks), found)
        for one in group:
            yield _stored(_place(folder, one), _key(model, one, walks))


def _place(folder: Path, contestant: Contestant) -> Path:
    return folder / f"{contestant.slug}.npz"


def _store(path: Path, key: str, found: Record) -> None:
    unfinished = path.with_suffix(".part.npz")
    np.savez_compressed(unfinished, key=np.array(key), **found._asdict())
    unfinished.replace(path)


def _stored(path: Path, key: str) -> Record:
    with np.load(path) as stored:
        if str(stored["key"]) != key:
            raise EvalError(f"{path} is of other weights, walks or parameters; write into another folder.")
        return Record(*(stored[name] for name in Record._fields))


def _key(model: Cut3r, contestant: Contestant, walks: Walks) -> str:
    """Everything that decides the numbers."""
    parts = [fingerprint(model), json.dumps(asdict(walks)), contestant.name, describe(get_rule(contestant.rule))]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def walk(model: Cut3r, contestants: Sequence[Contestant], walks: Walks) -> list[Record]:
    """All contestants through the same frames, side by side, each with sessions of its own."""
    recons = [
        Reconstructor(
            model,
            one.rule,
            outputs=("pose", "depth", "points_world", "learning_rate"),
            size=None,
            streams=walks.scenes,
            reset_interval=one.reset_interval,
        )
        for one in contestants
    ]
    worlds = walks.worlds()
    firsts = [np.linalg.inv(world.frame(0).T_world_camera) for world in worlds]  # T_first_world
    rows: list[list[Row]] = [[] for _ in contestants]
    for frame, truths in enumerate(_side_by_side(worlds, walks.frames)):
        pixels = walks.sampled(frame)
        true_points = [
            truth.points_world().reshape(-1, 3)[pixels] @ T[:3, :3].T + T[:3, 3]
            for truth, T in zip(truths, firsts, strict=True)
        ]
        true_poses = [T @ truth.T_world_camera for truth, T in zip(truths, firsts, strict=True)]
        for one, recon, of_one in zip(contestants, recons, rows, strict=True):
            found = recon.push_batch([truth.image for truth in truths], update=one.writes(frame))
            one.after(recon.session)
            of_one.append(_row(found, truths, true_poses, true_points, pixels))
    return [Record(*(np.stack(column, axis=1) for column in zip(*of_one, strict=True))) for of_one in rows]


def _row(
    found: Sequence[Prediction],
    truths: Sequence[SyntheticFrame],
    true_poses: Sequence[Numbers],
    true_points: Sequence[Numbers],
    pixels: NDArray[np.intp],
) -> Row:
    """A frame of a record, of all scenes."""
    poses: list[Numbers] = []
    errors: list[float] = []
    points: list[Numbers] = []
    rates: list[float] = []
    for prediction, truth in zip(found, truths, strict=True):
        pose, depth, cloud = prediction.T_world_camera, prediction.depth, prediction.points_world
        if pose is None or depth is None or cloud is None:
            raise EvalError("A prediction lacks what was asked for.")
        poses.append(pose)
        errors.append(abs_rel(depth, truth.depth))
        points.append(cloud.reshape(-1, 3)[pixels].astype(np.float32))
        rates.append(np.nan if prediction.learning_rate is None else float(prediction.learning_rate.mean()))
    return Record(
        np.stack(poses),
        np.stack(true_poses),
        np.array(errors),
        np.stack(points),
        np.stack(true_points).astype(np.float32),
        np.array(rates),
    )


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
    """Acc and Comp after the best similarity between points that show the same pixel: of every nth point, so that no
    more than `_ASKED` ask for their nearest, which for clouds that lie apart takes long."""
    if not np.isfinite(points).all():
        return float("nan"), float("nan")
    aligned = umeyama(points, truth)(points)
    nth = slice(None, None, -(-len(points) // _ASKED))
    return float(nearest(aligned[nth], truth).mean()), float(nearest(truth[nth], aligned).mean())
