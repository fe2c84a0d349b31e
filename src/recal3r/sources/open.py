"""Anything that people call a stream, as a source of frames."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from recal3r.sources.base import Source, SourceError
from recal3r.sources.images import PICTURE_SUFFIXES, VIDEO_SUFFIXES, Images
from recal3r.sources.lens import Calibrated, Lens
from recal3r.sources.raw import RawPipe
from recal3r.sources.watch import WatchedFolder

_WHAT_WORKS = (
    "a folder of pictures, a pattern such as 'scans/*.png', a video file, a URL (rtsp://, http://), a camera (0 or "
    "/dev/video0), '-' for raw rgb24 on standard input, watch:FOLDER, or synthetic:SEED?frames=300"
)
_PATTERN = re.compile(r"[*?\[]")
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_CAMERA = re.compile(r"\d+|/dev/video\d+")
_SYNTHETIC = re.compile(r"synthetic:(?P<seed>\d+)(\?(?P<query>.*))?")


@dataclass(frozen=True)
class _Kind:
    recognises: Callable[[str], object]
    opens: Callable[[str, dict[str, Any]], Source]


def open_source(
    anything: str | int | Path | Source,
    *,
    intrinsics: Sequence[float] | None = None,
    distortion: Sequence[float] = (),
    fisheye: Sequence[float] = (),
    **options: Any,
) -> Source:
    """The frames of nearly anything; `description` says what was chosen.

    A folder of pictures, a pattern, a picture or video file, a URL, a camera (its number or device file), "-" for raw
    frames on standard input, "watch:FOLDER", "synthetic:SEED?frames=300&width=128". Options are those of the source
    that is chosen: `Images`, `Video`, `Live`, `RawPipe`, `WatchedFolder`, `MadeUp`.

    intrinsics: fx fy cx cy of the pictures, where they are known; distortion, fisheye: how the lens bends (see `Lens`),
        which is taken out of the pictures.
    """
    lens = _lens(intrinsics, distortion, fisheye)
    source = _opened(anything, options)
    return source if lens is None else Calibrated(source, lens)


def _lens(intrinsics: Sequence[float] | None, distortion: Sequence[float], fisheye: Sequence[float]) -> Lens | None:
    if intrinsics is None:
        if distortion or fisheye:
            raise SourceError("A lens that bends needs its intrinsics too; give fx fy cx cy.")
        return None
    if len(intrinsics) != 4:
        raise SourceError(f"{len(intrinsics)} numbers are no intrinsics; give fx fy cx cy.")
    fx, fy, cx, cy = intrinsics
    return Lens(fx, fy, cx, cy, tuple(distortion), tuple(fisheye))


def _opened(anything: str | int | Path | Source, options: dict[str, Any]) -> Source:
    if not isinstance(anything, str | int | Path):
        return _as_it_is(anything, options)
    name = str(anything)
    kind = next((kind for kind in _KINDS if kind.recognises(name)), None)
    if kind is None:
        missing = "" if Path(name).exists() else " is not there, and"
        raise SourceError(f"{name!r}{missing} is nothing that frames can be had from; give {_WHAT_WORKS}.")
    return kind.opens(name, options)


def _as_it_is(source: Source, options: dict[str, Any]) -> Source:
    if not isinstance(source, Source):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may have no types
        raise SourceError(f"A {type(source).__name__} is no source of frames; give {_WHAT_WORKS}.")
    if options:
        raise SourceError(f"{source.description} is open already and takes no {', '.join(options)}; give its name.")
    return source


def _made(opens: Callable[..., Source], *arguments: object, options: dict[str, Any]) -> Source:
    try:
        inspect.signature(opens).bind(*arguments, **options)
    except TypeError as error:
        known = list(inspect.signature(opens).parameters.values())
        takes = [name.name for name in known if name.kind is not name.VAR_KEYWORD][len(arguments) :]
        what = " ".join(str(argument) for argument in arguments) or "standard input"
        raise SourceError(
            f"The options {sorted(options)} do not fit {what} ({error}); it takes {', '.join(takes)}."
        ) from error
    return opens(*arguments, **options)


def _synthetic(name: str, options: dict[str, Any]) -> Source:
    from recal3r.sources.made_up import MadeUp  # noqa: PLC0415  # a renderer that few streams need

    matched = _SYNTHETIC.fullmatch(name)
    query = parse_qsl(matched["query"] or "", keep_blank_values=True) if matched else []
    if matched is None or not all(value.isdecimal() for _, value in query):
        raise SourceError(
            f"{name!r} names no synthetic world; give synthetic:SEED or synthetic:SEED?frames=300&width=128&height=96."
        )
    asked = {option: int(value) for option, value in query}
    return _made(MadeUp, int(matched["seed"]), options={**asked, **options})


def _camera(name: str, options: dict[str, Any]) -> Source:
    with _pyav_needed(f"camera {name}"):
        from recal3r.sources.live import Live  # noqa: PLC0415
    return _made(Live.camera, int(name) if name.isdecimal() else name, options=options)


def _stream(name: str, options: dict[str, Any]) -> Source:
    with _pyav_needed(name):
        from recal3r.sources.live import Live  # noqa: PLC0415
    return _made(Live, name, options=options)


def _video(name: str, options: dict[str, Any]) -> Source:
    with _pyav_needed(name):
        from recal3r.sources.video import Video  # noqa: PLC0415
    return _made(Video, name, options=options)


@contextmanager
def _pyav_needed(name: str) -> Generator[None]:
    try:
        yield
    except ImportError as error:
        raise SourceError(f"{name} needs PyAV, which does not load ({error}); install recal3r[video].") from error


def _pipe(_: str, options: dict[str, Any]) -> Source:
    if not {"width", "height"} <= options.keys():
        raise SourceError("Raw pictures on standard input do not say how large they are; give width and height.")
    return _made(RawPipe, options=options)


def _watched(name: str, options: dict[str, Any]) -> Source:
    return _made(WatchedFolder, name.removeprefix("watch:"), options=options)


def _images(name: str, options: dict[str, Any]) -> Source:
    return _made(Images, name, options=options)


def _file_with(suffixes: frozenset[str]) -> Callable[[str], bool]:
    return lambda name: Path(name).suffix.lower() in suffixes


# The first that recognises a name opens it. What is there under exactly this name comes before any meaning of it.
_KINDS = (
    _Kind(lambda name: name and Path(name).is_dir(), _images),
    _Kind(lambda name: Path(name).is_file() and _file_with(PICTURE_SUFFIXES)(name), _images),
    _Kind(lambda name: Path(name).is_file() and _file_with(VIDEO_SUFFIXES)(name), _video),
    _Kind(lambda name: name == "-", _pipe),
    _Kind(lambda name: name.startswith("synthetic:"), _synthetic),
    _Kind(lambda name: name.startswith("watch:"), _watched),
    _Kind(_CAMERA.fullmatch, _camera),
    _Kind(_URL.match, _stream),
    _Kind(_PATTERN.search, _images),
)
