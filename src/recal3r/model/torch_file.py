"""Reads `.pth` files: a zip with one pickle that describes, and one record of raw numbers for each storage.

The numbers are mapped from the disk, not copied, and only those of the network: what the optimizer left is not touched.
"""

from __future__ import annotations

import dataclasses
import struct
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recal3r.errors import WeightsError
from recal3r.model.config import Cut3rConfig
from recal3r.model.official_config import parse_official_config
from recal3r.model.pickle_reader import Described, StoredNumbers, read_description

_ZIP_START = b"PK\x03\x04"
_PICKLE_START = b"\x80"
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_LONGEST_PICKLE = 64 << 20
_ENCRYPTED = 1
_AGAIN = "download it again or use another copy"

_DTYPES = {
    "torch.HalfStorage": torch.float16,
    "torch.BFloat16Storage": torch.bfloat16,
    "torch.FloatStorage": torch.float32,
    "torch.DoubleStorage": torch.float64,
}
_PARAMETERS = {"torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"}
_TENSORS = {"torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"}


def read_torch_file(path: Path) -> tuple[Cut3rConfig, dict[str, Tensor]]:
    """The configuration and the network's tensors of an official `.pth` file."""
    archive = _open_archive(path)
    described = read_description(archive.pickle(), str(path))
    config = parse_official_config(_configuration_text(described, path))
    return config, {name: archive.tensor(name, value) for name, value in _state_dict(described, path).items()}


# -- what the pickle describes -----------------------------------------------------------------------------------------


def _configuration_text(checkpoint: object, path: Path) -> str:
    text = _field(_field(checkpoint, "args"), "model")
    if not isinstance(text, str):
        raise WeightsError(
            f"{path} does not say which network it belongs to (it has no text at `args.model`); "
            "an official CUT3R checkpoint, or a .safetensors file made by `recal3r weights convert`, would work."
        )
    return text


def _state_dict(checkpoint: object, path: Path) -> dict[str, object]:
    entries = _mapping(_field(checkpoint, "model"))
    if not entries:
        raise WeightsError(f"{path} holds no weights under `model`; an official CUT3R checkpoint would work.")
    for name in entries:
        if not isinstance(name, str):
            raise WeightsError(f"{path} names a weight {str(name)[:60]!r}, which is no text; {_AGAIN}.")
    return cast("dict[str, object]", entries)


def _field(holder: object, name: str) -> object:
    """A field of a mapping, a Namespace or an omegaconf container; None if there is none."""
    attributes = _attributes(holder)
    fields = _mapping(attributes.get("_content")) or attributes or _mapping(holder)  # omegaconf's containers
    value = fields.get(name)
    return _attributes(value).get("_val", value)  # omegaconf's leaves


def _attributes(value: object) -> Mapping[object, object]:
    return _mapping(value.state) if isinstance(value, Described) else {}


def _mapping(value: object) -> Mapping[object, object]:
    if isinstance(value, Described):
        return value.items
    return cast("dict[object, object]", value) if isinstance(value, dict) else {}


# -- what the zip holds ------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Record:
    start: int
    size: int
    checksum: int
    """CRC-32 of the record; 0 where the writer left it out."""


