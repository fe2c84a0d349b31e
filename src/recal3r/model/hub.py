"""Where weights come from: the known ones, a URL, or a model hub; and the folder that keeps them."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote, unquote, urlsplit

from recal3r.errors import WeightsError
from recal3r.model.download import Progress, check_sha256, download, origin_of, sha256_digits

_HUB = "https://huggingface.co"
_HUB_SPEC = re.compile(r"hf:(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+)/(?P<file>[^@?#]+)(@(?P<revision>[^@?#]+))?")
_SUFFIXES = (".pth", ".pt", ".safetensors")


@dataclasses.dataclass(frozen=True)
class KnownWeights:
    """Weights that have a name here. What is None is not known, and nothing is assumed in its place."""

    name: str
    url: str | None
    filename: str
    bytes: int | None
    sha256: str | None
    license: str
    note: str


_BY_HAND = "Download it by hand from the CUT3R project page, https://github.com/CUT3R/CUT3R, into the cache folder."
_LICENSE = "CC BY-NC-SA 4.0 (non-commercial)"
_BUNDLED = Path(__file__).parents[1] / "weights"
_TINY_BYTES, _TINY_SHA256 = 15_488_518, "6bfaa97c03e6ac01926f168635ff40dfdb0fd0623c38a849b6deddf855d5ec1a"
_TINY_NOTE = "tiny comes with this package: trained on its procedural rooms, for demonstrations and studies only."

KNOWN: Mapping[str, KnownWeights] = MappingProxyType(
    {
        known.name: known
        for known in (
            KnownWeights("tiny", None, "tiny.safetensors", _TINY_BYTES, _TINY_SHA256, "Apache-2.0", _TINY_NOTE),
            KnownWeights("cut3r-512", None, "cut3r_512_dpt_4_64.pth", None, None, _LICENSE, _BY_HAND),
            KnownWeights("cut3r-224", None, "cut3r_224_linear_4.pth", None, None, _LICENSE, _BY_HAND),
        )
    }
)


def cache_folder() -> Path:
    """`RECAL3R_CACHE`, or `recal3r` in the user's cache folder."""
    chosen = os.environ.get("RECAL3R_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recal3r"


def cached(known: KnownWeights) -> Path | None:
    """The known weights: as they come with the package, or in the cache, as published or converted to safetensors."""
    published = cache_folder() / known.filename
    places = (_BUNDLED / known.filename, published, published.with_suffix(".safetensors"))
    return next((path for path in places if path.is_file()), None)


def resolve(name_or_path: str | Path) -> Path:
    """The weights file behind a path, or behind a known name if the cache has it. Uses no network."""
    path = Path(name_or_path).expanduser()
    if path.exists():
        return path
    known = KNOWN.get(str(name_or_path))
    if known is None:
        raise WeightsError(
            f"{str(name_or_path)!r} is neither a file that exists nor known weights; "
            f"a path, or one of {', '.join(KNOWN)}, would work."
        )
    found = cached(known)
    if found is None:
        raise _not_here(known, cache_folder() / known.filename)
    return found


def fetch(
    source: str,
    *,
    output: Path | None = None,
    sha256: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
) -> Path:
    """Brings weights to this machine and returns their path.

    `source` is a known name, an http(s) or file URL, or `hf:owner/repo/file[@revision]`. Without `output` the file
    goes into the cache, where a file fetched from the same place before is returned as it is. A download that broke
    off continues where it stopped.
    """
    wanted = KNOWN.get(source) or _at_address(source)
    expected = sha256_digits(sha256) if sha256 else wanted.sha256
    if output and output.is_dir():
        output /= wanted.filename
    target = output or (cached(wanted) if source in KNOWN else None) or cache_folder() / wanted.filename
    if target.is_file():
        if expected:
            check_sha256(target, expected, target)
        elif source not in KNOWN and origin_of(target) != wanted.url:
            raise WeightsError(f"{target} exists and was not fetched from {source}; giving another output would work.")
        return target
    if wanted.url is None:
        raise _not_here(wanted, target)
    download(wanted.url, target, sha256=expected, size=wanted.bytes, progress=progress, timeout=timeout)
    return target


def _not_here(known: KnownWeights, target: Path) -> WeightsError:
    if known.url:
        return WeightsError(f"{known.name} is not at {target}; `recal3r weights fetch {known.name}` would bring it.")
    return WeightsError(
        f"{known.name} is not at {target} and has no address to be fetched from; download {known.filename} by hand "
        "from the CUT3R project page (https://github.com/CUT3R/CUT3R) and put it there."
    )


def _at_address(source: str) -> KnownWeights:
    """Weights that nothing is known of but their address."""
    url = _url(source)
    filename = unquote(urlsplit(url).path).rpartition("/")[2]
    if "\\" in filename or "\0" in filename or not filename.endswith(_SUFFIXES):
        raise WeightsError(f"{source!r} names no weights file; one that ends in {', '.join(_SUFFIXES)} would work.")
    return KnownWeights(source, url, filename, None, None, "as its publisher says", "")


def _url(source: str) -> str:
    if source.startswith("hf:"):
        return _hub_url(source)
    if re.match(r"(https?|file)://[^\s\[\]]+$", source):
        return source
    raise WeightsError(
        f"{source!r} is no source of weights; one of {', '.join(KNOWN)}, an http(s) or file URL, "
        "or hf:owner/repo/file[@revision] would work."
    )


def _hub_url(spec: str) -> str:
    match = _HUB_SPEC.fullmatch(spec)
    if match is None or ".." in match["file"].split("/"):
        raise WeightsError(f"{spec!r} names no file on the hub; hf:owner/repo/file[@revision] would work.")
    base = os.environ.get("RECAL3R_HUB", _HUB).rstrip("/")
    revision = quote(match["revision"] or "main", safe="")
    return f"{base}/{match['owner']}/{match['repo']}/resolve/{revision}/{quote(match['file'])}"
