"""The network before its first lesson."""

from __future__ import annotations

import torch
from torch import nn

from recal3r.model.blocks import ConditionedBlock, DecoderBlock, EncoderBlock
from recal3r.model.config import Cut3rConfig
from recal3r.model.cut3r import Cut3r
from recal3r.model.heads import PixelMlp

_START_Z = 1.25  # exp-stretched: 2.5 m in front of the camera
_QUIET = 0.3


@torch.no_grad()
def fresh_network(config: Cut3rConfig, seed: int) -> Cut3r:
    """Random weights that say: every pixel is 2.5 m away and the camera has not moved."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Cut3r(config)
    for head in (model.heads.camera, model.heads.world):
        if isinstance(head, PixelMlp):
            head.mlp.fc2.weight.mul_(_QUIET)
            head.mlp.fc2.bias.zero_()
            head.mlp.fc2.bias.view(4, -1)[2] = _START_Z
    model.heads.pose.fc2.weight.mul_(_QUIET)
    model.heads.pose.fc2.bias.copy_(torch.tensor([0.0, 0, 0, 1, 0, 0, 0]))
    for block in model.pose_memory.read_blocks:  # recall begins as hardly more than the learned token
        for last in (block.attn.proj, block.cross_attn.proj, block.mlp.fc2):
            _scale(last, 0.1)
    return model.train()


@torch.no_grad()
def recall_pose_token(model: Cut3r) -> None:
    """The pose memory recalls what was learned without it."""
    model.pose_memory.masked_token.copy_(model.pose_token)


def heads_in_full_precision(model: Cut3r, device_type: str) -> None:
    """Poses and points are computed in float32 whatever surrounds them: bfloat16 knows an angle to half a degree."""
    heads = model.heads.forward

    def forward(*arguments: object) -> object:
        with torch.autocast(device_type, enabled=False):
            return heads(*arguments)  # type: ignore[arg-type]

    model.heads.forward = forward  # type: ignore[method-assign,assignment]


def compile_blocks(model: Cut3r) -> None:
    """Every transformer block's small operations become few: on a CPU they take longer than its matrix products."""
    from torch._dynamo import config  # noqa: PLC0415  # a second, which who does not compile need not wait

    config.recompile_limit = 128  # one per kind of block, length of stream and set of gradients
    config.accumulated_recompile_limit = 1024
    for block in model.modules():
        if isinstance(block, EncoderBlock | DecoderBlock | ConditionedBlock):
            block.compile(dynamic=False)


def _scale(linear: nn.Linear, factor: float) -> None:
    linear.weight.mul_(factor)
    linear.bias.mul_(factor)
