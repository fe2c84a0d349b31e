"""Folders, globs and lists of pictures, in the order people number them, the right way up."""

from __future__ import annotations

import importlib
import re
from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image as PillowImage
from PIL import ImageOps

from recal3r.sources.base import Reader, Selection, Skipped, SourceError
from recal3r.types import Frame, Image

PIXEL_LIMIT = 80_000_000  # 240 MB as RGB; just below where Pillow itself begins to warn of decompression bombs
HEIC_SUFFIXES = frozenset({".heic", ".heif"})
PICTURE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp"}) | HEIC_SUFFIXES
# Named here, where PyAV need not be installed for a name to be recognised.
VIDEO_SUFFIXES = frozenset(
    {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".ts", ".mts", ".m2ts"}
    | {".wmv", ".flv", ".ogv", ".3gp", ".mxf", ".h264", ".hevc", ".mjpeg", ".gif"}
)
_WILDCARDS = frozenset("*?[")


class Images(Reader):
    """Pictures of a folder (what lies in it, not deeper) or of a pattern (`scans/*/left_*.png`; `**` stands for any
    folders), in natural order, or of a list of files, in its own. One is in memory at a time; sizes may differ.

    skip_broken: leave out pictures that cannot be read, and count them in `skipped`; otherwise the first one raises.
    pixel_limit: refuse pictures of more pixels than that before they are unpacked.
    """

    def __init__(
        self,
        place: str | Path | Sequence[str | Path],
        *,
        stride: int = 1,
        start: int = 0,
        end: int | None = None,
        skip_broken: bool = False,
        pixel_limit: int = PIXEL_LIMIT,
    ) -> None:
        super().__init__()
        selection = Selection(stride, start, end)
        found = _found(place)
        name = str(place) if isinstance(place, str | Path) else f"a list of {len(found)}"
        self.paths = found[selection.start : selection.end : selection.stride]
        self.skip_broken = skip_broken
        self.pixel_limit = pixel_limit
        self.skipped = Skipped()
        self._description = f"pictures {name}: {len(self.paths)} of {len(found)}{selection}"
        if not self.paths:
            raise SourceError(
                f"Of {len(found)} pictures in {name} none is selected{selection}; name a place with files that end in "
                f"{', '.join(sorted(PICTURE_SUFFIXES))}, and choose an earlier start."
            )

    @property
    def description(self) -> str:
        return self._description

    @property
    def frames(self) -> int:
        return len(self.paths)

    def _read(self) -> Generator[Frame]:
        self.skipped = Skipped()
        for path in self.paths:
            try:
                image = read_picture(path, self.pixel_limit)
            except SourceError as error:
                if not self.skip_broken:
                    raise
                self.skipped.add(error)
            else:
                yield Frame(image)


def pictures_in(folder: Path) -> list[Path]:
    """In natural order. Hidden files are not pictures: macOS leaves `._img1.jpg` beside `img1.jpg`."""
    try:
        return sorted((path for path in folder.iterdir() if _is_picture(path)), key=natural_key)
    except OSError as error:
        raise SourceError(f"{folder} cannot be listed ({error.strerror}); give a folder that can be read.") from error


def natural_key(path: Path) -> tuple[tuple[tuple[int, str], ...], str]:
    """Sorts img2 before img10. Numbers sort before letters, and names that differ in case alone by their characters."""
    parts = re.split(r"(\d+)", str(path).casefold())
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts), str(path)


def read_picture(path: Path, pixel_limit: int = PIXEL_LIMIT) -> Image:
    """The picture as uint8 RGB [H, W, 3], turned as its EXIF orientation says."""
    if path.suffix.lower() in HEIC_SUFFIXES:
        _learn_heic(path)
    try:
        with PillowImage.open(path) as picture:
            _require_size(path, picture.width, picture.height, pixel_limit)
            return _rgb(ImageOps.exif_transpose(picture))
    except (PillowImage.DecompressionBombError, PillowImage.DecompressionBombWarning) as error:
        raise SourceError(
            f"{path} has more pixels than Pillow unpacks without doubt, against a limit of {pixel_limit}; shrink it."
        ) from error
    except SourceError:
        raise
    except Exception as error:  # damaged bytes make Pillow raise nearly anything
        raise SourceError(
            f"{path} cannot be read as a picture ({_first_line(error)}); replace it, or leave it out with skip_broken."
        ) from error


def _require_size(path: Path, width: int, height: int, pixel_limit: int) -> None:
    if width * height > pixel_limit:
        raise SourceError(
            f"{path} is {width}x{height}, more than the limit of {pixel_limit} pixels; shrink it or raise pixel_limit."
        )


def _rgb(picture: PillowImage.Image) -> Image:
    """Any kind of picture as uint8 [H, W, 3]. What is transparent shows black behind it."""
    if picture.mode == "F":
        raise ValueError("its pixels are floating-point numbers without a known white; save it with 8 or 16 bits")
    if picture.mode.startswith("I"):
        return _rgb_from_16_bit(np.asarray(picture))
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        behind = PillowImage.new("RGBA", picture.size, (0, 0, 0, 255))
        picture = PillowImage.alpha_composite(behind, picture)
    return np.array(picture.convert("RGB"))


def _rgb_from_16_bit(grey: np.ndarray) -> Image:
    """Pillow's own conversion would clip at 255 what reaches to 65535."""
    if grey.min() < 0 or grey.max() > 65535:
        raise ValueError("its pixels do not fit 16 bits; save it with 8 or 16 bits")
    eight_bits = ((grey.astype(np.uint32) + 128) // 257).astype(np.uint8)
    return np.repeat(eight_bits[..., None], 3, axis=2)


def _learn_heic(path: Path) -> None:
    try:
        heif = importlib.import_module("pillow_heif")
    except ImportError as error:
        raise SourceError(
            f"{path} is a HEIC picture, which needs pillow-heif; install recal3r[heic], or save it as JPEG."
        ) from error
    heif.register_heif_opener()


def _found(place: str | Path | Sequence[str | Path]) -> list[Path]:
    if not isinstance(place, str | Path):
        return [Path(path) for path in place]
    path = Path(place)
    if path.is_dir():
        return pictures_in(path)
    return [path] if path.is_file() else _matches(path)


def _matches(pattern: Path) -> list[Path]:
    """Path.glob takes no absolute pattern: what comes before the first wildcard is where it starts."""
    parts = pattern.parts
    fixed = next((i for i, part in enumerate(parts) if _WILDCARDS & set(part)), len(parts) - 1)
    matches = Path(*parts[:fixed]).glob("/".join(parts[fixed:]))
    return sorted((path for path in matches if _is_picture(path)), key=natural_key)


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in PICTURE_SUFFIXES and not path.name.startswith(".") and path.is_file()


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
