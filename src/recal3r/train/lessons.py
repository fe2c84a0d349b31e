"""The losses of one batch, for each kind of stage.

B streams · T frames · P patches · N state tokens · C decoder width
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from recal3r.engine.session import Session
from recal3r.engine.step import step
from recal3r.model.cut3r import Cut3r, Tokens, View
from recal3r.model.heads import Head, Points, ReadOut
from recal3r.rules.cut3r import Cut3rRule
from recal3r.train.footage import Takes
from recal3r.train.helpers import HelperHeads, attention_loss, watching
from recal3r.train.losses import WORLD_WEIGHT, choice_loss, masked_mean, points_loss, pose_losses, soft_length
from recal3r.train.recipe import Helpers, TrainError
from recal3r.train.truth import camera_points, correspondence, patch_targets, pixel_grid, world_points

Losses = dict[str, Tensor]


class Lesson(NamedTuple):
    """What is to be learned, and what only helps on the way."""

    losses: Losses
    helping: Losses


Part = TypeVar("Part")
TRAINED_HEADS = frozenset({Head.POSE, Head.CAMERA, Head.WORLD})


def encoder_lesson(model: Cut3r, heads: HelperHeads, takes: Takes, helpers: Helpers) -> Lesson:
    """What every patch shows: how far away it is, and where it is in another picture."""
    first, second = _encode_pair(model, takes)
    targets, valid = patch_targets(correspondence(takes), model.config.patch_size)
    depth = torch.stack((heads.depth(first.tokens, first.grid), heads.depth(second.tokens, second.grid)), dim=1)
    matching = choice_loss(heads.matches(second.tokens, first.tokens), targets, valid)
    return Lesson({"log_depth": (depth - takes.depth.log()).abs().mean()}, {"matching": helpers.matching * matching})


def pairs_lesson(model: Cut3r, heads: HelperHeads, takes: Takes, helpers: Helpers) -> Lesson:
    """The second picture against the first, which stands where the state will be."""
    with watching(model) as seen:
        first, second, read = read_pair(model, takes)
    losses = read_losses(read, Takes(takes.images[:, 1:], takes.depth[:, 1:], takes.poses[:, 1:], takes.intrinsics))
    helping: Losses = {}
    if helpers.matching or helpers.attention or helpers.flow:
        matches = correspondence(takes)
        targets, valid = patch_targets(matches, model.config.patch_size)
        similar = heads.matches(second.tokens, first.tokens)
        helping["matching"] = helpers.matching * choice_loss(similar, targets, valid)
        helping["attention"] = helpers.attention * attention_loss(seen, targets, valid)
        flow = _flow_loss(heads, there(seen.decoded).final, second.grid, takes, matches.pixels)
        helping["flow"] = helpers.flow * flow
    return Lesson(losses, helping)


def streams_lesson(
    model: Cut3r, session: Session, takes: Takes, helpers: Helpers
) -> Lesson:  # changes the session, as streams do
    """A window of frames, one after another, through the loop that everything else runs through."""
    with watching(model) as seen:
        helping: Losses = {}
        reads: list[ReadOut] = []
        first_frame = all(session.starts)
        for t in range(takes.images.shape[1]):
            reads.append(read_frame(model, session, takes.images[:, t]))
            if first_frame and t == 0 and helpers.passing:
                helping["passing"] = helpers.passing * _passing_loss(model, session, there(seen.decoded).embedding)
            if first_frame and t == 1 and helpers.attention:
                pair = Takes(takes.images[:, :2], takes.depth[:, :2], takes.poses[:, :2], takes.intrinsics)
                targets, valid = patch_targets(correspondence(pair), model.config.patch_size)
                helping["attention"] = helpers.attention * attention_loss(seen, targets, valid)
    return Lesson(read_losses(stacked(reads), takes), helping)


def read_frame(model: Cut3r, session: Session, images: Tensor) -> ReadOut:  # [B, 3, H, W]
    write = [True] * len(images)
    return step(model, Cut3rRule(), session, View(images), wanted=TRAINED_HEADS, write=write).read


def stacked(reads: Sequence[ReadOut]) -> ReadOut:
    """Frames side by side: every tensor [B, ...] becomes [B, T, ...]."""
    return ReadOut(
        torch.stack([there(read.pose) for read in reads], dim=1),
        _stacked_points([there(read.camera) for read in reads]),
        _stacked_points([there(read.world) for read in reads]),
    )


def there(part: Part | None) -> Part:
    """A part of the network's answer that was asked for, or that has just been recorded."""
    if part is None:
        raise TrainError("The network was not asked for poses and points in camera and world; ask for all three.")
    return part


def read_losses(read: ReadOut, takes: Takes) -> Losses:
    """What the network says of frames [B, T] against the truth."""
    points = camera_points(takes.depth, takes.intrinsics)
    return {
        "camera": points_loss(*there(read.camera), points),
        "world": WORLD_WEIGHT * points_loss(*there(read.world), world_points(points, takes.poses)),
        **pose_losses(there(read.pose), takes.poses),
    }


def read_pair(model: Cut3r, takes: Takes) -> tuple[Tokens, Tokens, ReadOut]:
    """The second picture decoded against the first one's embedding, in the place of a state: token i is patch i."""
    first, second = _encode_pair(model, takes)
    decoder = model.decoder
    spare = model.initial_state()[:, first.tokens.shape[1] :].expand(len(first.tokens), -1, -1)
    state = decoder.state_norm(torch.cat((decoder.embed_image(first.tokens), spare), dim=1))
    decoded = model.decode(second, state, model.pose_token.expand(len(state), -1, -1))
    return first, second, stacked([model.read_out(second, decoded, TRAINED_HEADS)])


def _stacked_points(maps: Sequence[Points]) -> Points:
    points = torch.stack([one.points for one in maps], dim=1)
    return Points(points, torch.stack([one.confidence for one in maps], dim=1))


def _encode_pair(model: Cut3r, takes: Takes) -> tuple[Tokens, Tokens]:
    both = model.encode(View(takes.images.transpose(0, 1).flatten(0, 1)))
    first, second = both.tokens.chunk(2)
    return Tokens(first, both.grid), Tokens(second, both.grid)


def _passing_loss(model: Cut3r, session: Session, embedding: Tensor) -> Tensor:
    """After a first frame the state holds what `read_pair` would have put there."""
    target = model.decoder.state_norm(embedding).detach().float()
    return (session.state[:, : target.shape[1]] - target).square().mean()


def _flow_loss(heads: HelperHeads, final: Tensor, grid: tuple[int, int], takes: Takes, pixels: Tensor) -> Tensor:
    optical, scene = heads.flows(final, grid)
    height, width = takes.depth.shape[-2:]
    moved = (pixels - pixel_grid(height, width, pixels.device)) / width  # [B, H, W, 2]
    near = moved.abs().amax(-1) < 1.0  # what leaves the picture by more has no useful place
    points = camera_points(takes.depth, takes.intrinsics)
    shift = (world_points(points, takes.poses) - points)[:, 1]
    return 3.0 * masked_mean(soft_length(optical - moved), near) + soft_length(scene - shift).mean()
