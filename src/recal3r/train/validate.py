"""How good the network is on scenes it was never trained on.

B clips · T frames · H, W pixels
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recal3r.engine.session import Session
from recal3r.geometry.pose import pose_from_quaternion
from recal3r.model.cut3r import Cut3r
from recal3r.train.footage import Footage, Takes
from recal3r.train.lessons import read_frame, read_pair, there

Poses = NDArray[np.float64]
Control = Literal["none", "state reset every frame"]
Figures = dict[str, float]


class Run(NamedTuple):
    poses: Poses  # [B, T, 4, 4]
    depth: Tensor  # [B, T, H, W]


def validation_takes(footage: Footage, clips: int, frames: int) -> Takes:
    """The first frames of the first clips."""
    count = min(clips, footage.clips)
    index = np.broadcast_to(np.arange(min(frames, footage.length)), (count, min(frames, footage.length)))
    return footage.cut(np.arange(count), index, np.zeros(count, np.int64))


def validation_pairs(footage: Footage, count: int) -> Takes:
    return footage.pairs(np.random.default_rng(0), count)


@torch.no_grad()
def run_streams(model: Cut3r, takes: Takes, control: Control = "none") -> Run:
    """Every frame through the loop; under the control, the state (not the pose memory) is forgotten after each."""
    session = Session.fresh(model, len(takes.images))
    poses: list[Poses] = []
    depth: list[Tensor] = []
    for t in range(takes.images.shape[1]):
        read = read_frame(model, session, takes.images[:, t].to(model.device))
        poses.append(_matrices(there(read.pose)))
        depth.append(there(read.camera).points[..., 2].cpu())
        if control != "none":
            session.state = session.initial_state.expand_as(session.state)
    return Run(np.stack(poses, axis=1), torch.stack(depth, dim=1))


@torch.no_grad()
def pair_figures(model: Cut3r, takes: Takes) -> Figures:
    read = read_pair(model, takes)[2]
    run = Run(_matrices(there(read.pose)[:, 0])[:, None], there(read.camera).points[..., 2].cpu())
    truth = takes.poses[:, 1:].double().cpu().numpy()
    return motion_figures(run.poses, truth) | depth_figures(run.depth, takes.depth[:, 1:].cpu())


def stream_figures(model: Cut3r, takes: Takes, control: bool = False) -> Figures:
    """8-frame motion and depth, and the shape of trajectories at every length the takes allow."""
    run = run_streams(model, takes)
    truth = takes.poses.double().numpy()
    figures = motion_figures(run.poses[:, 1:8], truth[:, 1:8]) | depth_figures(run.depth[:, :8], takes.depth[:, :8])
    lengths = [length for length in (32, 100) if length <= truth.shape[1]]
    for length in lengths:
        figures[f"ate_{length}"] = _mean_ate(run.poses, truth, length)
        figures[f"line_{length}"] = straight_line_ate(truth[:, :length, :3, 3])
    if control:
        blind = run_streams(model, takes, "state reset every frame")
        figures |= {f"reset_ate_{length}": _mean_ate(blind.poses, truth, length) for length in lengths}
    return figures


def motion_figures(found: Poses, truth: Poses) -> Figures:
    """Errors as a share of what saying "no motion" gets wrong."""
    shift = np.linalg.norm(found[..., :3, 3] - truth[..., :3, 3], axis=-1).sum()
    size = np.linalg.norm(truth[..., :3, 3], axis=-1).sum()
    turned = _angles(np.swapaxes(found[..., :3, :3], -1, -2) @ truth[..., :3, :3]).sum()
    return {"translation": float(shift / size), "rotation": float(turned / _angles(truth[..., :3, :3]).sum())}


def depth_figures(found: Tensor, truth: Tensor) -> Figures:
    """In metres as they are: nothing is aligned."""
    ratio = found.clamp_min(1e-3) / truth
    near = torch.maximum(ratio, 1 / ratio) < 1.25
    return {"abs_rel": float(((found - truth).abs() / truth).mean()), "delta_1.25": float(near.float().mean())}


def ate(found: Poses, truth: Poses) -> float:
    """Positions [T, 3], aligned by the best similarity: root mean square error as a share of the true spread."""
    x, y = found - found.mean(0), truth - truth.mean(0)
    u, singular, vt = np.linalg.svd(y.T @ x)
    flip = np.array([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    rotation = (u * flip) @ vt
    scale = (singular * flip).sum() / max(float((x**2).sum()), 1e-12)
    return float(np.sqrt(((y - scale * x @ rotation.T) ** 2).sum() / (y**2).sum()))


def straight_line_ate(truth: Poses) -> float:
    """What a camera that walks straight on at one speed would score: [B, T, 3]."""
    line: Poses = np.zeros(truth.shape[1:])
    line[:, 0] = np.arange(len(line))
    return float(np.mean([ate(line, positions) for positions in truth]))


def _mean_ate(found: Poses, truth: Poses, length: int) -> float:
    return float(np.mean([ate(a[:length, :3, 3], b[:length, :3, 3]) for a, b in zip(found, truth, strict=True)]))


def _matrices(pose: Tensor) -> Poses:  # [B, 7] -> [B, 4, 4]
    numbers = pose.detach().double().cpu().numpy()
    return pose_from_quaternion(numbers[:, :3], numbers[:, 3:]).astype(np.float64)


def _angles(rotation: Poses) -> Poses:
    """Radians, by the chord: exact near 0, where the arc cosine is not."""
    chord = np.linalg.norm(rotation - np.eye(3), axis=(-2, -1)) / np.sqrt(8.0)
    return 2.0 * np.arcsin(np.clip(chord, 0.0, 1.0))
