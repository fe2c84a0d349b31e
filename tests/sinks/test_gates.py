"""The telemetry of the gates: every number back from Arrow, at any cut, and the horizon by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from walks import TOKENS, gated, interrupted, written

from data.seeded import seeded_frames
from recal3r import Cut3r, Reconstructor
from recal3r.errors import OutputError
from recal3r.sinks import GatesSink
from recal3r.sinks.horizon import memory_horizon
from recal3r.types import Prediction


def stream(frames: int) -> list[tuple[Prediction, None]]:
    return [(gated(Prediction(index, timestamp=index / 10)), None) for index in range(frames)]


def read(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        return reader.read_all()


def tokens(table: pa.Table, name: str) -> np.ndarray:  # [frames, N]
    return table[name].combine_chunks().flatten().to_numpy().reshape(table.num_rows, -1)


def test_every_number_comes_back(tmp_path: Path) -> None:
    pairs = stream(40)
    written(GatesSink(tmp_path / "gates.arrow", frames_per_batch=16), pairs)
    table = read(tmp_path / "gates.arrow")
    assert table["index"].to_pylist() == list(range(40))
    np.testing.assert_allclose(table["timestamp"].to_numpy(), np.arange(40) / 10)
    assert table.column("learning_rate").num_chunks == 3, "batches of 16, 16 and 8 frames"
    assert tokens(table, "learning_rate").dtype == np.float16
    for name in ("learning_rate", "alignment", "pressure", "deviation", "entropy", "reliability", "trust"):
        found = tokens(table, name)
        assert found.shape == (40, TOKENS)
        for prediction, _ in pairs:
            gate = {"learning_rate": prediction.learning_rate, **prediction.signals}.get(name)
            row = prediction.index
            if gate is None:
                assert row == 0
                assert np.isnan(found[0]).all()
                assert np.isnan(table[f"{name}_mean"][0].as_py())
                continue
            np.testing.assert_array_equal(found[row], gate.astype(np.float16))
            assert table[f"{name}_mean"][row].as_py() == pytest.approx(gate.mean(dtype=np.float64), rel=1e-6)
            for summary, share in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9)):
                expected = np.quantile(gate.astype(np.float64), share)
                assert table[f"{name}_{summary}"][row].as_py() == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(
        table["residual"].to_numpy()[1:], [pair[0].signals["residual"][0] for pair in pairs[1:]], rtol=1e-7
    )
    assert table["horizon"][0].as_py() == 0
    assert table["horizon"][5].as_py() == memory_horizon(pairs[5][0].learning_rate)


def test_what_real_rules_say(mini: Cut3r, tmp_path: Path) -> None:
    """All the signals of `recal3r`, across the resets of segments; and a rule that says nothing but β."""
    for rule in ("recal3r", "cut3r", "memix(recal3r)"):
        path = tmp_path / f"{rule}.arrow"
        reconstructor = Reconstructor(mini, rule, ("pose", "learning_rate"), size=None, reset_interval=4)
        with GatesSink(path, frames_per_batch=4) as sink:
            predictions = list(reconstructor.stream(seeded_frames(10, 48, 64)))
            for prediction in predictions:
                sink.write(prediction)
        table = read(path)
        names = set(table.column_names)
        assert set(predictions[-1].signals) <= names
        assert ("reliability" in names) == ("recal3r" in rule)
        rates = np.stack([prediction.learning_rate for prediction in predictions])
        np.testing.assert_allclose(tokens(table, "learning_rate"), rates, atol=1e-3)


@pytest.mark.parametrize(("at", "lost"), [(0, 3), (5, 2), (16, 1), (17, 20), (33, 7)])
def test_resumed_files_are_the_same(tmp_path: Path, at: int, lost: int) -> None:
    pairs = stream(40)
    written(GatesSink(tmp_path / "whole"), pairs)
    interrupted(GatesSink, tmp_path / "killed", pairs, at, lost)
    assert (tmp_path / "killed").read_bytes() == (tmp_path / "whole").read_bytes()


def test_readable_at_any_cut(tmp_path: Path) -> None:
    path = tmp_path / "gates.arrow"
    with GatesSink(path, frames_per_batch=4) as sink:
        for prediction, _ in stream(11):
            sink.write(prediction)
        assert read(path).num_rows == 8, "whole batches, though nobody has closed the file"


def test_short_and_empty_streams(tmp_path: Path) -> None:
    written(GatesSink(tmp_path / "one"), stream(1))
    assert read(tmp_path / "one").column_names[:4] == ["index", "timestamp", "horizon", "learning_rate"]
    written(GatesSink(tmp_path / "none"), [])
    assert (tmp_path / "none").read_bytes() == b""


def test_frames_that_were_not_written_and_have_no_time(tmp_path: Path) -> None:
    with GatesSink(tmp_path / "gates") as sink:
        sink.write(gated(Prediction(0)))
        sink.write(Prediction(1))
        sink.write(gated(Prediction(2)))
    table = read(tmp_path / "gates")
    assert np.isnan(table["timestamp"].to_numpy()).all()
    assert np.isnan(tokens(table, "learning_rate")[1]).all()
    assert np.isnan(table["horizon"].to_numpy()).tolist() == [False, True, False]
    assert np.isfinite(tokens(table, "trust")[2]).all()


def test_wrong_use_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "gates"
    with GatesSink(path) as sink, pytest.raises(OutputError, match="needs 'learning_rate'"):
        sink.write(Prediction(0))
    with pytest.raises(OutputError, match="exists already"), GatesSink(path):
        pass
    with pytest.raises(OutputError, match="not open"):
        GatesSink(path).write(gated(Prediction(0)))
    with pytest.raises(OutputError, match="too few"):
        GatesSink(path, frames_per_batch=1)
    with GatesSink(tmp_path / "mixed", frames_per_batch=2) as sink:
        for prediction, _ in stream(3):
            sink.write(prediction)
        with pytest.raises(OutputError, match=r"Frame 7 came with 5 numbers of 'learning_rate'.* 24 numbers"):
            sink.write(gated(Prediction(7), tokens=5))


@pytest.mark.parametrize(
    ("rate", "frames"),
    [
        (np.ones(8), 0),  # CUT3R: nothing of what was is left
        (np.full(8, 0.5), 1),
        (np.full(8, 0.1), np.log(0.5) / np.log(0.9)),
        (np.zeros(8), np.inf),
        (np.array([1.0, 1, 0, 0]), 0),  # half is gone at once
        (np.array([1.0, 0, 0, 0]), np.inf),  # three quarters are never touched
        (np.array([0.5, 0.0, 0.0]), np.inf),
        (np.array([1.0, 0.1, 0.1, 0.1]), np.log(2 / 3) / np.log(0.9)),  # ¾ · 0.9ⁿ = ½
        (np.array([np.nan]), np.nan),
    ],
)
def test_horizon_by_hand(rate: np.ndarray, frames: float) -> None:
    assert memory_horizon(rate) == pytest.approx(frames, rel=1e-9, nan_ok=True)


@given(st.lists(st.floats(1e-4, 0.9), min_size=1, max_size=30), st.integers(0, 29))
def test_a_state_that_moves_further_remembers_less(rates: list[float], which: int) -> None:
    rate = np.array(rates)
    horizon = memory_horizon(rate)
    assert np.mean((1 - rate) ** horizon) == pytest.approx(0.5)
    faster = rate.copy()
    faster[which % len(rate)] *= 1.1
    assert memory_horizon(faster) <= horizon


def test_batches_decide_nothing_but_batches(tmp_path: Path) -> None:
    pairs = stream(9)
    for size in (2, 5):
        written(GatesSink(tmp_path / str(size), frames_per_batch=size), pairs)
    one, other = read(tmp_path / "2"), read(tmp_path / "5")
    for name, (a, b) in zip(one.column_names, itertools.zip_longest(one.columns, other.columns), strict=True):
        np.testing.assert_array_equal(np.asarray(a.to_pylist()), np.asarray(b.to_pylist()), err_msg=name)
