"""Fetching weights, against a real server on this machine."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from recal3r.errors import WeightsError
from recal3r.model import hub
from recal3r.model.checkpoint import read_checkpoint
from recal3r.model.hub import KNOWN, cache_folder, fetch, resolve

CONTENT = bytes(range(256)) * 9000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclasses.dataclass
class Site:
    """What the server holds, how it behaves, and what it was asked."""

    address: str = ""
    content: bytes = CONTENT
    tag: str | None = '"first"'
    cut_at: int | None = None
    """Ends the connection after this many bytes of the file."""
    ranges: bool = True
    obeys_if_range: bool = True
    says_length: bool = True
    requests: list[tuple[str, str | None]] = dataclasses.field(default_factory=list)

    def url(self, name: str = "weights.pth") -> str:
        return f"{self.address}/{name}"


def handler_for(site: Site) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            site.requests.append((self.path, wanted))
            if "missing" in self.path:
                self.send_error(404)
                return
            start = self.start_of(wanted)
            if start >= len(site.content):
                self.send_error(416)
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
            if site.says_length:
                self.send_header("Content-Length", str(len(site.content) - start))
            if site.tag:
                self.send_header("ETag", site.tag)
            self.end_headers()
            self.wfile.write(site.content[start : site.cut_at])

        def start_of(self, wanted: str | None) -> int:
            same = self.headers.get("If-Range") == site.tag or not site.obeys_if_range
            match = re.fullmatch(r"bytes=(\d+)-", wanted or "")
            return int(match[1]) if match and site.ranges and same else 0

        def log_message(self, *_: object) -> None: ...

    return Handler


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler_for(site)) as server:
        site.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield site
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RECAL3R_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def breaks_off(site: Site, at: int) -> None:
    """Leaves a part of the file in the cache."""
    site.cut_at = at
    with pytest.raises(WeightsError, match="fetching again continues"):
        fetch(site.url())
    site.cut_at = None


# -- fetching ----------------------------------------------------------------------------------------------------------


def test_fetches_once_and_then_uses_the_cache(site: Site, cache: Path) -> None:
    seen: list[tuple[int, int | None]] = []
    path = fetch(site.url(), sha256=SHA256.upper(), progress=lambda done, total: seen.append((done, total)))
    assert path == cache / "weights.pth"
    assert path.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert fetch(site.url()) == path
    assert len(site.requests) == 1
    assert not list(cache.glob("*.part*"))


def test_an_output_may_be_a_file_or_a_folder(site: Site, tmp_path: Path) -> None:
    assert fetch(site.url(), output=tmp_path / "mine.pth") == tmp_path / "mine.pth"
    assert fetch(site.url(), output=tmp_path) == tmp_path / "weights.pth"
    assert (tmp_path / "weights.pth").read_bytes() == (tmp_path / "mine.pth").read_bytes() == CONTENT


def test_a_file_url_is_copied(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "near.safetensors").write_bytes(CONTENT)
    assert fetch((tmp_path / "near.safetensors").as_uri(), sha256=SHA256).read_bytes() == CONTENT
    assert (cache / "near.safetensors").is_file()


def test_a_download_that_broke_off_continues(site: Site, cache: Path) -> None:
    breaks_off(site, 1_500_000)
    assert not (cache / "weights.pth").exists()
    assert (cache / "weights.pth.part").stat().st_size == 1_500_000
    assert fetch(site.url(), sha256=SHA256).read_bytes() == CONTENT
    assert [wanted for _, wanted in site.requests] == [None, "bytes=1500000-"]


def test_a_file_that_changed_on_the_server_starts_anew(site: Site) -> None:
    breaks_off(site, 1000)
    site.content, site.tag = CONTENT[::-1], '"second"'
    assert fetch(site.url()).read_bytes() == CONTENT[::-1]
    assert [wanted for _, wanted in site.requests] == [None, "bytes=1000-"]


def test_a_server_that_continues_another_version_is_not_believed(site: Site) -> None:
    breaks_off(site, 1000)
    site.content, site.tag, site.obeys_if_range = CONTENT[::-1], '"second"', False
    assert fetch(site.url()).read_bytes() == CONTENT[::-1]
    assert [wanted for _, wanted in site.requests] == [None, "bytes=1000-", None]


def test_a_file_that_became_shorter_starts_anew(site: Site) -> None:
    breaks_off(site, 1000)
    site.content, site.obeys_if_range = b"short", False  # answers 416
    assert fetch(site.url()).read_bytes() == b"short"


def test_a_server_without_ranges_starts_anew(site: Site) -> None:
    breaks_off(site, 1000)
    site.ranges = False
    assert fetch(site.url(), sha256=SHA256).read_bytes() == CONTENT


@pytest.mark.parametrize("tag", [None, 'W/"weak"'])
def test_versions_that_cannot_be_told_apart_are_not_continued(site: Site, tag: str | None) -> None:
    site.tag = tag
    breaks_off(site, 1000)
    assert fetch(site.url(), sha256=SHA256).read_bytes() == CONTENT
    assert [wanted for _, wanted in site.requests] == [None, None]


def test_a_part_of_another_address_is_not_continued(site: Site, cache: Path) -> None:
    breaks_off(site, 1000)
    (cache / "weights.pth.part").write_bytes(b"x" * 1000)
    assert fetch(site.url("elsewhere/weights.pth"), sha256=SHA256).read_bytes() == CONTENT


def test_a_part_that_is_complete_is_not_asked_for_again(site: Site, cache: Path) -> None:
    breaks_off(site, 1000)
    (cache / "weights.pth.part").write_bytes(CONTENT)
    assert fetch(site.url(), sha256=SHA256).read_bytes() == CONTENT
    assert len(site.requests) == 1


@pytest.mark.parametrize("note", ["", "[]", "{}", '{"url": 3}', "\udcff"])
def test_a_damaged_note_starts_anew(site: Site, cache: Path, note: str) -> None:
    breaks_off(site, 1000)
    (cache / "weights.pth.part.json").write_bytes(note.encode(errors="surrogateescape"))
    assert fetch(site.url(), sha256=SHA256).read_bytes() == CONTENT


def test_a_server_that_does_not_say_the_length(site: Site) -> None:
    site.says_length = False
    assert fetch(site.url(), sha256=SHA256).read_bytes() == CONTENT


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def test_a_wrong_checksum_leaves_nothing(site: Site, cache: Path) -> None:
    with pytest.raises(WeightsError, match=f"{SHA256}, not {'0' * 64}"):
        fetch(site.url(), sha256="0" * 64)
    assert list(cache.iterdir()) == []


def test_a_file_in_the_cache_is_checked_too(site: Site) -> None:
    path = fetch(site.url())
    path.write_bytes(b"changed")
    with pytest.raises(WeightsError, match="SHA-256"):
        fetch(site.url(), sha256=SHA256)
    assert path.read_bytes() == b"changed"


def test_a_checksum_that_is_none(site: Site) -> None:
    with pytest.raises(WeightsError, match="64 hexadecimal digits"):
        fetch(site.url(), sha256="abc")
    assert site.requests == []


def test_files_of_one_name_from_two_places_are_not_mistaken(site: Site, cache: Path) -> None:
    fetch(site.url("one/weights.pth"))
    with pytest.raises(WeightsError, match="was not fetched from"):
        fetch(site.url("two/weights.pth"))
    assert fetch(site.url("two/weights.pth"), sha256=SHA256) == cache / "weights.pth"


def test_a_missing_file_is_named(site: Site, cache: Path) -> None:
    with pytest.raises(WeightsError, match=r"404.*by hand at") as error:
        fetch(site.url("missing.pth"))
    assert str(cache / "missing.pth") in str(error.value)


def test_without_a_network_it_says_where_to_put_the_file(cache: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(WeightsError, match="without a network, put the file by hand at") as error:
        fetch(f"http://127.0.0.1:{port}/weights.pth", timeout=2)
    assert str(error.value).endswith(f"{cache / 'weights.pth'}.")
    assert "\n" not in str(error.value)


def test_a_server_that_answers_nonsense() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"hello\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(WeightsError, match="cannot be reached or broke off"):
            fetch(f"http://127.0.0.1:{server.getsockname()[1]}/weights.pth", timeout=5)
        thread.join()


def test_a_server_that_never_answers() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(WeightsError, match="cannot be reached or broke off"),
    ):
        fetch(f"http://127.0.0.1:{server.getsockname()[1]}/weights.pth", timeout=0.2)


def test_a_folder_that_cannot_be_made(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    with pytest.raises(WeightsError, match="cannot be written"):
        fetch(site.url(), output=tmp_path / "file" / "weights.pth")


@pytest.mark.parametrize(
    "source",
    [
        "cut3r-1024",
        "ftp://host/x.pth",
        "http://host/x.onnx",
        "http://host/",
        "http://[bad/x.pth",
        "hf:owner",
        "hf:a/b/",
    ],
)
def test_a_source_that_is_none(source: str) -> None:
    with pytest.raises(WeightsError, match="would work"):
        fetch(source)


# -- the hub and the known weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("hf:owner/repo/weights.safetensors", "/owner/repo/resolve/main/weights.safetensors"),
        ("hf:owner/my.repo-1/sub/weights.pth@v1", "/owner/my.repo-1/resolve/v1/sub/weights.pth"),
        ("hf:owner/repo/weights.pth@refs/pr/1", "/owner/repo/resolve/refs%2Fpr%2F1/weights.pth"),
    ],
)
def test_hub_addresses(site: Site, cache: Path, monkeypatch: pytest.MonkeyPatch, spec: str, path: str) -> None:
    monkeypatch.setenv("RECAL3R_HUB", f"{site.address}/")
    assert fetch(spec, sha256=SHA256).parent == cache
    assert [asked for asked, _ in site.requests] == [path]


def test_a_hub_file_does_not_climb_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECAL3R_HUB", site.address)
    with pytest.raises(WeightsError, match="names no file on the hub"):
        fetch("hf:owner/repo/../../x.pth")
    assert site.requests == []


OFFICIAL = [name for name in KNOWN if name != "tiny"]


@pytest.mark.parametrize("name", OFFICIAL)
def test_known_weights_are_put_by_hand(cache: Path, name: str) -> None:
    known = KNOWN[name]
    for look in (fetch, resolve):
        with pytest.raises(WeightsError, match="by hand from the CUT3R project page") as error:
            look(name)
        assert str(cache / known.filename) in str(error.value)
    cache.mkdir()
    (cache / known.filename).write_bytes(b"x")
    assert resolve(name) == fetch(name) == cache / known.filename


def test_tiny_comes_with_the_package() -> None:
    path = resolve("tiny")
    assert path == fetch("tiny")
    assert path.stat().st_size < 16_000_000
    assert read_checkpoint(path).config.image_size == 128


def test_converted_weights_serve_as_well(cache: Path) -> None:
    cache.mkdir()
    converted = cache / "cut3r_512_dpt_4_64.safetensors"
    converted.write_bytes(b"x")
    assert resolve("cut3r-512") == converted


def test_known_weights_with_an_address_are_checked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = dataclasses.replace(
        KNOWN["cut3r-512"], name="other", url=site.url("o.pth"), filename="o.pth", bytes=len(CONTENT), sha256="0" * 64
    )
    monkeypatch.setattr(hub, "KNOWN", {"other": entry})
    with pytest.raises(WeightsError, match="recal3r weights fetch other"):
        resolve("other")
    with pytest.raises(WeightsError, match="SHA-256"):
        fetch("other")
    monkeypatch.setattr(hub, "KNOWN", {"other": dataclasses.replace(entry, sha256=SHA256)})
    assert fetch("other").read_bytes() == CONTENT


def test_nothing_is_made_up_about_the_official_weights() -> None:
    for known in (KNOWN[name] for name in OFFICIAL):
        assert (known.url, known.bytes, known.sha256) == (None, None, None)
        assert "non-commercial" in known.license


def test_resolve_takes_a_path_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.pth").write_bytes(b"x")
    assert resolve(tmp_path / "x.pth") == tmp_path / "x.pth"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/x.pth") == tmp_path / "x.pth"
    with pytest.raises(WeightsError, match="cut3r-512, cut3r-224"):
        resolve("nowhere.pth")


def test_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("RECAL3R_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "recal3r"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "recal3r"


def test_the_note_beside_a_fetched_file_says_where_it_is_from(site: Site) -> None:
    path = fetch(site.url())
    assert json.loads(path.with_name("weights.pth.origin.json").read_text())["url"] == site.url()
