"""What was found: one file for each protocol, contestant, stream length and sequence; and means that say "n of m"."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from recal3r.errors import EvalError
from recal3r.eval.contestants import slug
from recal3r.jsontext import parsed


@dataclass(frozen=True)
class Result:
    """The numbers of one sequence, or the sentence that says why there are none."""

    protocol: str
    contestant: str
    length: int | None
    """How many frames were asked for; None for all."""
    sequence: str
    key: str
    """The hash of weights, contestant, protocol and version: results of different keys are never mixed."""
    settings: Mapping[str, Any]
    """Protocol, contestant and weights, written out."""
    frames: tuple[str, ...]
    """The ids of the frames, as they were shown and scored."""
    values: Mapping[str, float]
    weight: float
    error: str | None = None

    def place(self, folder: Path) -> Path:
        return folder / place_of(self.protocol, self.contestant, self.length, self.sequence)

    def value(self, metric: str) -> float:
        return self.values.get(metric, math.nan) if self.error is None else math.nan


def place_of(protocol: str, contestant: str, length: int | None, sequence: str, suffix: str = ".json") -> Path:
    frames = "all" if length is None else str(length)
    return Path(slug(protocol), slug(contestant), frames, f"{slug(sequence)}{suffix}")


def write_result(result: Result, folder: Path) -> None:
    """The file is whole or not there, and the same bytes for the same result."""
    path = result.place(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dataclasses.asdict(result), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    unfinished = path.with_name(f"{path.name}.part")
    with unfinished.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)


def read_result(path: Path) -> Result:
    try:
        data = parsed(path.read_text(encoding="utf-8"))
        return Result(**data | {"frames": tuple(data["frames"])})
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvalError(
            f"{path} is no result of an evaluation, or a damaged one; remove it and evaluate again."
        ) from error


def read_results(folder: Path) -> list[Result]:
    """All results of a folder, in the order of their paths."""
    if not (folder / "results").is_dir():
        raise EvalError(f"{folder} holds no results; name the folder that `recal3r eval` has written to.")
    return [read_result(path) for path in sorted((folder / "results").rglob("*.json"))]


class Mean(NamedTuple):
    value: float
    """NaN where no sequence gave a number."""
    sequences: int
    """How many gave a number."""
    of: int
    """How many were asked."""

    def __str__(self) -> str:
        number = "–" if math.isnan(self.value) else f"{self.value:.3f}"
        return number if self.sequences == self.of else f"{number} ({self.sequences} of {self.of})"


def mean(results: Iterable[Result], metric: str) -> Mean:
    """The weighted mean over sequences. Those that failed are counted, and never stand in with a number."""
    asked = list(results)
    found = [(one.value(metric), one.weight) for one in asked if math.isfinite(one.value(metric))]
    weight = sum(weight for _, weight in found)
    value = sum(value * weight for value, weight in found) / weight if weight else math.nan
    return Mean(value, len(found), len(asked))


def failures(results: Sequence[Result]) -> list[Result]:
    return [one for one in results if one.error is not None]


def shorter(results: Sequence[Result]) -> list[Result]:
    """Those whose sequence has fewer frames than were asked for."""
    return [one for one in results if one.error is None and one.length is not None and len(one.frames) < one.length]
