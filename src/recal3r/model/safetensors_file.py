"""Reads and writes `.safetensors` files: official names, raw numbers, and the configuration as JSON.

The configuration travels in the file's metadata, so that one file is enough; the same text lies beside it as
`<stem>.json` for people to read.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from recal3r.errors import ConfigError, WeightsError
from recal3r.jsontext import parsed
from recal3r.model.config import Cut3rConfig

FORMAT_VERSION = "1"
_CONFIG_KEY = "recal3r_config"
_VERSION_KEY = "format_version"
_READABLE = {"F16": torch.float16, "BF16": torch.bfloat16, "F32": torch.float32, "F64": torch.float64}
_WRITABLE = {torch.float32: "F32", torch.float16: "F16"}


class TensorsOnDisk(Mapping[str, Tensor]):
    """Every look at an entry reads it: what is looked at one by one never stands in memory as a whole.

    (A memory map would; the pages it has touched count as resident.)
    """

    def __init__(self, path: Path, entries: Mapping[str, _Entry]) -> None:
        self._path, self._entries = path, entries

    def __getitem__(self, name: str) -> Tensor:
        entry = self._entries[name]
        tensor = torch.empty(entry.shape, dtype=_READABLE[entry.kind])
        with self._path.open("rb") as file:
            file.seek(entry.start)
            read = file.readinto(cast("Any", tensor.view(-1).view(torch.uint8).numpy())) if tensor.numel() else 0
        if read != tensor.nbytes:
            raise WeightsError(f"{self._path} was cut short while it was read; use another copy.")
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


class _Entry(NamedTuple):
    kind: str
    shape: tuple[int, ...]
    start: int  # in the file, bytes


def read_safetensors(path: Path) -> tuple[Cut3rConfig, TensorsOnDisk]:
    """The configuration, and the tensors to be read when they are looked at."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:  # pyright: ignore[reportUnknownVariableType]  # its stub has no types
            opened = cast("Any", file)  # it has checked that the header describes the file
            config = _read_config(path, opened.metadata() or {})
            return config, TensorsOnDisk(path, _entries(path))
    except SafetensorError as error:
        raise WeightsError(
            f"{path} is cut short or no safetensors file ({' '.join(str(error).split())[:100]}); "
            "download it again or use another copy."
        ) from error


def write_safetensors(
    path: str | Path,
    config: Cut3rConfig,
    tensors: Mapping[str, Tensor],
    *,
    dtype: torch.dtype | None = None,
    overwrite: bool = False,
) -> None:
    """Writes the tensors, as float16 or float32 as they come or all as `dtype`, with their configuration.

    A tensor under two names is written twice, so that every official name reads back. One tensor at a time is
    converted and written: the file never stands in memory. Until it is complete, what was at `path` stays.
    """
    path = Path(path)
    beside = path.with_suffix(".json")
    _check_target(path, beside, overwrite)
    dtypes = {name: _writable(name, dtype or tensor.dtype) for name, tensor in tensors.items()}
    # Wide numbers first: each tensor then starts at a multiple of its own width.
    names = sorted(tensors, key=lambda name: -dtypes[name].itemsize)
    header = _header(config, {name: (dtypes[name], tensors[name].shape) for name in names})
    with _replacing(path) as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for name in names:
            _write_tensor(file, name, tensors[name], dtypes[name])
    with _replacing(beside) as file:
        file.write(config.to_json().encode() + b"\n")


# -- reading -----------------------------------------------------------------------------------------------------------


