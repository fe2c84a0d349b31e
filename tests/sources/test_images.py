"""Folders, patterns and lists of pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from footage import number_of, shade, write_pictures
from PIL import Image

from recal3r.sources.base import Skipped, Source, SourceError
from recal3r.sources.images import Images, natural_key, read_picture


def numbers(source: Source) -> list[int]:
    return [number_of(frame.image) for frame in source]


def test_natural_order_of_folder_and_pattern(tmp_path: Path) -> None:
    write_pictures(tmp_path, [10, 2, 1, 33])
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / "._img1.png").write_bytes(b"left by a Mac")
    assert numbers(Images(tmp_path)) == [1, 2, 10, 33]
    assert numbers(Images(str(tmp_path / "img?.png"))) == [1, 2]
    assert numbers(Images([tmp_path / "img33.png", str(tmp_path / "img2.png")])) == [33, 2], "a list keeps its order"


def test_pattern_across_folders(tmp_path: Path) -> None:
    for name, number in (("scan2", 4), ("scan10", 5)):
        write_pictures(tmp_path / name, [number])
    assert numbers(Images(tmp_path / "*" / "*.png")) == [4, 5]
    assert numbers(Images(tmp_path / "**" / "*.png")) == [4, 5]


def test_natural_key_orders_any_names() -> None:
    names = ["10", "9", "a", "a1b10", "a1b2", "A3", "1a", "007", "7", "", "²"]
    assert [str(path) for path in sorted(map(Path, names), key=natural_key)][:4] == ["1a", "007", "7", "9"]


def test_stride_start_end(tmp_path: Path) -> None:
    write_pictures(tmp_path, range(10))
    source = Images(tmp_path, stride=3, start=1, end=9)
    assert numbers(source) == [1, 4, 7]
    assert source.frames == 3
    assert source.description == f"pictures {tmp_path}: 3 of 10, one in 3, frames 1 to before 9"
    assert numbers(source) == [1, 4, 7], "a second reading begins again"
    for wrong in ({"stride": 0}, {"start": -1}, {"start": 3, "end": 3}):
        with pytest.raises(SourceError, match="selects no frames"):
            Images(tmp_path, **wrong)
    with pytest.raises(SourceError, match=r"Of 10 pictures .* none is selected"):
        Images(tmp_path, start=10)


def test_exif_orientation_and_mixed_sizes(tmp_path: Path) -> None:
    upright = shade(5, 40, 60)
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    Image.fromarray(np.rot90(upright)).save(tmp_path / "a.png", exif=exif)
    Image.fromarray(shade(6, 30, 20)).save(tmp_path / "b.png")
    turned, other = (frame.image for frame in Images(tmp_path))
    np.testing.assert_array_equal(turned, upright)
    assert other.shape == (30, 20, 3)


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".JPEG", ".webp", ".tif", ".tiff", ".bmp"])
def test_formats(tmp_path: Path, suffix: str) -> None:
    (path,) = write_pictures(tmp_path, [20], suffix)
    image = read_picture(path)
    assert image.dtype == np.uint8
    assert image.flags.writeable
    assert image.flags.c_contiguous
    assert number_of(image) == 20


def test_modes_become_rgb(tmp_path: Path) -> None:
    grey = shade(7)[..., 0]
    rgba = np.dstack([shade(7), np.where(np.arange(64) < 32, 255, 0)[None].repeat(48, 0).astype(np.uint8)])
    half_seen = shade(7) * (np.arange(64) < 32)[None, :, None]
    cases = {
        "16.png": (Image.fromarray(grey.astype(np.uint16) * 257), shade(7)),
        "16.tif": (Image.fromarray(grey.astype(np.uint16) * 257), shade(7)),
        "32.tif": (Image.fromarray(grey.astype(np.int32) * 257), shade(7)),
        "grey.png": (Image.fromarray(grey), shade(7)),
        "rgba.png": (Image.fromarray(rgba), half_seen),
        "palette.png": (Image.fromarray(grey).quantize(256), shade(7)),
        "bits.png": (Image.fromarray(grey > 60), np.where(shade(7) > 60, 255, 0)),
    }
    for name, (picture, expected) in cases.items():
        picture.save(tmp_path / name)
        np.testing.assert_array_equal(read_picture(tmp_path / name), expected, err_msg=name)


def test_pixels_without_a_white_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.ones((4, 4), np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(np.full((4, 4), 70000, np.int32)).save(tmp_path / "wide.tif")
    for name in ("float.tif", "wide.tif"):
        with pytest.raises(SourceError, match=f"{name} cannot be read .*8 or 16 bits"):
            read_picture(tmp_path / name)


def test_one_broken_picture_in_100(tmp_path: Path) -> None:
    write_pictures(tmp_path, range(50))
    broken = tmp_path / "img30.png"
    broken.write_bytes(broken.read_bytes()[:200])
    given: list[int] = []
    with pytest.raises(SourceError, match=r"img30\.png cannot be read as a picture .*skip_broken"):
        given.extend(number_of(frame.image) for frame in Images(tmp_path))
    source = Images(tmp_path, skip_broken=True)
    assert numbers(source) == [number for number in range(50) if number != 30]
    assert source.skipped.count == 1
    assert "img30.png" in source.skipped.sentences[0]


def complaint_about(path: Path) -> str | None:
    try:
        read_picture(path)
    except SourceError as error:
        return str(error)
    return None


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".webp", ".tif", ".bmp"])
def test_damage_anywhere_is_one_sentence_or_a_picture(tmp_path: Path, suffix: str) -> None:
    (path,) = write_pictures(tmp_path, [9], suffix)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(whole)
        for at in rng.integers(0, min(len(whole), 400), 3):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        sentence = complaint_about(path)
        assert sentence is None or (path.name in sentence and "\n" not in sentence)


def test_pixel_limits(tmp_path: Path) -> None:
    (path,) = write_pictures(tmp_path, [1])
    with pytest.raises(SourceError, match="64x48, more than the limit of 1000 pixels"):
        list(Images(tmp_path, pixel_limit=1000))
    Image.new("1", (15000, 15000)).save(path)
    with pytest.raises(SourceError, match="more pixels than"):
        read_picture(path)
    Image.new("1", (9000, 9500)).save(path)
    with pytest.raises(SourceError, match="more than the limit"):
        read_picture(path)


def test_nothing_there(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "*.png", tmp_path / "missing", []):
        with pytest.raises(SourceError, match=r"Of 0 pictures .*\.png"):
            Images(place)


def test_heic_without_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    (tmp_path / "a.heic").write_bytes(b"")
    with pytest.raises(SourceError, match=r"install recal3r\[heic\]"):
        list(Images(tmp_path))


def test_heic(tmp_path: Path) -> None:
    heif = pytest.importorskip("pillow_heif", reason="needs recal3r[heic]")
    heif.from_pillow(Image.fromarray(shade(20))).save(tmp_path / "a.heic", quality=90)
    assert numbers(Images(tmp_path)) == [20]


def test_reading_is_lazy_and_closes(tmp_path: Path) -> None:
    write_pictures(tmp_path, range(4))
    with Images(tmp_path) as source:
        assert isinstance(source, Source)
        reading = iter(source)
        assert number_of(next(reading).image) == 0
        for path in tmp_path.iterdir():
            path.unlink()
    assert next(reading, None) is None, "leaving the block ends the reading"


def test_skipped_keeps_a_few_words() -> None:
    skipped = Skipped()
    for number in range(100):
        skipped.add(SourceError(str(number)))
    assert skipped.count == 100
    assert len(skipped.sentences) == 20
