"""What is wrong with a prediction, in numbers. Every loss is zero at the truth, but for the confidence's own term.

B streams · T frames · H, W pixels · P patches
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812

ALPHA = 0.2
_SOFT = 1e-3  # lengths below this are measured softly: |x| has no slope at 0
_LEAST, _MOST = 1 + math.exp(-8.0), 1 + math.exp(5.0)  # confidence; beyond, a few good pixels would be all that counts
WORLD_WEIGHT, ROTATION_WEIGHT, RELATIVE_WEIGHT = 0.5, 2.5, 0.5


class Motion(NamedTuple):
    """Rigid motions."""

    rotation: Tensor  # [..., 3, 3]
    translation: Tensor  # [..., 3]

    def between(self) -> Motion:
        """From each frame to the next, along the last but one axis of translation: [B, T] -> [B, T - 1]."""
        back = self.rotation[:, :-1].transpose(-1, -2)
        step = self.translation[:, 1:] - self.translation[:, :-1]
        return Motion(back @ self.rotation[:, 1:], (back @ step[..., None])[..., 0])


def motion_of(pose: Tensor) -> Motion:
    """The network's pose [..., 7]: translation, then a unit quaternion with its real part first (geometry.pose)."""
    w, x, y, z = pose[..., 3:].unbind(-1)
    rotation = torch.stack(
        (
            *(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
            *(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
            *(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
        ),
        dim=-1,
    )
    return Motion(rotation.unflatten(-1, (3, 3)), pose[..., :3])


def motion_of_matrix(matrix: Tensor) -> Motion:  # [..., 4, 4]
    return Motion(matrix[..., :3, :3], matrix[..., :3, 3])


def soft_length(x: Tensor) -> Tensor:
    """|x| over the last axis, a parabola near 0."""
    return (x.square().sum(-1) + _SOFT**2).sqrt() - _SOFT


def angle_between(a: Tensor, b: Tensor) -> Tensor:
    """Radians between rotations [..., 3, 3], as the chord √2 |sin(θ/2)|·2 measures them: right for small angles."""
    return soft_length((a - b).flatten(-2)) / math.sqrt(2.0)


def translation_loss(found: Motion, true: Motion) -> Tensor:
    """Metres, but far motions may be wrong by more."""
    size = soft_length(true.translation)
    return (soft_length(found.translation - true.translation) / (0.4 + 0.5 * size)).mean()


def rotation_loss(found: Motion, true: Motion) -> Tensor:
    identity = torch.eye(3, device=true.rotation.device)
    size = angle_between(true.rotation, identity)
    return (angle_between(found.rotation, true.rotation) / (0.15 + 0.5 * size)).mean()


def pose_losses(pose: Tensor, matrices: Tensor) -> dict[str, Tensor]:  # [B, T, 7], [B, T, 4, 4]
    """Absolute, and from each frame to the next."""
    found, true = motion_of(pose), motion_of_matrix(matrices)
    losses = {
        "translation": translation_loss(found, true),
        "rotation": ROTATION_WEIGHT * rotation_loss(found, true),
    }
    if pose.shape[1] > 1:
        step, true_step = found.between(), true.between()
        losses["step_translation"] = RELATIVE_WEIGHT * translation_loss(step, true_step)
        losses["step_rotation"] = RELATIVE_WEIGHT * ROTATION_WEIGHT * rotation_loss(step, true_step)
    return losses


def points_loss(points: Tensor, confidence: Tensor, truth: Tensor) -> Tensor:
    """Error × confidence − α log confidence: [..., 3], [...], [..., 3]."""
    confidence = confidence.clamp(_LEAST, _MOST)
    return (confidence * soft_length(points - truth) - ALPHA * confidence.log()).mean()


def choice_loss(logits: Tensor, target: Tensor, valid: Tensor) -> Tensor:
    """Cross-entropy of [..., choices] towards target [...], over those that are valid."""
    each = F.cross_entropy(logits.float().flatten(0, -2), target.flatten(), reduction="none")
    return masked_mean(each, valid.flatten())


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    return (values * mask).sum() / mask.sum().clamp_min(1)
