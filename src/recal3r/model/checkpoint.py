"""Weights on disk: which network they belong to, and its tensors under their official names."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor

from recal3r.errors import ConfigError, WeightsError
from recal3r.model.config import Cut3rConfig
from recal3r.model.safetensors_file import read_safetensors, write_safetensors
from recal3r.model.torch_file import read_torch_file

__all__ = ["Checkpoint", "check_finite", "read_checkpoint", "write_safetensors"]

_READERS = {".pth": read_torch_file, ".pt": read_torch_file, ".safetensors": read_safetensors}
_PARALLEL = "module."  # what training on several devices puts before every name
# Far above any network of this family: a file must not be able to ask for one that takes a day to lay out.
_MOST_BLOCKS = 1000
_LARGEST_SIZE = 1 << 20


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A configuration and its weights, which are read when they are looked at: keep the file while they are in use."""

    config: Cut3rConfig
    tensors: Mapping[str, Tensor]
    shapes: Mapping[str, torch.Size]
    path: Path


def read_checkpoint(path: str | Path) -> Checkpoint:
    """Reads an official `.pth` file or a `.safetensors` file of ours. Nothing in either is executed."""
    path = Path(path)
    if path.is_dir():
        raise WeightsError(f"{path} is a folder; the weights file itself would work.")
    if not path.is_file():
        raise WeightsError(f"{path} is no file that exists; the path of a .pth or .safetensors file would work.")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise WeightsError(f"{path} does not end in .pth, .pt or .safetensors, the formats that hold weights.")
    try:
        if not path.stat().st_size:
            raise WeightsError(f"{path} is empty; download it again or use another copy.")
        config, tensors = reader(path)
    except ConfigError as error:
        raise WeightsError(f"{path} belongs to no network that is supported: {error}") from error
    except OSError as error:
        raise WeightsError(
            f"{path} cannot be read ({error.strerror or error}); a file you may read would work."
        ) from error
    _check_extent(config, path)
    tensors = _without_prefix(tensors, path)
    return Checkpoint(config, tensors, check_finite(tensors, str(path)), path)


def check_finite(tensors: Mapping[str, Tensor], source: str = "The checkpoint") -> dict[str, torch.Size]:
    """Every tensor's shape; or a WeightsError that names the first one with a value that is no finite number."""
    shapes: dict[str, torch.Size] = {}
    for name, tensor in tensors.items():
        if not tensor.is_floating_point():
            raise WeightsError(f"{source} holds {name!r} as {tensor.dtype}, but weights are floating point numbers.")
        # The extremes of a tensor are NaN if any of its values is; they cost one pass and no second copy.
        if tensor.numel() and not torch.isfinite(torch.stack(torch.aminmax(tensor.detach()))).all():
            raise WeightsError(f"{source} holds NaN or infinity in {name!r}; a file with finite weights would work.")
        shapes[name] = tensor.shape
    return shapes


def _check_extent(config: Cut3rConfig, path: Path) -> None:
    for field, value in dataclasses.asdict(config).items():
        limit = _MOST_BLOCKS if field.endswith("_depth") else _LARGEST_SIZE
        if isinstance(value, int) and value > limit:
            raise WeightsError(f"{path} asks for a network of {field}={value}; at most {limit} would work.")


class _Renamed(Mapping[str, Tensor]):
    def __init__(self, tensors: Mapping[str, Tensor], names: Mapping[str, str]) -> None:
        self._tensors, self._names = tensors, names  # new name -> old name

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[self._names[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _without_prefix(tensors: Mapping[str, Tensor], path: Path) -> Mapping[str, Tensor]:
    bare = {name.removeprefix(_PARALLEL): name for name in tensors}
    if not bare:
        raise WeightsError(f"{path} holds no tensors; a file with the weights of a CUT3R network would work.")
    if len(bare) != len(tensors):
        raise WeightsError(f"{path} holds one weight both with and without {_PARALLEL!r}; a file with one would work.")
    return _Renamed(tensors, bare)
