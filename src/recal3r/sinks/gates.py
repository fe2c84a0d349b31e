"""How far every state token moved, and what the rule saw on its way there: one row a frame, as an Arrow stream.

N state tokens
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recal3r.errors import OutputError
from recal3r.sinks.base import Mark, not_open
from recal3r.sinks.extra import extra_package
from recal3r.sinks.files import GrowingFile
from recal3r.sinks.horizon import memory_horizon
from recal3r.types import Array, Image, Prediction

RATE = "learning_rate"
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9}
_FORMAT = {"recal3r.gates": "1"}
_END = b"\xff\xff\xff\xff\x00\x00\x00\x00"  # of an Arrow stream
Widths = Mapping[str, int]  # column -> how many numbers a frame: N, or 1


@dataclass(frozen=True)
class Row:
    index: int
    timestamp: float  # seconds; NaN where the frame had none
    gates: Mapping[str, Array]  # β and signals, each [N] or [1]


class GatesSink:
    """`gates.arrow`: an Arrow IPC stream that can be read wherever it was cut off between two batches.

    A row holds `index`, `timestamp`, `horizon` (see `memory_horizon`), and for β (`learning_rate`) and each of the
    rule's signals the number of every token (float16) with `_mean`, `_p10`, `_p50` and `_p90` beside it (float32, of
    the numbers before they were rounded). A signal that is one number a frame is one float32 column.

    The columns are fixed with the first batch, by all that any of its frames had: rules see nothing on the first frame
    of a segment. What a frame does not have is NaN.
    """

    needs = frozenset({RATE})

    def __init__(self, path: str | Path, *, frames_per_batch: int = 16, overwrite: bool = False) -> None:
        if frames_per_batch < 2:
            raise OutputError(
                f"frames_per_batch={frames_per_batch} is too few to know the columns from; use 2 or more."
            )
        self._path, self._overwrite, self._frames_per_batch = Path(path), overwrite, frames_per_batch
        self._rows: list[Row] = []
        self._widths: Widths | None = None
        self._file: GrowingFile | None = None
        self._mark: Mark | None = None

    def __enter__(self) -> Self:
        _arrow()
        if self._mark is None:
            self._file = GrowingFile.begin(self._path, overwrite=self._overwrite)
            self._rows, self._widths = [], None
        else:
            self._file = GrowingFile.go_on(self._path, self._mark.numbers["length"])
            self._rows, self._widths = rows_of(self._mark), self._mark.numbers["widths"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        file, self._file = self._open(), None
        try:
            self._write_batch(file)
            if self._widths is not None:
                file.append(_END)
        finally:
            file.close()

    def write(self, prediction: Prediction, image: Image | None = None) -> None:
        del image
        file = self._open()
        if prediction.learning_rate is None and not (self._rows or self._widths):
            raise OutputError(
                "GatesSink needs 'learning_rate', which the reconstructor was not asked for; add it to outputs, and "
                "write the first frame of the stream."
            )
        gates = {} if prediction.learning_rate is None else {RATE: prediction.learning_rate, **prediction.signals}
        timestamp = np.nan if prediction.timestamp is None else prediction.timestamp
        self._rows.append(Row(prediction.index, timestamp, gates))
        if len(self._rows) == self._frames_per_batch:
            self._write_batch(file)

    def mark(self) -> Mark:
        waiting: dict[str, NDArray[Any]] = {}
        for place, row in enumerate(self._rows):
            waiting |= {f"{place}/{name}": gate for name, gate in row.gates.items()}
        waiting["index"] = np.array([row.index for row in self._rows], np.int64)
        waiting["timestamp"] = np.array([row.timestamp for row in self._rows], np.float64)
        widths = None if self._widths is None else dict(self._widths)
        # The order of the columns: arrays come back from a file in an order of its own.
        gates = list(dict.fromkeys(name for row in self._rows for name in row.gates))
        return Mark({"length": self._open().sync(), "widths": widths, "gates": gates}, waiting)

    def resume(self, mark: Mark) -> None:
        self._mark = mark

    def _open(self) -> GrowingFile:
        if self._file is None:
            raise not_open(self._path)
        return self._file

    def _write_batch(self, file: GrowingFile) -> None:
        if not self._rows:
            return
        rows, self._rows = self._rows, []
        head = b""
        if self._widths is None:
            self._widths = {name: gate.size for row in rows for name, gate in row.gates.items()}
            head: bytes = schema_of(self._widths).serialize().to_pybytes()
        file.append(head + batch_of(rows, self._widths).serialize().to_pybytes())


def rows_of(mark: Mark) -> list[Row]:
    """The rows that waited for their batch when the mark was made."""
    indices, timestamps = mark.arrays["index"].tolist(), mark.arrays["timestamp"].tolist()
    gates: list[dict[str, Array]] = [{} for _ in indices]
    for place, row in enumerate(gates):
        known = ((name, f"{place}/{name}") for name in mark.numbers["gates"])
        row |= {name: mark.arrays[key] for name, key in known if key in mark.arrays}
    return [Row(*row) for row in zip(indices, timestamps, gates, strict=True)]


def schema_of(widths: Widths) -> Any:
    arrow = _arrow()
    fields = [("index", arrow.int64()), ("timestamp", arrow.float64()), ("horizon", arrow.float64())]
    for name, width in widths.items():
        if width == 1:
            fields.append((name, arrow.float32()))
        else:
            fields.append((name, arrow.list_(arrow.float16(), width)))
            fields += [(f"{name}_{summary}", arrow.float32()) for summary in ("mean", *QUANTILES)]
    return arrow.schema(fields, metadata=_FORMAT)


def batch_of(rows: Sequence[Row], widths: Widths) -> Any:
    arrow = _arrow()
    columns: list[Any] = [
        arrow.array([row.index for row in rows], arrow.int64()),
        arrow.array([row.timestamp for row in rows], arrow.float64()),
        arrow.array([memory_horizon(row.gates.get(RATE, np.array([np.nan]))) for row in rows], arrow.float64()),
    ]
    for row in rows:
        _check(row, widths)
    for name, width in widths.items():
        unknown = np.full(width, np.nan)
        values = np.stack([row.gates.get(name, unknown) for row in rows]).astype(np.float64)  # [rows, width]
        if width == 1:
            columns.append(arrow.array(values[:, 0].astype(np.float32)))
        else:
            with np.errstate(over="ignore"):  # what float16 cannot hold is infinite there
                halves = arrow.array(values.astype(np.float16).ravel())
            columns.append(arrow.FixedSizeListArray.from_arrays(halves, width))
            summaries = [values.mean(1), *np.quantile(values, list(QUANTILES.values()), axis=1)]
            columns += [arrow.array(summary.astype(np.float32)) for summary in summaries]
    return arrow.record_batch(columns, schema=schema_of(widths))


def _check(row: Row, widths: Widths) -> None:
    for name, gate in row.gates.items():
        if widths.get(name) != gate.size:
            expected = f"{widths[name]} numbers" if name in widths else "no such column"
            raise OutputError(
                f"Frame {row.index} came with {gate.size} numbers of {name!r} where the gates written so far have "
                f"{expected}; write one stream under one rule into each file."
            )


def _arrow() -> Any:
    return extra_package("pyarrow", "arrow", GatesSink)
