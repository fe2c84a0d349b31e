"""Filters keep what they say they keep, alone, together, and in every sink that takes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pycolmap
import pytest
from hypothesis import given
from hypothesis import strategies as st
from walks import perfect, walk, written

from recal3r.errors import OutputError
from recal3r.sinks import CloudSink, ColmapSink, GlbSink
from recal3r.sinks.base import Sink
from recal3r.sinks.filters import (
    All,
    DepthRange,
    Filter,
    LeastConfidence,
    MostConfident,
    NoEdges,
    NoSky,
    colours_of,
    connected_to_top,
)
from recal3r.types import Camera, Crop, Prediction

H, W = 24, 32


def test_confidence() -> None:
    confidence = np.linspace(1, 5, H * W).reshape(H, W)
    prediction = Prediction(0, confidence_world=confidence, confidence_camera=confidence[::-1])
    np.testing.assert_array_equal(LeastConfidence(2.0)(prediction, None), confidence >= 2)
    np.testing.assert_array_equal(LeastConfidence(2.0, "confidence_camera")(prediction, None), confidence[::-1] >= 2)
    for share in (0.1, 0.5, 1.0):
        assert MostConfident(share)(prediction, None).mean() == pytest.approx(share, abs=2 / (H * W))
    assert MostConfident(0.3)(prediction, None)[-1].all(), "the most confident ones"


def test_depth_range() -> None:
    depth = np.array([[0.5, 1.0, 2.0, 3.0, np.nan, np.inf, -1.0]])
    kept = DepthRange(1.0, 2.0)(Prediction(0, depth=depth), None)
    assert kept.tolist() == [[False, True, True, False, False, False, False]]
    assert DepthRange()(Prediction(0, depth=depth), None).tolist() == [[True] * 4 + [False] * 3]


def slanted(angle: float) -> np.ndarray:
    """The depth of a plane through (0, 0, 2), turned about the vertical axis."""
    x = (np.arange(W) - W / 2) / W
    return np.tile(2 / (1 - np.tan(angle) * x), (H, 1))


@pytest.mark.parametrize("angle", [0.0, 0.5, 1.0, -1.0])
def test_a_slanted_plane_has_no_edges(angle: float) -> None:
    for depth in (slanted(angle), slanted(angle)[:, :24].T):
        assert NoEdges(0.01)(Prediction(0, depth=depth), None).all()


@given(st.integers(4, W - 5), st.integers(0, 3), st.floats(1.3, 5.0))
def test_flying_pixels_are_dropped_and_surfaces_are_not(column: int, blended: int, ratio: float) -> None:
    """A near and a far surface, with `blended` pixels on the way from one to the other."""
    depth = np.full((H, W), 2.0)
    depth[:, column:] = 2.0 * ratio
    ramp = np.linspace(2, 2 * ratio, blended + 2)[1:-1]
    depth[:, column - blended : column] = ramp
    kept = NoEdges(0.05)(Prediction(0, depth=depth), None)
    if blended < 3:
        assert not kept[:, column - blended : column].any()
    assert kept[:, : max(0, column - blended - 2)].all()
    assert kept[:, column + 2 :].all()


def test_edges_up_and_down_and_holes() -> None:
    depth = np.full((H, W), 2.0)
    depth[10:] = 6.0
    depth[20, 5] = np.nan
    kept = NoEdges()(Prediction(0, depth=depth), None)
    assert not kept[9:11].any()
    assert kept[:8].all()
    assert not kept[20, 5]


def outdoors() -> tuple[Prediction, np.ndarray]:
    """Sky over a ridge, a white house and blue water below it; the true sky is what is far."""
    rows, columns = np.mgrid[:H, :W]
    sky = rows < 10 + 4 * np.sin(columns / 5)
    depth = np.where(sky, 100.0, 2 + 5 * (1 - rows / H))
    rng = np.random.default_rng(0)
    image = rng.integers(40, 120, (H, W, 3)).astype(np.uint8)  # rough ground
    cloud = np.exp(-((rows - 3) ** 2 + (columns - 12) ** 2) / (2 * 6**2))[..., None]  # with soft edges
    image[sky] = ((1 - cloud) * (120, 160, 230) + cloud * (240, 240, 245))[sky]
    image[18:22, 4:12] = (245, 245, 245)  # the house
    image[20:, 20:] = (60, 90, 200)  # the water
    return Prediction(0, depth=depth, confidence_camera=np.where(sky, 1.2, 4.0)), sky, image


def test_sky() -> None:
    prediction, sky, image = outdoors()
    kept = NoSky()(prediction, image)
    assert kept[~sky].all(), "neither house nor water nor ground"
    inner = sky & np.roll(sky, -1, 0) & np.roll(sky, -1, 1)  # but for what borders on the ridge
    assert (~kept)[inner].mean() > 0.95
    assert not kept[2:5, 10:15].any(), "clouds are sky"
    near = replace(prediction, depth=np.full((H, W), 3.0), confidence_camera=np.full((H, W), 9.0))
    assert NoSky()(near, image).all(), "a blue ceiling is not"
    unsure = replace(prediction, depth=np.full((H, W), 3.0))
    assert not NoSky()(unsure, image)[0].any(), "wherever the network puts it, if it is not sure"
    assert NoSky()(replace(prediction, depth=np.full((H, W), np.nan)), image).shape == (H, W)


def test_little_sky_is_none() -> None:
    prediction, _, image = outdoors()
    prediction = replace(prediction, confidence_camera=np.full((H, W), 4.0), depth=np.full((H, W), 3.0))
    prediction.depth[0, :5] = 99
    assert not NoSky(least=0.001)(prediction, image)[0, :4].any()
    assert NoSky()(prediction, image).all()


def plain_connected(candidates: np.ndarray) -> np.ndarray:
    """By definition: a search from pixel to pixel."""
    reached = np.zeros_like(candidates)
    waiting = [(0, column) for column in np.flatnonzero(candidates[0])]
    while waiting:
        row, column = waiting.pop()
        if reached[row, column]:
            continue
        reached[row, column] = True
        around = ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1))
        inside = ((r, c) for r, c in around if 0 <= r < candidates.shape[0] and 0 <= c < candidates.shape[1])
        waiting += [place for place in inside if candidates[place]]
    return reached


@given(st.integers(0, 10**6), st.integers(1, 15), st.integers(1, 15), st.floats(0.3, 0.9))
def test_connected_to_top_by_definition(seed: int, height: int, width: int, share: float) -> None:
    candidates = np.random.default_rng(seed).uniform(size=(height, width)) < share
    np.testing.assert_array_equal(connected_to_top(candidates), plain_connected(candidates))


def test_together() -> None:
    prediction, _, image = outdoors()
    keep = DepthRange(far=50) & LeastConfidence(2, "confidence_camera") & NoSky()
    assert keep == All((All((DepthRange(far=50), LeastConfidence(2, "confidence_camera"))), NoSky()))
    assert keep.needs == {"depth", "confidence_camera"}
    parts = [part(prediction, image) for part in (DepthRange(far=50), LeastConfidence(2, "confidence_camera"), NoSky())]
    np.testing.assert_array_equal(keep(prediction, image), parts[0] & parts[1] & parts[2])


def test_wrong_use_is_one_sentence() -> None:
    prediction, _, _ = outdoors()
    with pytest.raises(OutputError, match="NoSky looks at the picture"):
        NoSky()(prediction, None)
    for keep, name in ((LeastConfidence(), "confidence_world"), (NoEdges(), "depth"), (NoSky(), "depth")):
        with pytest.raises(OutputError, match=f"needs '{name}'"):
            keep(Prediction(0), None)
    for wrong in (lambda: DepthRange(3, 2), lambda: NoEdges(0), lambda: MostConfident(0), lambda: MostConfident(1.5)):
        with pytest.raises(OutputError):
            wrong()
    with pytest.raises(OutputError, match="no filters"):
        All(())(prediction, None)


def test_colours_are_those_of_the_original_picture() -> None:
    image = np.zeros((60, 80, 3), np.uint8)
    image[..., 0], image[..., 1] = np.arange(60)[:, None], np.arange(80)
    camera = Camera(np.eye(3), 30, 20, np.eye(4), Crop((80, 60), (40, 30), left=5, top=5))
    found = colours_of(image, Prediction(0, camera=camera), (20, 30))
    for row, column in ((0, 0), (7, 11), (19, 29)):  # the middle of a pixel twice as large
        np.testing.assert_allclose(found[row, column, :2], [2 * (row + 5) + 0.5, 2 * (column + 5) + 0.5], atol=0.5)
    assert (colours_of(None, Prediction(0), (2, 3)) == 128).all()


FRAMES = walk(2)
KEEP = DepthRange(0.5, 2.0)
SINKS: dict[str, Callable[[Path, Filter | None], Sink]] = {
    "cloud": lambda path, keep: CloudSink(path / "c.ply", edge=0.02, least_confidence=1, keep=keep),
    "glb": lambda path, keep: GlbSink(path / "c.glb", edge=0.02, least_confidence=1, keep=keep),
    "colmap": lambda path, keep: ColmapSink(path, least_confidence=1, keep=keep),
}


@pytest.mark.parametrize("name", SINKS)
def test_sinks_drop_what_is_not_kept(tmp_path: Path, name: str) -> None:
    """Every point that was written lies in the range that the filter keeps, seen from the one camera there is."""
    prediction = perfect(FRAMES[0])
    assert 0.2 < KEEP(prediction, None).mean() < 0.9, "the test can tell"
    sink = SINKS[name](tmp_path, KEEP)
    assert KEEP.needs <= sink.needs
    written(sink, [(prediction, FRAMES[0].image)])
    if name == "colmap":
        points = np.stack([point.xyz for point in pycolmap.Reconstruction(str(tmp_path)).points3D.values()])
    else:
        fusion = sink.fusion if isinstance(sink, CloudSink) else sink._fusion
        points = fusion.voxels.cloud().points
    depth = (np.linalg.inv(prediction.T_world_camera) @ np.c_[points, np.ones(len(points))].T)[2]
    assert len(depth) > 50
    assert depth.min() > 0.49
    assert depth.max() < 2.02
