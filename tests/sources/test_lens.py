"""Known lenses: bent as another program bends them, straightened, and the intrinsics in what comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pycolmap
import pytest
from PIL import Image

from recal3r import Cut3r, Frame, Reconstructor, open_source
from recal3r.sources.base import SourceError
from recal3r.sources.images import Images
from recal3r.sources.lens import Calibrated, Lens

W, H = 160, 120
PINHOLE = (130.0, 128.0, 78.0, 61.0)
LENSES = {
    "OPENCV": Lens(*PINHOLE, distortion=(-0.21, 0.06, 0.004, -0.003)),
    "FULL_OPENCV": Lens(*PINHOLE, distortion=(0.12, -0.05, -0.002, 0.001, 0.02, -0.1, 0.01, -0.003)),
    "OPENCV_FISHEYE": Lens(*PINHOLE, fisheye=(0.05, -0.02, 0.004, -0.001)),
}


def colmaps(model: str) -> pycolmap.Camera:
    """COLMAP's pixel centres lie at halves."""
    lens = LENSES[model]
    pinhole = [lens.fx, lens.fy, lens.cx + 0.5, lens.cy + 0.5]
    return pycolmap.Camera(model=model, width=W, height=H, params=[*pinhole, *lens.distortion, *lens.fisheye])


def painted(column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """A smooth picture, as a function of where one looks."""
    channels = (np.sin(column / 11), np.cos(row / 9), np.sin((column + row) / 17))
    return np.rint(127.5 + 120 * np.stack(channels, -1)).astype(np.uint8)


def grid() -> tuple[np.ndarray, np.ndarray]:
    column, row = np.meshgrid(np.arange(W, dtype=np.float64), np.arange(H, dtype=np.float64))
    return column, row


@pytest.mark.parametrize("model", LENSES)
def test_bends_as_colmap_does(model: str) -> None:
    lens, (column, row) = LENSES[model], grid()
    rays = np.stack(((column - lens.cx) / lens.fx, (row - lens.cy) / lens.fy, np.ones_like(row)), -1).reshape(-1, 3)
    expected = colmaps(model).img_from_cam(rays) - 0.5
    x, y = lens.seen(column, row)
    np.testing.assert_allclose(np.stack((x, y), -1).reshape(-1, 2), expected, atol=1e-9)


@pytest.mark.parametrize("model", LENSES)
def test_a_bent_picture_comes_out_straight(model: str) -> None:
    lens, (column, row) = LENSES[model], grid()
    pixels = np.stack((column, row), -1).reshape(-1, 2) + 0.5
    x, y = colmaps(model).cam_from_img(pixels).T.reshape(2, H, W)
    bent = painted(lens.fx * x + lens.cx, lens.fy * y + lens.cy)
    straight = painted(column, row)
    assert np.abs(bent.astype(int) - straight).max() > 40, "or else there were nothing to straighten"

    (frame,) = Calibrated(source := _One(bent), lens)
    inside = np.s_[3:-3, 3:-3]
    seen_x, seen_y = lens.seen(column, row)
    shown = ((seen_x > 1) & (seen_x < W - 2) & (seen_y > 1) & (seen_y < H - 2))[inside]
    error = np.abs(frame.image[inside].astype(int) - straight[inside]).max(-1)
    assert error[shown].max() <= 3
    assert shown.mean() > 0.8
    np.testing.assert_array_equal(frame.intrinsics, [[130, 0, 78], [0, 128, 61], [0, 0, 1]])
    assert frame.timestamp == 1.5
    assert source.closed is False


def test_what_the_lens_did_not_show_is_black() -> None:
    """Also where the polynomial turns round and would show the middle once more."""
    for distortion in ((0.4, 0.0, 0.0, 0.0), (-1.5, 0.0, 0.0, 0.0)):
        (frame,) = Calibrated(_One(np.full((H, W, 3), 200, np.uint8)), Lens(60, 60, 80, 60, distortion))
        assert (frame.image[0, 0] == 0).all()
        assert (frame.image[60, 80] == 200).all()


def test_pinhole_pictures_are_not_touched(tmp_path: Path) -> None:
    picture = painted(*grid())
    Image.fromarray(picture).save(tmp_path / "a.png")
    with open_source(tmp_path, intrinsics=PINHOLE) as source:
        (frame,) = source
        assert source.frames == 1
        assert source.description.endswith("1 of 1, of a known camera")
        np.testing.assert_array_equal(frame.image, picture)
        assert frame.intrinsics[0, 0] == 130
    bent = open_source(tmp_path, intrinsics=PINHOLE, distortion=(-0.2, 0.05, 0, 0))
    assert bent.description.endswith("of a known camera, straightened")


def test_known_intrinsics_take_the_place_of_estimated_ones(mini: Cut3r) -> None:
    K = np.array([[130, 0, 78], [0, 128, 61], [0, 0, 1]], np.float64)
    recon = Reconstructor(mini, outputs=("pose", "camera"), size=64)
    estimated = recon.push(painted(*grid())).camera
    camera = recon.push(Frame(painted(*grid()), intrinsics=K)).camera
    assert (camera.width, camera.height) == (64, 48)
    np.testing.assert_allclose(camera.original.intrinsics, K, atol=1e-9)
    assert abs(estimated.original.intrinsics[0, 0] - 130) > 1
    fx, cx = camera.intrinsics[0, 0], camera.intrinsics[0, 2]
    np.testing.assert_allclose([fx, cx], [130 * 0.4, (78 + 0.5) * 0.4 - 0.5], atol=1e-9)


def test_what_makes_no_sense_is_one_sentence(tmp_path: Path) -> None:
    Image.fromarray(painted(*grid())).save(tmp_path / "a.png")
    wrong = [
        ({"intrinsics": (0, 128, 78, 61)}, "are no camera's"),
        ({"intrinsics": (130, 128, float("nan"), 61)}, "are no camera's"),
        ({"intrinsics": (130, 128)}, "2 numbers are no intrinsics"),
        ({"distortion": (1, 2, 3, 4)}, "needs its intrinsics too"),
        ({"intrinsics": PINHOLE, "distortion": (1, 2, 3)}, "3 numbers are no distortion"),
        ({"intrinsics": PINHOLE, "fisheye": (1, 2, 3)}, "3 numbers are no fisheye lens"),
        ({"intrinsics": PINHOLE, "fisheye": (1, 2, 3, 4), "distortion": (1, 2, 3, 4)}, "of one model"),
        ({"intrinsics": (130, 128, 300, 61)}, r"lies outside of a picture of 160x120"),
    ]
    for options, match in wrong:
        with pytest.raises(SourceError, match=match) as caught:
            list(open_source(tmp_path, **options))
        assert "\n" not in str(caught.value)


class _One(Images):
    """A source of one picture."""

    def __init__(self, image: np.ndarray) -> None:
        super().__init__([Path("one.png")])
        self.image, self.closed = image, False

    def _read(self):
        yield Frame(self.image, 1.5)

    def close(self) -> None:
        self.closed = True
