"""Every sink of a run: killed after a mark and gone on with, its files are those of a run that was never killed."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from recal3r.errors import OutputError
from recal3r.pipeline.outputs import OUTPUTS
from recal3r.sinks import ColmapSink, DepthSink, NerfstudioSink, TumSink
from recal3r.sinks.base import Mark, Tee
from recal3r.sinks.cloud import Places, VoxelMap
from recal3r.sinks.files import GrowingFile, write_whole
from sinks.walks import Shown, interrupted, killed, shown, walk, written

SMALL = {"edge": 0.02, "budget": 3000, "least_confidence": 2.0}  # so small that its voxels grow on the way


THERE = [name for name in OUTPUTS if find_spec(f"recal3r.sinks.{OUTPUTS[name].module}")]


@pytest.fixture(scope="module")
def pairs() -> list[Shown]:
    return shown(walk(9))


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def make(name: str, folder: Path) -> Tee:
    folder.mkdir(exist_ok=True)
    return Tee(OUTPUTS[name].open(folder, SMALL, overwrite=False))


@pytest.mark.parametrize("name", THERE)
@pytest.mark.parametrize(("at", "lost"), [(0, 3), (1, 1), (4, 3), (7, 2)])
def test_goes_on_byte_for_byte(pairs: list[Shown], tmp_path: Path, name: str, at: int, lost: int) -> None:
    written(make(name, tmp_path / "whole"), pairs)
    interrupted(partial(make, name), tmp_path / "killed", pairs, at, lost)
    whole, found = content(tmp_path / "whole"), content(tmp_path / "killed")
    assert whole
    assert found.keys() == whole.keys()
    assert found == whole


@pytest.mark.parametrize("name", THERE)
def test_a_mark_is_not_changed_by_what_follows(pairs: list[Shown], tmp_path: Path, name: str) -> None:
    sink = make(name, tmp_path / "run")
    with sink:
        for prediction, image in pairs[:4]:
            sink.write(prediction, image)
        mark = sink.mark()
        before = {key: array.copy() for key, array in mark.arrays.items()}, dict(mark.numbers)
        for prediction, image in pairs[4:]:
            sink.write(prediction, image)
        assert dict(mark.numbers) == before[1]
        assert all(np.array_equal(mark.arrays[key], array, equal_nan=True) for key, array in before[0].items())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", [TumSink, NerfstudioSink])
def test_a_file_that_was_cut_since_is_one_sentence(pairs: list[Shown], tmp_path: Path, kind: type) -> None:
    path = tmp_path / "file"
    mark = killed(kind(path), pairs[:4], 3)
    assert mark is not None
    path.write_bytes(path.read_bytes()[:50])
    again = kind(path)
    again.resume(mark)
    with pytest.raises(OutputError, match="holds 50 bytes, fewer than the") as caught, again:
        pass
    assert "\n" not in str(caught.value)
    assert path.stat().st_size == 50
    path.unlink()
    with pytest.raises(OutputError, match="cannot be gone on with"), again:
        pass


def test_a_resumed_folder_may_hold_files(pairs: list[Shown], tmp_path: Path) -> None:
    written(DepthSink(tmp_path / "depth"), pairs[:2])
    (tmp_path / "depth" / "mine.txt").write_text("mine")
    again = DepthSink(tmp_path / "depth")
    again.resume(Mark())
    written(again, pairs[1:3])
    assert len(content(tmp_path / "depth")) == 7
    assert (tmp_path / "depth" / "mine.txt").read_text() == "mine"


def test_a_piece_that_does_not_fit_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = GrowingFile.begin(tmp_path / "f")
    file.append(b"head tail")
    put = GrowingFile._put

    def full(self: GrowingFile, position: int, piece: bytes) -> None:
        put(self, position, piece[:3])  # a disk takes what fits
        if len(piece) > 9:
            raise OSError(28, "No space left on device")
        put(self, position, piece)

    monkeypatch.setattr(GrowingFile, "_put", full)
    for position in (5, 9):
        with pytest.raises(OutputError, match=r"f cannot be written \(No space left on device\); what came before"):
            file.write_at(position, b"much more than that")
        assert (tmp_path / "f").read_bytes() == b"head tail"
    file.write_at(5, b"more")
    assert file.sync() == 9
    file.close()
    assert (tmp_path / "f").read_bytes() == b"head more"


def test_whole_files_leave_no_litter(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"1")
    write_whole(tmp_path / "a", b"2")
    assert content(tmp_path) == {"a": b"2"}
    with pytest.raises(OutputError, match="cannot be written"):
        write_whole(tmp_path / "no" / "a", b"1")


def test_a_colmap_model_is_whole_after_every_frame(pairs: list[Shown], tmp_path: Path) -> None:
    """As a run that is killed for good leaves it: nobody closes the sink."""
    import pycolmap

    sink = ColmapSink(tmp_path)
    with sink:
        for count, (prediction, image) in enumerate(pairs[:4], start=1):
            sink.write(prediction, image)
            model = pycolmap.Reconstruction(str(tmp_path))
            assert (model.num_images(), model.num_cameras()) == (count, count)
            known = set(model.points3D)
            seen = {observation.point3D_id for one in model.images.values() for observation in one.points2D}
            assert seen == known
            assert len(known) > 100 * count


def test_places_are_given_in_order_and_found_again() -> None:
    rng = np.random.default_rng(0)
    places, expected = Places(), {}
    for _ in range(30):
        keys = np.unique(rng.integers(0, 5000, 400) * (1 << 40))  # all in few slots, but for the hashing
        for key in keys.tolist():
            expected.setdefault(key, len(expected))
        assert places.of(keys).tolist() == [expected[key] for key in keys.tolist()]
    assert places.keys.tolist() == list(expected)


def test_a_voxel_map_is_the_sum_of_what_fell_into_its_voxels() -> None:
    """Against a dictionary, frame by frame, as it grows and coarsens."""
    rng = np.random.default_rng(1)
    voxels, edge = VoxelMap(0.25, 400), 0.25
    everything: list[np.ndarray] = []
    for _ in range(12):
        points, weights = rng.normal(size=(200, 3)), rng.uniform(1, 3, 200)
        colours = rng.integers(0, 256, (200, 3)).astype(np.uint8)
        voxels.add(points, colours, weights)
        everything.append(np.concatenate((weights[:, None], points * weights[:, None]), 1))
    assert voxels.edge > edge, "it has grown coarser"
    cloud, rows = voxels.cloud(), np.concatenate(everything)
    assert len(cloud.points) == len(voxels) <= 400
    np.testing.assert_allclose(cloud.weights.sum(), rows[:, 0].sum())
    np.testing.assert_allclose((cloud.points * cloud.weights[:, None]).sum(0), rows[:, 1:].sum(0))
    assert len(np.unique(np.rint(cloud.points / voxels.edge).astype(int), axis=0)) >= 0.9 * len(voxels)
