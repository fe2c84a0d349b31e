"""Attention and what rules want to know of it, on a CPU: a few heads' logits at a time, in the cache and gone at once.

H heads (of all samples) · N state tokens · P patches · d head size

The softmax that attention needs anyway serves both directions. With keys centred over the patches,
k̂_j = k_j - mean_j k_j, the centred logits â_mj = scale q_m·k̂_j differ from a_mj by c_m = scale q_m·mean_j k_j, a
constant per query, and for P_mj = softmax_j a_mj = softmax_j â_mj = exp(â_mj) / Z_m

    log Z_m = â_mj - log P_mj,   whichever j                                                                      (1)
    H_m = log Z_m - Σ_j P_mj â_mj = log Z_m - scale q_m·Σ_j P_mj k̂_j                                              (2)
    softmax_m a_mj = P_mj s_m / Σ_m P_mj s_m,   s_m = Z_m exp(c_m) up to a factor                                 (3)

so that all sums are matrix products of P with [values, keys] and of Pᵀ with s·[state values, 1]. A head is measured
again, the careful way, where that loses digits: in (2) both terms are large; in (3) all tokens that look at a patch
have an s far below the largest.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recal3r.model.attention import KeysValues
from recal3r.model.moments import Measured
from recal3r.model.onednn import heads_at_once, products, products_down

_LARGEST = 24.0  # a log Z to which (2) is exact within 1e-5
_FIRST = 32  # how many patches (1) is looked for in: the one with the largest P of them
_LEAST = 1e-24  # a sum of (3) above this has lost no term that matters: what underflows is below 1e-38


class _Heads(NamedTuple):
    """Patches alone, keys centred over them."""

    q: Tensor  # [H, N, d], scaled
    k: Tensor  # k̂ [H, P, d]
    seen: Tensor  # values and keys [H, 2d, P]
    v_state: Tensor | None  # [H, N, d]
    shift: Tensor  # c [H, N, 1], in float32 or better


class _Softmaxes(NamedTuple):
    """What both directions give, in float32 or better."""

    value: Tensor  # Σ_j P_mj v_j [H, N, d]
    log_total: Tensor  # log Z_m [H, N, 1]
    entropy: Tensor  # [H, N, 1]
    predicted: Tensor | None  # [H, P, d]


def by_tiles(queries: Tensor, seen: KeysValues, state_values: Tensor | None) -> Measured:
    """`queries`, `state_values` [B, H, N, d]; the first of what is seen is the pose token."""
    q, k, v = (x.flatten(0, 1) for x in (queries, *seen))
    wide = torch.promote_types(q.dtype, torch.float32)
    q_wide, k_wide = q.to(wide) * queries.shape[-1] ** -0.5, k.to(wide)
    middle = k_wide[:, 1:].mean(1, keepdim=True)
    centred = k_wide - middle
    keys = centred[:, 1:].to(q.dtype)
    heads = _Heads(
        q_wide.to(q.dtype).contiguous(),
        keys.contiguous(),
        torch.cat((v[:, 1:], keys), dim=-1).transpose(1, 2).contiguous(),
        None if state_values is None else state_values.flatten(0, 1),
        (q_wide * middle).sum(-1, keepdim=True),
    )
    found = _measured(heads)
    pose_logit = (q_wide * centred[:, :1]).sum(-1, keepdim=True)
    share = (pose_logit - found.log_total).sigmoid()  # p_0: the pose token joins by its share of the whole
    out = found.value * (1 - share) + v[:, :1].to(wide) * share  # `lerp` is several times slower where it repeats
    return Measured(
        out.to(v.dtype).view_as(queries),
        found.entropy.view(queries.shape[:3]),
        None if found.predicted is None else found.predicted.unflatten(0, queries.shape[:2]),
    )


def _measured(heads: _Heads) -> _Softmaxes:
    q, k, seen, v_state, shift = heads
    count, tokens, size = q.shape
    rows = shift.new_empty(count, tokens, 2 * size)  # Σ_j P_mj [v_j, k̂_j]
    log_total = torch.empty_like(shift)
    predicted = None if v_state is None else shift.new_empty(count, k.shape[1], size)
    careful: list[int] = []
    step = heads_at_once(q.dtype, tokens * k.shape[1])
    for head in range(0, count, step):
        some = slice(head, head + step)
        logits = products(q[some], k[some])  # â [step, N, P]
        known = _largest(logits, shift.dtype)
        p = torch.softmax(logits, dim=-1, out=logits)
        rows[some] = products(p, seen[some])
        log_total[some] = known - _largest(p, shift.dtype).log()  # (1)
        exact = log_total[some].abs().amax((1, 2)) < _LARGEST  # False for NaN, and infinite where P is none
        if v_state is not None and predicted is not None:
            weights = log_total[some] + shift[some]  # log s [step, N, 1]
            weights = (weights - weights.amax(1, keepdim=True)).exp().to(p.dtype)
            sums = products_down(p, torch.cat((v_state[some] * weights, weights), dim=-1)).to(shift.dtype)
            total = sums[..., -1:]
            predicted[some] = sums[..., :-1] / total  # (3)
            exact = exact & (total.amin((1, 2)) > _LEAST)
        careful += [head + nth for nth, fine in enumerate(exact) if not fine]
    value, key = rows.chunk(2, dim=-1)
    entropy = (log_total - (q.to(shift.dtype) * key).sum(-1, keepdim=True)).clamp_min(0)  # (2)
    found = _Softmaxes(value, log_total, entropy, predicted)
    for head in careful:
        _measure_carefully(found, heads, head)
    return found


def _largest(x: Tensor, dtype: torch.dtype) -> Tensor:  # [..., N, P] -> [..., N, 1]
    """Of the first patches. Coarse numbers are slower to compare than to convert."""
    return x[..., :_FIRST].to(dtype).amax(-1, keepdim=True)


def _measure_carefully(found: _Softmaxes, heads: _Heads, head: int) -> None:
    """One head again, each direction by a softmax of its own: right for logits of any size. Changes `found`."""
    shift = heads.shift[head]
    logits = heads.q[head].to(shift.dtype) @ heads.k[head].to(shift.dtype).T
    log_p = logits.log_softmax(-1)
    found.log_total[head] = logits.logsumexp(-1, keepdim=True)
    found.entropy[head] = -(log_p.exp() * log_p).sum(-1, keepdim=True)
    if heads.v_state is not None and found.predicted is not None:
        found.predicted[head] = (logits + shift).softmax(0).T @ heads.v_state[head].to(shift.dtype)