@dataclasses.dataclass(frozen=True)
class _Archive:
    """A torch zip: its bytes, mapped copy-on-write, and where each record lies in them."""

    path: Path
    content: NDArray[np.uint8]
    records: Mapping[str, _Record]
    storages: dict[StoredNumbers, Tensor] = dataclasses.field(default_factory=dict[StoredNumbers, Tensor])
    """Storages read so far: tensors that share one in the file share one in memory."""

    def pickle(self) -> bytes:
        record = self.records.get("data.pkl")
        if record is None or "constants.pkl" in self.records:
            raise WeightsError(
                f"{self.path} is a zip file but no torch checkpoint; one written by torch.save would work."
            )
        if record.size > _LONGEST_PICKLE:
            raise WeightsError(f"{self.path} has a description of {record.size} bytes, which no checkpoint needs.")
        self._check_byte_order()
        return self._bytes("data.pkl", record).tobytes()

    def tensor(self, name: str, described: object) -> Tensor:
        """The tensor that the pickle describes, as a view of the mapped file."""
        while isinstance(described, Described) and described.made_by in _PARAMETERS and described.args:
            described = described.args[0]
        if isinstance(described, Described) and described.made_by in _TENSORS:
            match described.args:
                case (StoredNumbers() as numbers, int(offset), shape, strides, *_):
                    return self._view(name, numbers, offset, _whole_numbers(shape), _whole_numbers(strides))
                case _:
                    pass
        raise WeightsError(f"{self.path} holds {name[:100]!r}, which is no plain dense tensor; {_AGAIN}.")

    def _view(
        self, name: str, numbers: StoredNumbers, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]
    ) -> Tensor:
        storage = self._storage(name, numbers)
        in_order = len(shape) == len(strides) and min((offset, *shape, *strides)) >= 0
        elements = int(np.prod(shape, dtype=object)) if in_order else -1
        last = offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=False))
        # A view may leave numbers out but not repeat them: a small file describes no large tensor.
        if elements < 0 or elements > numbers.count or (elements and last >= numbers.count):
            raise WeightsError(f"{self.path} describes {name[:100]!r} as larger than the numbers it stores; {_AGAIN}.")
        if not elements:
            return storage.new_empty(shape)
        return storage.as_strided(shape, strides, offset)

    def _storage(self, name: str, numbers: StoredNumbers) -> Tensor:
        if numbers not in self.storages:
            dtype = _DTYPES.get(numbers.kind)
            if dtype is None:
                raise WeightsError(
                    f"{self.path} stores {name[:100]!r} as {numbers.kind[:60]}, but weights are "
                    "float16, bfloat16, float32 or float64."
                )
            record = self.records.get(f"data/{numbers.key}")
            if record is None or record.size != numbers.count * dtype.itemsize:
                raise WeightsError(f"{self.path} lacks numbers that {name[:100]!r} is described with; {_AGAIN}.")
            content = self._bytes(name, record)
            if record.start % dtype.itemsize:  # torch aligns its records; other zip tools need not
                content = content.copy()
            empty = torch.empty(0, dtype=dtype)
            self.storages[numbers] = torch.from_numpy(content).view(dtype) if numbers.count else empty  # pyright: ignore[reportUnknownMemberType]  # torch leaves it untyped
        return self.storages[numbers]

    def _bytes(self, name: str, record: _Record) -> NDArray[np.uint8]:
        content = self.content[record.start : record.start + record.size]
        if record.checksum and zlib.crc32(content.data) != record.checksum:
            raise WeightsError(f"{self.path} has damaged bytes in {name[:100]!r} (checksum differs); {_AGAIN}.")
        return content

    def _check_byte_order(self) -> None:
        record = self.records.get("byteorder")
        order = self._bytes("byteorder", record).tobytes() if record else b"little"
        if order != sys.byteorder.encode():
            raise WeightsError(
                f"{self.path} stores its numbers in {order[:20]!r} order, but this machine reads {sys.byteorder}; "
                "save it again on a machine like this one."
            )


def _whole_numbers(values: object) -> tuple[int, ...]:
    """The values if they are a tuple of whole numbers; else a shape that nothing has."""
    entries = cast("tuple[object, ...]", values) if isinstance(values, tuple) else (None,)
    whole = tuple(entry for entry in entries if isinstance(entry, int))
    return whole if len(whole) == len(entries) else (-1,)


def _open_archive(path: Path) -> _Archive:
    with path.open("rb") as file:
        start = file.read(len(_ZIP_START))
    if start.startswith(_PICKLE_START):
        raise WeightsError(
            f"{path} is in the format of torch before 1.6, which is not read; "
            "load it with torch there, save it again with torch.save, and use that file."
        )
    if start != _ZIP_START:
        raise WeightsError(f"{path} is no torch checkpoint (it does not start as a zip file does); {_AGAIN}.")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, OverflowError, struct.error) as error:
        raise WeightsError(f"{path} is cut short or damaged (its zip directory cannot be read); {_AGAIN}.") from error
    content = np.memmap(path, dtype=np.uint8, mode="c")
    records = {entry.filename.partition("/")[2]: _record(entry, content, path) for entry in entries}
    if len(records) != len(entries):
        raise WeightsError(f"{path} holds two records of one name, and which is meant cannot be told; {_AGAIN}.")
    return _Archive(path, content, records)


def _record(entry: zipfile.ZipInfo, content: NDArray[np.uint8], path: Path) -> _Record:
    """Where an entry's bytes lie. Torch never compresses, so no entry can be larger than the file."""
    if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & _ENCRYPTED:
        raise WeightsError(
            f"{path} holds {entry.filename[:100]!r} compressed or encrypted, which torch.save never does; {_AGAIN}."
        )
    header = content[entry.header_offset : entry.header_offset + _LOCAL_HEADER.size].tobytes()
    if entry.header_offset >= 0 and len(header) == _LOCAL_HEADER.size:
        magic, name_length, extra_length = cast("tuple[bytes, int, int]", _LOCAL_HEADER.unpack(header))
        start = entry.header_offset + _LOCAL_HEADER.size + name_length + extra_length
        if magic == _ZIP_START and entry.file_size == entry.compress_size and start + entry.file_size <= len(content):
            return _Record(start, entry.file_size, entry.CRC)
    raise WeightsError(f"{path} is cut short or damaged at {entry.filename[:100]!r}; {_AGAIN}.")
