"""Downloads one large file: continues after a break, checks what arrived, and shows it only once it is complete.

While it is under way the bytes are in `<file>.part`, and `<file>.part.json` says where they came from. The finished
file keeps such a note beside it as `<file>.origin.json`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import re
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import cast
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen
from urllib.response import addinfourl

from recal3r.errors import WeightsError
from recal3r.jsontext import parsed

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are here and the bytes there will be, None where the server does not say."""

_Response = http.client.HTTPResponse | addinfourl  # the latter for file URLs
_CHUNK = 1 << 20
_PARTIAL_CONTENT = 206
_RANGE_REFUSED = 416
_CONTENT_RANGE = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<total>\d+|\*)")


@dataclasses.dataclass(frozen=True)
class _Origin:
    """Which bytes a part file holds: continuing is safe only while the server still has the same ones."""

    url: str
    validator: str | None
    """What tells this version of the file from another: an ETag, or a time."""
    total: int | None


def download(
    url: str,
    target: Path,
    *,
    sha256: str | None = None,
    size: int | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> None:
    """Downloads `url` to `target`, which appears only when it is complete and its checksum is right."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        origin = _receive(url, part, target, progress, timeout)
        _check_size(url, part, origin.total if size is None else size)
        if sha256:
            _check_part_sha256(part, sha256, url)
        _note_path(part).unlink(missing_ok=True)
        _write_note(_origin_path(target), origin)
        part.replace(target)
    except OSError as error:
        raise WeightsError(
            f"{target} cannot be written ({error.strerror or error}); a folder with room for it would work."
        ) from error


def origin_of(path: Path) -> str | None:
    """The URL that the file at `path` was downloaded from, if it was."""
    note = _read_note(_origin_path(path))
    return note.url if note else None


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_digits(text: str) -> str:
    """A checksum as a person gave it, in the form that `sha256_of` returns."""
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise WeightsError(f"{text[:80]!r} is no SHA-256 checksum; 64 hexadecimal digits would work.")
    return text.lower()


def check_sha256(path: Path, expected: str, source: str | Path) -> None:
    actual = sha256_of(path)
    if actual != expected:
        raise WeightsError(
            f"{source} has the SHA-256 checksum {actual}, not {expected}; "
            "fetching again, or the checksum of this version, would work."
        )


def _check_size(url: str, part: Path, expected: int | None) -> None:
    actual = part.stat().st_size
    if expected is None or actual == expected:
        return
    if actual > expected:
        _discard(part)
        raise WeightsError(f"{url} sent {actual} bytes, but the file has {expected}; fetching again may work.")
    raise WeightsError(
        f"{url} sent {actual} of {expected} bytes before the connection ended; fetching again continues from there."
    )


def _check_part_sha256(part: Path, expected: str, url: str) -> None:
    try:
        check_sha256(part, expected, url)
    except WeightsError:
        _discard(part)  # continuing from wrong bytes would never end well
        raise


# -- one transfer ------------------------------------------------------------------------------------------------------


def _receive(url: str, part: Path, target: Path, progress: Progress | None, timeout: float) -> _Origin:
    """Fills the part file as far as the connection carries."""
    known = _resume_point(url, part)
    start = part.stat().st_size if known else 0
    if known and start == known.total:
        return known
    try:
        with _open(url, start, known, timeout) as response:
            origin = _agreed(url, start, known, response)
            if origin is not None:
                if response.status != _PARTIAL_CONTENT:
                    _discard(part)
                _write_note(_note_path(part), origin)
                _append(response, part, origin.total, progress)
                return origin
    except HTTPError as error:
        error.close()
        if error.code != _RANGE_REFUSED or not start:
            raise WeightsError(
                f"{url} was refused by the server (HTTP {error.code} {error.reason}); "
                f"check the address, or put the file by hand at {target}."
            ) from error
    except (URLError, _BrokenConnectionError, http.client.HTTPException, UnicodeError) as error:
        raise WeightsError(
            f"{url} cannot be reached or broke off ({getattr(error, 'reason', None) or error}); "
            f"fetch again to continue, or, without a network, put the file by hand at {target}."
        ) from error
    # The server has other bytes by now, or counts them differently: what is here cannot be continued.
    _discard(part)
    if not start:
        raise WeightsError(f"{url} sent a piece of a file unasked; another address would work.")
    return _receive(url, part, target, progress, timeout)


class _BrokenConnectionError(Exception):
    """The connection failed, as opposed to the disk: otherwise both are an OSError."""


def _open(url: str, start: int, known: _Origin | None, timeout: float) -> _Response:
    headers = {"User-Agent": "recal3r"}
    if start and known and known.validator:
        headers |= {"Range": f"bytes={start}-", "If-Range": known.validator}
    try:
        return cast("_Response", urlopen(Request(url, headers=headers), timeout=timeout))  # noqa: S310  # the caller checks the scheme
    except (TimeoutError, ConnectionError) as error:  # urllib wraps most of them, not those after the request is sent
        raise _BrokenConnectionError(str(error)) from error


def _agreed(url: str, start: int, known: _Origin | None, response: _Response) -> _Origin | None:
    """What is being sent: the whole file, or the rest of what is here; None if neither."""
    validator = _validator(response.headers)
    if response.status != _PARTIAL_CONTENT:
        length = response.headers.get("Content-Length", "")
        return _Origin(url, validator, int(length) if length.isdecimal() else None)
    match = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    if known is None or match is None or int(match["start"]) != start or validator not in {None, known.validator}:
        return None
    return _Origin(url, known.validator, known.total if match["total"] == "*" else int(match["total"]))


def _append(response: _Response, part: Path, total: int | None, progress: Progress | None) -> None:
    with part.open("ab") as file:
        while chunk := _read(response):
            file.write(chunk)
            if progress:
                progress(file.tell(), total)


def _read(response: _Response) -> bytes:
    try:
        return response.read(_CHUNK)
    except OSError as error:
        raise _BrokenConnectionError(str(error)) from error


# -- continuing --------------------------------------------------------------------------------------------------------


def _resume_point(url: str, part: Path) -> _Origin | None:
    """The note on the part file, if it allows to continue: same address, and a version that can be told from others."""
    known = _read_note(_note_path(part))
    return known if known and part.is_file() and known.url == url and known.validator else None


def _validator(headers: Message) -> str | None:
    """What tells this version of a file from another. A weak ETag does not promise equal bytes."""
    tag = headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")


def _note_path(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _origin_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.origin.json")


def _write_note(path: Path, origin: _Origin) -> None:
    path.write_text(json.dumps(dataclasses.asdict(origin)), encoding="utf-8")


def _read_note(path: Path) -> _Origin | None:
    """The note at `path`; None if it is missing or damaged."""
    if not path.is_file():
        return None
    try:
        values: object = parsed(path.read_bytes())
    except ValueError:
        return None
    match values:
        case {"url": str(url), "validator": str() | None as validator, "total": int() | None as total}:
            return _Origin(url, validator, total)
        case _:
            return None


def _discard(part: Path) -> None:
    part.unlink(missing_ok=True)
    _note_path(part).unlink(missing_ok=True)
