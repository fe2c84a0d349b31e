"""`recal3r weights`: which weights there are, and what is in them."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from recal3r.cli.command import Command

if TYPE_CHECKING:
    from recal3r.model.checkpoint import Checkpoint

_MEGABYTE = 1 << 20


@dataclasses.dataclass(frozen=True)
class List:
    """Show the known weights, their licences, and whether they are on this machine."""

    def run(self) -> int:
        from recal3r.model.hub import KNOWN, cache_folder, cached

        rows = [("name", "file", "here", "license")]
        rows += [
            (known.name, known.filename, "yes" if cached(known) else "no", known.license) for known in KNOWN.values()
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        print(f"\ncache folder: {cache_folder()}")
        for note in dict.fromkeys(known.note for known in KNOWN.values()):
            print(note)
        return 0


@dataclasses.dataclass(frozen=True)
class Fetch:
    """Download weights, continuing a download that broke off."""

    source: str = field(metadata={"help": "a known name, a URL, or hf:owner/repo/file[@revision]"})
    sha256: str | None = field(default=None, metadata={"help": "the SHA-256 checksum the file must have"})
    output: Path | None = field(default=None, metadata={"help": "where to put the file instead of the cache folder"})

    def run(self) -> int:
        from recal3r.model.hub import fetch

        progress = _show_progress if sys.stderr.isatty() else None
        print(fetch(self.source, output=self.output, sha256=self.sha256, progress=progress))
        return 0


@dataclasses.dataclass(frozen=True)
class Convert:
    """Turn an official checkpoint into a .safetensors file that carries its configuration."""

    source: str = field(metadata={"help": "a .pth or .safetensors file, or a known name"})
    target: Path = field(metadata={"help": "the .safetensors file to write"})
    dtype: Literal["float16", "float32"] | None = field(
        default=None, metadata={"help": "the precision to write; as it comes if not given"}
    )
    overwrite: bool = field(default=False, metadata={"help": "replace a target that exists"})

    def run(self) -> int:
        import torch

        from recal3r.model.checkpoint import read_checkpoint, write_safetensors
        from recal3r.model.hub import resolve

        dtypes = {None: None, "float16": torch.float16, "float32": torch.float32}
        checkpoint = read_checkpoint(resolve(self.source))
        _check_against_network(checkpoint)
        write_safetensors(
            self.target, checkpoint.config, checkpoint.tensors, dtype=dtypes[self.dtype], overwrite=self.overwrite
        )
        print(self.target)
        return 0


@dataclasses.dataclass(frozen=True)
class Verify:
    """Check that a file holds every weight of its network, all finite, and show what it is."""

    path: str = field(metadata={"help": "a .pth or .safetensors file, or a known name"})
    sha256: str | None = field(default=None, metadata={"help": "the SHA-256 checksum the file must have"})

    def run(self) -> int:
        from recal3r.model.checkpoint import read_checkpoint
        from recal3r.model.download import check_sha256, sha256_digits, sha256_of
        from recal3r.model.hub import resolve

        path = resolve(self.path)
        if self.sha256 is not None:
            check_sha256(path, sha256_digits(self.sha256), path)
        checkpoint = read_checkpoint(path)
        parameters = _check_against_network(checkpoint)
        print(f"file: {path}")
        print(f"sha256: {sha256_of(path)}")
        print(f"entries: {len(checkpoint.tensors)}")
        print(f"parameters: {parameters}")
        print(f"configuration: {checkpoint.config.to_json()}")
        return 0


COMMAND: dict[str, type[Command]] = {"list": List, "fetch": Fetch, "convert": Convert, "verify": Verify}


def _check_against_network(checkpoint: Checkpoint) -> int:
    """The number of parameters of the network that the weights belong to, once every name and shape is right."""
    from recal3r.model.cut3r import Cut3r
    from recal3r.model.outline import outline

    with outline():
        network = Cut3r(checkpoint.config)
    network.official_entries(checkpoint.shapes)
    return sum(parameter.numel() for parameter in network.parameters())


def _show_progress(done: int, total: int | None) -> None:
    of_total = f" of {total // _MEGABYTE}" if total else ""
    print(f"\r{done // _MEGABYTE}{of_total} MB", end="\n" if done == total else "", file=sys.stderr, flush=True)
