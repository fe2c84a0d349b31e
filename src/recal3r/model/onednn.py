"""Matrix products on a CPU by oneDNN, which PyTorch ships and does not use for all of them.

In float32 `matmul` and `linear` go another way, two to four times slower on processors that are not Intel's.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

_SMALL = 2**14


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


def product_down(x: Tensor, y: Tensor) -> Tensor:  # [T, C], [T, D] -> [C, D]
    """xᵀ y, in float32 as a convolution over C pixels of T channels, which is the one call that reads x as it lies: a
    transposed copy takes longer than the product. `matmul` in bfloat16 is oneDNN's already, and best for small ones."""
    if x.dtype != torch.float32 or x.numel() < _SMALL or not can_pack(x.dtype):
        return x.T @ y
    weight = y.T.contiguous()[..., None, None]
    pixels = x[None, :, None]  # [1, T, 1, C]
    found = torch.ops.mkldnn._convolution_pointwise(pixels, weight, None, [0, 0], [1, 1], [1, 1], 1, "none", [], "")
    return found[0, :, 0].T
