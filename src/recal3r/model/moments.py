"""Attention with its entropy, and its reverse, by fused calls alone: no map is built and the host looks at no number.

B batch · H heads · N state tokens · P patches · d head size
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recal3r.model.attention import KeysValues, attend, attend_with_logsumexp


class Measured(NamedTuple):
    out: Tensor  # [B, H, N, d], attention over pose token and patches
    entropy: Tensor  # [B, H, N], over the patches alone
    predicted: Tensor | None  # X̂ [B, H, P, d]: what the state tokens that look at a patch say, if they were asked


def by_moments(queries: Tensor, seen: KeysValues, state_values: Tensor | None) -> Measured:
    """`queries`, `state_values` [B, H, N, d]; the first of what is seen is the pose token.

    With Z = Σ_{j≥1} exp a_j, the pose token joins the patches' attention by its share of the whole:

        out = (1 - p_0) E[v] + p_0 v_0,   p_0 = σ(a_0 - log Z)                                                    (1)

    which is a sum of positive terms and keeps its digits even where one token takes all (taking the pose token *out*
    of a softmax over everything does not). One fused call over the patches gives log Z, E[k] and E[v]:

        H = log Z - Σ_j p_j a_j = log Z - scale · q · E[k]                                                        (2)

    No logit depends on the origin of the keys but by a constant per query, which leaves (1) and (2) alone; centred
    keys make the two terms of (2) small. Their difference is exact to the rounding of the largest logit.
    X̂ is one more attention, with the roles of state and image swapped.
    """
    keys, values = seen
    wide = torch.promote_types(queries.dtype, torch.float32)
    scale = queries.shape[-1] ** -0.5
    centred = keys - keys[:, :, 1:].mean(2, keepdim=True)
    # One tensor serves as keys and as values: beside zeros in the query, the value half of a key does not count.
    both = torch.cat((centred[:, :, 1:], values[:, :, 1:]), dim=-1)  # [B, H, P, 2d]
    padded = torch.cat((queries, torch.zeros_like(queries)), dim=-1)
    expected, log_z = attend_with_logsumexp(padded, KeysValues(both, both), scale)
    expected_key, expected_value = expected.chunk(2, dim=-1)

    q = queries.to(wide) * scale
    entropy = (log_z - (q * expected_key.to(wide)).sum(-1)).clamp_min(0)  # (2)
    pose_logit = (q * centred[:, :, :1].to(wide)).sum(-1)
    share = (pose_logit - log_z).sigmoid().to(values.dtype)[..., None]
    out = torch.lerp(expected_value, values[:, :, :1], share)  # (1)
    predicted = None if state_values is None else attend(keys[:, :, 1:], KeysValues(queries, state_values))
    return Measured(out, entropy, predicted)
