"""Matrix products on a CPU by oneDNN, which PyTorch ships and does not use for all of them.

In float32 `matmul` and `linear` go another way, two to four times slower on processors that are not Intel's.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

_SMALL = 2**14
_AT_ONCE = 2**24  # logits: 32 MB in bfloat16
WORTHWHILE = 2**16  # logits of a head, below which calls cost more than they save


@functools.cache
def can_pack(dtype: torch.dtype) -> bool:
    """Whether this machine's PyTorch has the calls that packed layers stand on."""
    if not torch.backends.mkldnn.is_available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())


def product(x: Tensor, y: Tensor) -> Tensor:  # [T, C], [U, C] -> [T, U]
    """x yᵀ. `y` must be contiguous: oneDNN takes other layouts too, at a crawl."""
    if torch.compiler.is_compiling() or x.device.type != "cpu" or x.requires_grad or not can_pack(x.dtype):
        return x @ y.T
    return torch.ops.mkldnn._linear_pointwise(x, y, None, "none", [], "")


def products(x: Tensor, y: Tensor) -> Tensor:  # [H, T, C], [H, U, C] -> [H, T, U]
    """x yᵀ, head by head."""
    return product(x[0], y[0])[None] if len(x) == 1 else x @ y.transpose(1, 2)


def heads_at_once(dtype: torch.dtype, logits: int) -> int:
    """How many heads of so many logits one call takes. In bfloat16 `matmul` is oneDNN's already, and cores that have
    heads of their own need not wait for each other; in float32 it is not, and one large one at a time stays in the
    cache. Of small ones the calls would take longer than the products."""
    return max(1, _AT_ONCE // logits) if dtype == torch.bfloat16 or logits < WORTHWHILE else 1


def products_down(x: Tensor, y: Tensor) -> Tensor:  # [H, T, C], [H, T, D] -> [H, C, D]
    """xᵀ y, head by head. A large one in float32 is a convolution over C pixels of T channels, which is the one call
    that reads x as it lies: a transposed copy takes longer than the product."""
    if len(x) > 1 or x.dtype != torch.float32 or x.numel() < _SMALL or not can_pack(x.dtype):
        return x.transpose(1, 2) @ y
    weight = y[0].T.contiguous()[..., None, None]
    pixels = x[:, :, None]  # [1, T, 1, C]
    found = torch.ops.mkldnn._convolution_pointwise(pixels, weight, None, [0, 0], [1, 1], [1, 1], 1, "none", [], "")
    return found[:, :, 0].transpose(1, 2)
