"""Networks without numbers: only names and shapes, as a checkpoint is about to fill them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _Undrawn(TorchFunctionMode):
    """Initial weights are not drawn. Where there is no place for them it would still load PyTorch's compiler, which
    takes a second."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func is torch.Tensor.normal_ or getattr(func, "__module__", None) == torch.nn.init.__name__:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@contextmanager
def outline() -> Generator[None]:
    """Modules that are made inside have no numbers."""
    with torch.device("meta"), _Undrawn():
        yield
