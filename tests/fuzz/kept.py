"""What guided searches came upon: a file a target, a base64 line a find. kept.py TARGET CORPUS puts a corpus there."""

from __future__ import annotations

import base64
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "fuzz"


def kept(name: str) -> list[bytes]:
    return [base64.b64decode(line) for line in (FOLDER / f"{name}.txt").read_text().splitlines()]


def keep(name: str, finds: list[bytes]) -> None:
    lines = sorted(base64.b64encode(find).decode() for find in set(finds))
    (FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    keep(sys.argv[1], [path.read_bytes() for path in Path(sys.argv[2]).iterdir()])