def _read_config(path: Path, metadata: Mapping[str, str]) -> Cut3rConfig:
    version = metadata.get(_VERSION_KEY, FORMAT_VERSION)
    if version != FORMAT_VERSION:
        raise WeightsError(
            f"{path} is of format version {version[:20]!r}, but this recal3r reads {FORMAT_VERSION!r}; "
            "a newer recal3r, or converting the original weights again, would work."
        )
    beside = path.with_suffix(".json")
    if _CONFIG_KEY in metadata:
        return _parse_config(metadata[_CONFIG_KEY], f"The metadata of {path}")
    if beside.is_file():
        return _parse_config(beside.read_bytes(), str(beside))
    raise WeightsError(
        f"{path} does not say which network it belongs to: its metadata has no {_CONFIG_KEY}, "
        f"and there is no {beside}; "
        "a file made by `recal3r weights convert` would work."
    )


def _parse_config(text: str | bytes, source: str) -> Cut3rConfig:
    try:
        values: object = parsed(text)
    except ValueError as error:  # not JSON, or not UTF-8
        raise WeightsError(f"{source} holds a configuration that is no JSON; converting again would work.") from error
    if not isinstance(values, dict):
        raise WeightsError(f"{source} holds a configuration that is no JSON object; converting again would work.")
    fields = cast("dict[str, object]", values)
    for field in dataclasses.fields(Cut3rConfig):
        if field.name not in fields:  # a default would be a guess
            raise WeightsError(f"{source} holds a configuration without {field.name}; converting again would work.")
    try:
        return Cut3rConfig.from_mapping(fields)
    except ConfigError as error:
        raise WeightsError(f"{source} describes no network that exists: {error}") from error


def _entries(path: Path) -> dict[str, _Entry]:
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = parsed(file.read(size))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if entry["dtype"] not in _READABLE:
            raise WeightsError(
                f"{path} stores {name[:100]!r} as {entry['dtype']}, "
                "but weights are float16, bfloat16, float32 or float64."
            )
    return {
        name: _Entry(entry["dtype"], tuple(entry["shape"]), 8 + size + entry["data_offsets"][0])
        for name, entry in header.items()
    }


# -- writing -----------------------------------------------------------------------------------------------------------


def _check_target(path: Path, beside: Path, overwrite: bool) -> None:
    if path.suffix != ".safetensors":
        raise WeightsError(f"{path} does not end in .safetensors; such a name would work.")
    if not path.parent.is_dir():
        raise WeightsError(f"{path.parent} is no folder that exists; a path in an existing folder would work.")
    for target in (path, beside):
        if target.is_dir() or (target.exists() and not overwrite):
            raise WeightsError(f"{target} exists already; another name, or asking to overwrite it, would work.")


def _writable(name: str, dtype: torch.dtype) -> torch.dtype:
    if dtype not in _WRITABLE:
        raise WeightsError(f"{name!r} would be written as {dtype}, but float16 or float32 is; give one as the dtype.")
    return dtype


def _header(config: Cut3rConfig, layout: Mapping[str, tuple[torch.dtype, torch.Size]]) -> bytes:
    metadata = {"format": "pt", _VERSION_KEY: FORMAT_VERSION, _CONFIG_KEY: config.to_json()}
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name, (dtype, shape) in layout.items():
        start, end = end, end + math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": _WRITABLE[dtype], "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    return text + b" " * (-len(text) % 8)  # the numbers start at a multiple of 8


def _write_tensor(file: BinaryIO, name: str, tensor: Tensor, dtype: torch.dtype) -> None:
    converted = tensor.detach().to("cpu", dtype).contiguous().flatten()
    if converted.numel() and not torch.isfinite(torch.stack(torch.aminmax(converted))).all():
        raise WeightsError(f"{name!r} has a value that {dtype} cannot hold; finite weights as float32 would work.")
    numbers = converted.numpy()
    file.write(numbers.astype(numbers.dtype.newbyteorder("<"), copy=False).data)


@contextmanager
def _replacing(path: Path) -> Generator[BinaryIO]:
    """A file beside `path` that takes its place once it is complete, and goes if it never is."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            yield file
        unfinished.replace(path)
    except OSError as error:
        raise WeightsError(
            f"{path} cannot be written ({error.strerror or error}); a folder with room for it would work."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
