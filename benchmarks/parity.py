"""Whether the fast path gives the plain path's numbers. No speed is reported of a path that does not.

The plain path: layers as PyTorch has them, the rule's statistics by their definition (`fast=False` twice), in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import recal3r
from recal3r.cli.measure import ALL_OUTPUTS, pictures
from recal3r.model.cut3r import Cut3r

FRAMES = 2  # the first has no rate
Arrays = Mapping[str, np.ndarray]

# The worst element's difference in terms of the reference's root mean square; for bfloat16, the norm's.
FLOAT32_TOLERANCE = 1e-4
BFLOAT16_TOLERANCE = {"depth": 0.1, "translation": 0.1, "rotation_degrees": 5.0, "rate": 0.1}


def stream_on(model: Cut3r, *, fast: bool, rule: str = "recal3r") -> recal3r.Reconstructor:
    return recal3r.Reconstructor(model, rule, ALL_OUTPUTS, size=None, fast=fast, health=None)


def outputs_of(recon: recal3r.Reconstructor, size: tuple[int, int]) -> list[Arrays]:
    height, width = size
    found: list[Arrays] = []
    for _, picture in zip(range(FRAMES), pictures(height, width), strict=False):
        prediction = recon.push(picture)
        names = ("T_world_camera", "points_camera", "points_world", "confidence_camera", "confidence_world", "rgb")
        found.append({name: getattr(prediction, name) for name in names} | {"rate": prediction.learning_rate})
    return found


def differences(found: Sequence[Arrays], reference: Sequence[Arrays]) -> dict[str, float]:
    """The worst element of each output over all frames, in terms of the reference's root mean square."""
    worst = dict.fromkeys(reference[0], 0.0)
    for ours, theirs in zip(found, reference, strict=True):
        for name, array in theirs.items():
            worst[name] = max(worst[name], float(np.abs(ours[name] - array).max() / np.sqrt(np.square(array).mean())))
    return worst


def errors(found: Sequence[Arrays], reference: Sequence[Arrays]) -> dict[str, float]:
    """What a coarser precision costs: depth, pose and rates, the worst frame of each."""

    def frame(ours: Arrays, theirs: Arrays) -> dict[str, float]:
        turn = ours["T_world_camera"][:3, :3].T @ theirs["T_world_camera"][:3, :3]
        translation = theirs["T_world_camera"][:3, 3]
        depth, true_depth = ours["points_camera"][..., 2], theirs["points_camera"][..., 2]
        return {
            "depth": float(np.linalg.norm(depth - true_depth) / np.linalg.norm(true_depth)),
            "translation": float(
                np.linalg.norm(ours["T_world_camera"][:3, 3] - translation) / np.linalg.norm(translation)
            ),
            "rotation_degrees": float(np.degrees(np.arccos(np.clip((np.trace(turn) - 1) / 2, -1, 1)))),
            "rate": float(np.abs(ours["rate"] - theirs["rate"]).max()),
            "rate_mean": float(np.abs(ours["rate"] - theirs["rate"]).mean()),
        }

    frames = [frame(ours, theirs) for ours, theirs in zip(found, reference, strict=True)]
    return {name: max(one[name] for one in frames) for name in frames[0]}


def verdict(found: Sequence[Arrays], reference: Sequence[Arrays], dtype: str) -> tuple[bool, dict[str, float]]:
    """Whether speed and memory of `found` may be reported, and the differences that say so."""
    if dtype == "float32":
        worst = differences(found, reference)
        return all(value <= FLOAT32_TOLERANCE for value in worst.values()), worst  # False for NaN
    worst = errors(found, reference)
    return all(worst[name] <= limit for name, limit in BFLOAT16_TOLERANCE.items()), worst
