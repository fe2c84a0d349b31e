"""A table as numbers: one metric of one protocol, contestants down, stream lengths across."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from recal3r.eval.bootstrap import Interval
from recal3r.eval.findings import Findings
from recal3r.eval.published import published
from recal3r.eval.tasks import Measure

Length = int | None


class Cell(NamedTuple):
    ours: Interval
    published: float = math.nan
    """NaN where the paper says nothing."""

    @property
    def difference(self) -> float:
        return self.ours.mean - self.published

    @property
    def whole(self) -> bool:
        """Whether every sequence gave a number; a mean of fewer cannot be compared with others."""
        return self.ours.scenes == self.ours.of > 0


@dataclass(frozen=True)
class Table:
    protocol: str
    measure: Measure
    lengths: tuple[Length, ...]
    rows: Mapping[str, Mapping[Length, Cell]]
    """By contestant, in the order they are shown."""

    def cites(self, length: Length) -> bool:
        """Whether the paper has a number of this column."""
        return any(math.isfinite(row[length].published) for row in self.rows.values())

    def places(self, length: Length) -> dict[str, int]:
        """1 for the best of our means, 2 for the second; who is as good shares a place. Only whole means take part."""
        return self._places({name: row[length].ours.mean for name, row in self.rows.items() if row[length].whole})

    def published_places(self, length: Length) -> dict[str, int]:
        """The same among the published numbers."""
        return self._places({name: row[length].published for name, row in self.rows.items()})

    def _places(self, values: Mapping[str, float]) -> dict[str, int]:
        shown = {name: round(value, self.measure.digits) for name, value in values.items() if math.isfinite(value)}
        best = sorted(set(shown.values()), reverse=self.measure.higher_is_better)[:2]
        return {name: best.index(value) + 1 for name, value in shown.items() if value in best}


def tables_of(findings: Findings) -> list[Table]:
    roll = findings.roll
    return [
        Table(
            asked.protocol,
            measure,
            roll.lengths,
            {
                name: {
                    length: Cell(
                        findings.interval(asked, name, length, measure.name),
                        published(asked.protocol, name, length, measure.name),
                    )
                    for length in roll.lengths
                }
                for name in roll.contestants
            },
        )
        for asked in roll.asked
        for measure in findings.measures(asked)
    ]
