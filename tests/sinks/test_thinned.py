"""What is kept of a stream without an end: bounded, evenly spread, and no peak lost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from walks import through_a_file

from recal3r.errors import OutputError
from recal3r.sinks.palette import hexadecimal, linear, shade, stretched
from recal3r.sinks.thinned import Curves, Thinned


@given(st.integers(1, 20), st.integers(0, 300))
def test_thinned_is_bounded_and_even(budget: int, moments: int) -> None:
    thinned, made = Thinned(budget), []
    for number in range(moments):
        thinned.offer(lambda number=number: made.append(number) or {"number": np.array(number)})
    kept = [int(moment["number"]) for moment in thinned.kept]
    assert len(kept) <= budget
    assert kept == list(range(0, moments, thinned.stride))
    assert len(kept) > budget // 2 or len(kept) == moments
    assert set(kept) <= set(made), "and what is not kept is not made, but for what was kept once"
    assert len(made) <= budget * (2 + np.log2(1 + moments))


@given(st.integers(2, 12), st.integers(1, 200), st.integers(0, 10**6))
def test_curves_lose_no_peak(budget: int, frames: int, seed: int) -> None:
    numbers = np.random.default_rng(seed).normal(size=frames)
    numbers[numbers > 1.5] = np.nan
    curves = Curves(budget)
    for number in numbers:
        curves.add({"x": number})
    length = curves.stride
    stretches = [numbers[begin : begin + length] for begin in range(0, frames, length)]
    assert len(stretches) == len(curves.frames) <= budget
    for middle, mean, (least, most), stretch in zip(
        curves.frames, curves.mean("x"), curves.span("x"), stretches, strict=True
    ):
        known = stretch[np.isfinite(stretch)]
        assert middle % length == (len(stretch) - 1) / 2
        if not len(known):
            assert np.isnan([mean, least, most]).all()
            continue
        assert (least, most) == (known.min(), known.max())
        assert mean == pytest.approx(known.mean())


def test_curves_learn_new_names() -> None:
    curves = Curves(4)
    for number in range(6):
        curves.add({"a": number} | ({"b": 10.0 * number} if number > 2 else {}))
    assert curves.stride == 2
    np.testing.assert_array_equal(curves.mean("a"), [0.5, 2.5, 4.5])
    np.testing.assert_array_equal(curves.mean("b"), [np.nan, 30, 45])


@pytest.mark.parametrize("at", [0, 1, 5, 31, 32, 50])
def test_going_on_is_the_same(at: int) -> None:
    def feed(one: Thinned, other: Curves, numbers: range) -> None:
        for number in numbers:
            one.offer(lambda number=number: {"number": np.array([number, 0.5])})
            other.add({"x": number**0.5, f"y{number % 3}": 1.0})

    whole, first, again = ((Thinned(8), Curves(7)) for _ in range(3))
    feed(*whole, range(60))
    feed(*first, range(at))
    marks = [through_a_file(part.mark()) for part in first]
    feed(*first, range(at, 60))
    for part, mark in zip(again, marks, strict=True):
        part.resume(mark)
    feed(*again, range(at, 60))
    assert [moment["number"][0] for moment in again[0].kept] == [moment["number"][0] for moment in whole[0].kept]
    np.testing.assert_array_equal(again[1].mark().arrays["stretches"], whole[1].mark().arrays["stretches"])
    assert again[1].mark().numbers == whole[1].mark().numbers


def test_budgets_that_keep_nothing() -> None:
    with pytest.raises(OutputError, match="budget of 0"):
        Thinned(0)
    with pytest.raises(OutputError, match="budget of 1"):
        Curves(1)


def test_colours() -> None:
    ends = shade(np.array([0.0, 1.0, np.nan, -5.0, 7.0]))
    assert [hexadecimal(colour) for colour in ends] == ["#440154", "#fde725", "#808080", "#440154", "#fde725"]
    light = shade(np.linspace(0, 1, 200)).astype(float) @ [0.3, 0.6, 0.1]
    assert (np.diff(light) >= -0.5).all(), "more is never darker, but for rounding"
    np.testing.assert_allclose(linear(np.array([0, 188, 255], np.uint8)), [0, 0.503, 1], atol=1e-3)
    np.testing.assert_array_equal(stretched(np.array([np.nan, np.nan])), [np.nan, np.nan])
    assert stretched(np.arange(101.0), 0, 50).tolist() == [*np.arange(51) / 50, *np.ones(50)]
