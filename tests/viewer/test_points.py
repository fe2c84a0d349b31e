"""The cloud: points where the truth has them, evenly thinned at any budget, bounded at any length."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from room import HEIGHT, WIDTH, truth

from recal3r.errors import OutputError
from recal3r.sinks.frames import view_frame
from recal3r.sources.synthetic import SyntheticFrame
from recal3r.viewer.looks import COLOURINGS, UNKNOWN, Look, depth_picture, knows_reliability, show
from recal3r.viewer.points import POINT, Cloud, Points, morton, points_of, spread_order


def scattered(count: int, seed: int = 0) -> Points:
    """Points with all their numbers; `frame` counts them."""
    rng = np.random.default_rng(seed)
    points = np.zeros(count, POINT)
    points["position"] = rng.normal(size=(count, 3)) * (4, 2, 1)
    points["colour"] = rng.integers(0, 256, (count, 3))
    points["depth"] = rng.uniform(0.5, 9, count)
    points["confidence"] = 1 + rng.exponential(3, count)
    points["reliability"] = rng.random(count)
    points["frame"] = np.arange(count)
    return points


def test_points_lie_where_the_truth_has_them(frames: list[SyntheticFrame]) -> None:
    """In the first camera's world; within what 16 bits of depth can say."""
    for frame in (frames[0], frames[9]):
        points = points_of(view_frame(truth(frame, frames[0]), frame.image, None))
        back = points["position"] @ frames[0].T_world_camera[:3, :3].T + frames[0].T_world_camera[:3, 3]
        error = np.linalg.norm(back - frame.points_world().reshape(-1, 3), axis=-1)
        assert (error <= 1e-3 * np.linalg.norm(frame.points_camera().reshape(-1, 3), axis=-1)).all()
        np.testing.assert_array_equal(points["colour"], frame.image.reshape(-1, 3))
        assert (points["frame"] == frame.index).all()


