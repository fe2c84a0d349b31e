"""Results by what was asked for: a sequence without a result is there all the same, and says that it is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recal3r.eval.bootstrap import Interval, bootstrap
from recal3r.eval.results import Result, failures, read_results, shorter
from recal3r.eval.sweep.roll import Asked, Roll
from recal3r.eval.tasks import TASKS, Measure

MISSING = "Not evaluated yet; run the sweep again, and it goes on from here."

Place = tuple[str, str, int | None, str]
"""protocol, contestant, length, sequence"""


@dataclass(frozen=True)
class Findings:
    """All that a folder holds of one sweep."""

    roll: Roll
    results: dict[Place, Result]

    def of(self, asked: Asked, contestant: str, length: int | None) -> list[Result]:
        """One a sequence, in the order they were asked for."""
        return [self._one(asked.protocol, contestant, length, name) for name in asked.sequences]

    def interval(self, asked: Asked, contestant: str, length: int | None, metric: str) -> Interval:
        """The dataset's mean, as its protocol weighs sequences, and how sure one can be of it."""
        results = self.of(asked, contestant, length)
        return bootstrap(_column(results, metric), np.array([one.weight for one in results], np.float64))

    def measures(self, asked: Asked) -> list[Measure]:
        """Those of the protocol's task that the sweep wants to show."""
        wanted = self.roll.metrics
        return [one for one in TASKS[asked.task].metrics if not wanted or one.name in wanted]

    def everything(self) -> list[Result]:
        roll = self.roll
        return [
            result
            for asked in roll.asked
            for contestant in roll.contestants
            for length in roll.lengths
            for result in self.of(asked, contestant, length)
        ]

    def failures(self) -> list[Result]:
        return failures(self.everything())

    def shorter(self) -> list[Result]:
        return shorter(self.everything())

    def _one(self, protocol: str, contestant: str, length: int | None, sequence: str) -> Result:
        found = self.results.get((protocol, contestant, length, sequence))
        return found or Result(protocol, contestant, length, sequence, "", {}, (), {}, 1.0, MISSING)


def read_findings(folder: Path, roll: Roll) -> Findings:
    found = read_results(folder) if (folder / "results").is_dir() else []
    return Findings(roll, {(one.protocol, one.contestant, one.length, one.sequence): one for one in found})


def longest(lengths: Sequence[int | None]) -> int | None:
    """None, which is the whole sequence, is longer than any."""
    return None if None in lengths else max(length for length in lengths if length is not None)


def _column(results: list[Result], metric: str) -> NDArray[np.float64]:
    return np.array([one.value(metric) for one in results], np.float64)
