"""Folders of results whose numbers are chosen, as a sweep would have left them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recal3r.eval.canonical import as_data
from recal3r.eval.contestants import Contestant, called
from recal3r.eval.protocol import Protocol, protocol
from recal3r.eval.results import Result, write_result
from recal3r.eval.sweep import Sweep
from recal3r.eval.sweep.roll import roll_of, write_roll
from recal3r.eval.walks import Walk, write_walk

Values = Mapping[str, float]
PROTOCOL = protocol("reconstruction/7scenes")
SEQUENCES = ("chess/seq-03", "fire/seq-03", "heads/seq-01")


def result(
    one: Contestant, length: int, sequence: str, values: Values, error: str | None = None, **other: Any
) -> Result:
    asked: Protocol = other.pop("protocol", PROTOCOL)
    return Result(
        protocol=asked.name,
        contestant=one.name,
        length=length,
        sequence=sequence,
        key="key",
        settings={"protocol": as_data(asked), "protocol_hash": asked.hash},
        frames=tuple(map(str, range(length))),
        values=values,
        weight=other.pop("weight", 1.0),
        error=error,
    )


def folder_of(
    root: Path, results: list[Result], asked: Protocol = PROTOCOL, names: tuple[str, ...] = SEQUENCES
) -> Path:
    """With a roll of all contestants and lengths that the results have."""
    contestants = called(*dict.fromkeys(one.contestant for one in results))
    lengths = tuple(sorted({one.length for one in results if one.length}))
    sweep = Sweep("made-up", "A made-up sweep", (asked,), contestants, lengths)
    write_roll(roll_of(sweep, "f" * 64, {asked: list(names)}), root)
    for one in results:
        write_result(one, root / "results")
    return root


def some_results(accuracies: Mapping[str, float], length: int = 300) -> list[Result]:
    """Each contestant's Acc, a little different on every sequence, of which this is the mean."""
    return [
        result(one, length, name, {"acc": accuracies[one.name] + shift, "comp": 0.03, "nc": 0.6})
        for one in called(*accuracies)
        for name, shift in zip(SEQUENCES, (-0.001, 0, 0.001), strict=True)
    ]


def walk(one: str, asked: str, length: int, sequence: str, root: Path) -> None:
    """A way along the floor, and what was said of it: half as large, turned over, and a little wrong."""
    rng = np.random.default_rng(len(one))
    truth = np.tile(np.eye(4), (length, 1, 1))
    truth[:, 0, 3], truth[:, 1, 3] = np.linspace(0, 4, length), np.sin(np.linspace(0, 6, length))
    turn = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    estimate = truth.copy()
    estimate[:, :3, 3] = 0.5 * (truth[:, :3, 3] + rng.normal(0, 0.05, (length, 3))) @ turn.T
    write_walk(Walk(asked, one, length, sequence, tuple(np.arange(float(length))), estimate, truth), root)


def without(results: list[Result], sequence: str, contestant: str, error: str) -> list[Result]:
    """The same, but for one that failed."""
    return [
        dataclasses.replace(one, error=error, values={})
        if (one.sequence, one.contestant) == (sequence, contestant)
        else one
        for one in results
    ]