def test_a_large_frame_gives_every_kth_pixel(frames: list[SyntheticFrame]) -> None:
    frame = view_frame(truth(frames[3], frames[0]), frames[3].image, None)
    every, some = points_of(frame), points_of(frame, most=1000)
    assert len(some) == -(-HEIGHT // 3) * -(-WIDTH // 3) <= 1000
    np.testing.assert_array_equal(some, every.reshape(HEIGHT, WIDTH)[::3, ::3].ravel())


def test_pixels_without_depth_give_no_points(frames: list[SyntheticFrame]) -> None:
    frame = view_frame(truth(frames[0], frames[0]), frames[0].image, None)
    depth = frame.depth.copy()
    depth[0, :4] = np.inf, np.nan, 0, -1
    assert len(points_of(replace(frame, depth=depth))) == WIDTH * HEIGHT - 4


def test_morton_codes_by_hand() -> None:
    most = (1 << 21) - 1
    corners = np.array([[0, 0, 0], [most, 0, 0], [0, most, 0], [0, 0, most], [1, 1, 0], [2, 0, 0]], np.float64)
    every_third = int("001" * 21, 2)
    assert morton(corners).tolist() == [0, every_third, every_third << 1, every_third << 2, 0b011, 0b001000]


@given(st.integers(0, 400), st.integers(0, 10))
def test_the_order_is_a_permutation(count: int, seed: int) -> None:
    positions = np.random.default_rng(seed).integers(0, 6, (count, 3)).astype(np.float32)  # many in one place
    assert sorted(spread_order(positions)) == list(range(count))


def test_beginnings_are_spread_evenly() -> None:
    """A dense spot and a thin haze about it: of the first points, as many as there are cells lie each in another."""
    rng = np.random.default_rng(0)
    positions = np.concatenate((rng.normal(0, 0.01, (20_000, 3)), rng.uniform(-1, 1, (2_000, 3))))
    ordered = positions[spread_order(positions)]
    low = positions.min(0)
    size = (positions.max(0) - low).max()
    for level in (1, 2, 3, 4):
        cells = np.minimum(((ordered - low) * (2**level / size)).astype(int), 2**level - 1)
        filled = len(np.unique(cells, axis=0))
        assert len(np.unique(cells[:filled], axis=0)) == filled
    assert (np.abs(ordered[:1000]).max(-1) > 0.1).mean() > 0.9, "the haze is not crowded out by the spot"


def test_a_cloud_never_exceeds_its_capacity_and_loses_no_part() -> None:
    cloud = Cloud(capacity=3000)
    points = scattered(20_000)
    for part in np.split(points, 20):
        cloud.add(part)
        assert len(cloud.points) + cloud.waiting <= 3000 + 3000 // 4
    cloud.settle()
    assert (len(cloud.points), cloud.waiting) == (3000, 0)
    whole, kept = (np.unique((p["position"] // 2.0).astype(int), axis=0) for p in (points, cloud.points))
    assert len(kept) > 0.95 * len(whole), "of the boxes of two metres that were filled"
    with pytest.raises(OutputError, match="capacity of 0"):
        Cloud(0)


def test_what_is_drawn_from_is_not_written_into() -> None:
    cloud = Cloud()
    cloud.add(scattered(1000))
    cloud.settle()
    held, before = cloud.points, cloud.points.copy()
    cloud.add(scattered(1000, seed=1))
    cloud.settle()
    np.testing.assert_array_equal(held, before)


def test_filters_and_budget() -> None:
    points = scattered(5000)
    shown = show(points, Look(least_confidence=3.0, first=100, last=3999, budget=500))
    passing = (points["confidence"] >= 3.0) & (points["frame"] >= 100) & (points["frame"] <= 3999)
    assert shown.passing == passing.sum() > 500
    np.testing.assert_array_equal(shown.points, points[passing][:500])
    np.testing.assert_array_equal(shown.colours, shown.points["colour"])
    assert shown.legend is None


@pytest.mark.parametrize("colouring", COLOURINGS)
def test_colours_follow_their_numbers(colouring: str) -> None:
    points = scattered(5000)
    shown = show(points, Look(colouring))
    assert shown.colours.shape == (5000, 3)
    if shown.legend is None:
        return
    values = points[{"time": "frame"}.get(colouring, colouring)].astype(np.float64)
    low, high = shown.legend.low, shown.legend.high
    for beyond in (values <= low, values >= high):
        assert len(np.unique(shown.colours[beyond], axis=0)) <= 1
    steps = shown.colours[np.argsort(values)].astype(int)
    assert np.abs(np.diff(steps, axis=0)).max() < 12, "numbers next to each other have colours next to each other"
    assert f"{low:.0f}" in shown.legend.text or f"{low:.2f}" in shown.legend.text


def test_what_is_not_known_is_grey() -> None:
    points = scattered(10)
    points["reliability"][:4] = np.nan
    shown = show(points, Look("reliability"))
    assert (shown.colours[:4] == UNKNOWN).all()
    assert not (shown.colours[4:] == UNKNOWN).all(-1).any()
    assert knows_reliability(points)
    assert not knows_reliability(points[:4])


@pytest.mark.parametrize("colouring", COLOURINGS)
def test_nothing_is_shown_of_nothing(colouring: str) -> None:
    shown = show(np.empty(0, POINT), Look(colouring))
    assert shown.colours.shape == (0, 3)


def test_near_is_warm() -> None:
    depth = np.array([[0.5, 4.0, np.inf]], np.float16)
    near, far, unknown = depth_picture(depth)[0].astype(int)
    assert near[0] > near[2]
    assert far[2] > far[0]
    assert tuple(unknown) == UNKNOWN


@pytest.mark.slow
def test_five_million_points(say: Callable[[str], None]) -> None:
    """Bounded in memory; as fast to show as to look through once; put in order for a few sorts' price."""
    points = scattered(5_000_000)
    codes = morton(points["position"])

    def seconds(work: object) -> float:
        begin = time.perf_counter()
        work()
        return time.perf_counter() - begin

    one_sort = min(seconds(lambda: np.argsort(codes, kind="stable")) for _ in range(3))
    cloud = Cloud()
    tracemalloc.start()
    for part in np.array_split(points, 4):
        cloud.add(part)
    ordering = seconds(cloud.settle)
    peak = tracemalloc.get_traced_memory()[1] / points.nbytes
    tracemalloc.stop()
    look = Look("depth", least_confidence=2.0)
    showing = min(seconds(lambda: show(cloud.points, look)) for _ in range(3))
    say(
        f"5 M points: held in {points.nbytes / 1e6:.0f} MB, {peak:.1f} times that at most while put in order; "
        f"ordering {ordering / one_sort:.1f} and showing 1 M {showing / one_sort:.2f} times what one sort takes"
    )
    assert len(cloud.points) == 5_000_000
    assert len(show(cloud.points, look).points) == look.budget
    assert peak < 6
    assert ordering < 20 * one_sort
    assert showing < 2 * one_sort
