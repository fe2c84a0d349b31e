"""What a folder of results is meant to hold, so that what is not there yet can be told from what was never asked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recal3r.errors import EvalError
from recal3r.eval.contestants import slug
from recal3r.eval.protocol import Protocol
from recal3r.eval.sweep.recipe import Group, Sweep
from recal3r.jsontext import parsed


@dataclass(frozen=True)
class Asked:
    """A protocol, and the sequences it takes."""

    protocol: str
    hash: str
    task: str
    """The kind of its task."""
    sequences: tuple[str, ...]


@dataclass(frozen=True)
class Roll:
    name: str
    title: str
    weights: str
    """The network's fingerprint."""
    asked: tuple[Asked, ...]
    contestants: tuple[str, ...]
    groups: tuple[Group, ...]
    lengths: tuple[int | None, ...]
    metrics: tuple[str, ...]


def roll_of(sweep: Sweep, weights: str, sequences: Mapping[Protocol, list[str]]) -> Roll:
    asked = tuple(Asked(one.name, one.hash, type(one.task).__name__, tuple(sequences[one])) for one in sweep.protocols)
    names = tuple(one.name for one in sweep.contestants)
    groups = sweep.groups or (Group("rules", names),)
    return Roll(sweep.name, sweep.title, weights, asked, names, groups, sweep.lengths, sweep.metrics)


def write_roll(roll: Roll, output: Path) -> None:
    path = output / "sweeps" / f"{slug(roll.name)}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(dataclasses.asdict(roll), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def read_rolls(output: Path) -> list[Roll]:
    """Of all sweeps that were begun in a folder."""
    paths = sorted((output / "sweeps").glob("*.json"))
    if not paths:
        raise EvalError(f"{output} holds no sweep; name the folder that `recal3r eval run` has written to.")
    return [_read(path) for path in paths]


def _read(path: Path) -> Roll:
    try:
        data: dict[str, Any] = parsed(path.read_text(encoding="utf-8"))
        return Roll(
            name=data["name"],
            title=data["title"],
            weights=data["weights"],
            asked=tuple(Asked(**one | {"sequences": tuple(one["sequences"])}) for one in data["asked"]),
            contestants=tuple(data["contestants"]),
            groups=tuple(Group(one["name"], tuple(one["contestants"])) for one in data["groups"]),
            lengths=tuple(data["lengths"]),
            metrics=tuple(data["metrics"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvalError(f"{path} does not describe a sweep, or is damaged; run the sweep again.") from error
