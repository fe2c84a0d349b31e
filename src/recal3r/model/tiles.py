"""Attention and what rules want to know of it, on a CPU: a few heads' logits at a time, in the cache and gone at once.

H heads (of all samples) · N state tokens · P patches · d head size

One exponential of the logits serves both directions. With keys centred over the patches, k̂_j = k_j - mean_j k_j, the
centred logits â_mj = scale q_m·k̂_j differ from a_mj by c_m = scale q_m·mean_j k_j, a constant per query, and

    W_mj = exp â_mj
    over patches:       softmax_j a_mj = W_mj / Σ_j W_mj                                                      (1)
    over state tokens:  softmax_m a_mj = W_mj s_m / Σ_m W_mj s_m,   s_m = exp(c_m - max c)                    (2)

so that all sums are matrix products of W with [values, keys, 1] and of Wᵀ with s·[state values, 1]. No maximum is
subtracted: where a sum leaves the range in which that is exact, its head is measured again the careful way.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from recal3r.model.attention import KeysValues
from recal3r.model.moments import Measured

TILE_ELEMENTS = 2**21
"""How many logits may exist at once: 8 MB in float32, whatever the size of network and picture."""
_LEAST, _MOST = 1e-9, 1e9  # sums in between are exact to the last digits of float32


class _Layer(NamedTuple):
    """Patches alone, keys centred over them. All but the values in float32 or better."""

    q: Tensor  # [H, N, d], scaled
    k: Tensor  # k̂ [H, P, d]
    v: Tensor  # [H, P, d]
    v_state: Tensor | None  # [H, N, d]
    shift: Tensor  # c [H, N, 1]


class _Softmaxes(NamedTuple):
    """What both directions give."""

    log_total: Tensor  # log Z_m = log Σ_j W_mj [H, N, 1]
    value: Tensor  # Σ_j p_mj v_j [H, N, d]
    entropy: Tensor  # [H, N, 1]
    predicted: Tensor | None  # [H, P, d]


def by_tiles(queries: Tensor, seen: KeysValues, state_values: Tensor | None) -> Measured:
    """`queries`, `state_values` [B, H, N, d]; the first of what is seen is the pose token."""
    q, k, v = (x.flatten(0, 1) for x in (queries, *seen))
    v_state = None if state_values is None else state_values.flatten(0, 1)
    wide = torch.promote_types(q.dtype, torch.float32)
    q_wide, k_wide = q.to(wide) * queries.shape[-1] ** -0.5, k.to(wide)
    middle = k_wide[:, 1:].mean(1, keepdim=True)
    shift = (q_wide * middle).sum(-1, keepdim=True)  # c [H, N, 1]
    centred = k_wide - middle
    found = _shared(_Layer(q_wide, centred[:, 1:], v[:, 1:], v_state, shift))
    pose_logit = (q_wide * centred[:, :1]).sum(-1, keepdim=True)
    share = (pose_logit - found.log_total).sigmoid()  # p_0: the pose token joins by its share of the whole
    return Measured(
        torch.lerp(found.value, v[:, :1].to(wide), share).to(v.dtype).view_as(queries),
        found.entropy.view(queries.shape[:3]),
        None if found.predicted is None else found.predicted.unflatten(0, queries.shape[:2]),
    )


def _shared(layer: _Layer) -> _Softmaxes:
    """By one exponential, in the precision of the values."""
    q, k, v, v_state, shift = layer
    (heads, tokens, size), patches = q.shape, k.shape[1]
    working, wide = v.dtype, q.dtype
    q_working, k_working = q.to(working), k.to(working)
    seen = torch.cat((v, k_working, k_working.new_ones(heads, patches, 1)), dim=-1)
    weigh = (shift - shift.amax(1, keepdim=True)).exp().to(working)  # s [H, N, 1]
    said = None if v_state is None else torch.cat((v_state * weigh, weigh), dim=-1)
    rows = v.new_empty(heads, tokens, 2 * size + 1)
    columns = v.new_ones(heads, patches, size + 1)
    tile = max(1, min(heads, TILE_ELEMENTS // (tokens * patches)))
    weights = v.new_empty(tile, tokens, patches)
    for first in range(0, heads, tile):
        some = slice(first, min(first + tile, heads))
        w = weights[: some.stop - first]
        torch.bmm(q_working[some], k_working[some].transpose(1, 2), out=w).exp_()  # W
        torch.bmm(w, seen[some], out=rows[some])  # (1)
        if said is not None:
            torch.bmm(w.transpose(1, 2), said[some], out=columns[some])  # (2)
    rows, columns = rows.to(wide), columns.to(wide)
    total, column_total = rows[..., -1:], columns[..., -1:]
    value, key = (rows[..., :-1] / total).chunk(2, dim=-1)
    log_total = total.log()
    # H = -Σ_j p_j log p_j with log p_j = â_j - log Z and â_j = q·k̂_j
    entropy = (log_total - (q * key).sum(-1, keepdim=True)).clamp_min(0)
    found = _Softmaxes(log_total, value, entropy, None if said is None else columns[..., :-1] / column_total)
    least = torch.minimum(total.amin((1, 2)), column_total.amin((1, 2)))
    most = torch.maximum(total.amax((1, 2)), column_total.amax((1, 2)))
    exact = ((least > _LEAST) & (most < _MOST)).numpy()  # False for NaN
    for head in range(heads):
        if not exact[head]:
            _measure_carefully(found, layer, head)
    return found


def _measure_carefully(found: _Softmaxes, layer: _Layer, head: int) -> None:
    """One head again, each direction by a softmax of its own: right for logits of any size. Changes `found`."""
    wide = layer.q.dtype
    logits = layer.q[head] @ layer.k[head].T  # â [N, P]
    log_p = logits.log_softmax(-1)
    p = log_p.exp()
    found.log_total[head] = logits.logsumexp(-1, keepdim=True)
    found.value[head] = p @ layer.v[head].to(wide)
    found.entropy[head] = -(p * log_p).sum(-1, keepdim=True)
    if layer.v_state is not None and found.predicted is not None:
        found.predicted[head] = (logits + layer.shift[head]).softmax(0).T @ layer.v_state[head].to(wide)
