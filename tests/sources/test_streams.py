"""Sources with a clock or a thread of their own: prefetch, live streams, pipes, watched folders."""

from __future__ import annotations

import functools
import io
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from footage import cut_off, number_of, shade, write_pictures, write_video
from PIL import Image

from recal3r.sources.base import Reader, Source, SourceError
from recal3r.sources.images import Images
from recal3r.sources.live import Live
from recal3r.sources.prefetch import Prefetch
from recal3r.sources.raw import RawPipe
from recal3r.sources.watch import WatchedFolder
from recal3r.types import Frame


def numbers(source: Source) -> list[int]:
    return [number_of(frame.image) for frame in source]


def wait_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    left = {thread.name for thread in set(threading.enumerate()) - before if thread.name.startswith("recal3r")}
    assert not left


class Counted(Reader):
    """Frames that say how many of them have been asked for."""

    description, frames = "counted frames", 20

    def __init__(self, fails_at: int | None = None) -> None:
        super().__init__()
        self.fails_at = fails_at
        self.given = 0
        self.closed = 0

    def _read(self) -> Generator[Frame]:
        try:
            for number in range(self.frames):
                if number == self.fails_at:
                    raise SourceError("broken on purpose")
                self.given += 1
                yield Frame(shade(number), float(number))
        finally:
            self.closed += 1


# -- prefetch ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queue_size", [1, 3, 50])
def test_prefetch_keeps_order(queue_size: int) -> None:
    with Prefetch(Counted(), queue_size) as source:
        assert [frame.timestamp for frame in source] == list(range(20))
        assert source.frames == 20
        assert source.description == f"counted frames, read {queue_size} ahead"
        assert len(list(source)) == 20, "a second reading begins again"


def test_prefetch_reads_no_further_than_its_queue() -> None:
    inner = Counted()
    with Prefetch(inner, 3) as source:
        reading = iter(source)
        next(reading)
        wait_for(lambda: inner.given == 4)
        time.sleep(0.05)
        assert inner.given == 4, "one handed out, three waiting"
    assert inner.closed == 1


def test_prefetch_ends_its_thread_when_the_consumer_stops() -> None:
    inner = Counted()
    for frame in Prefetch(inner, 2):
        if frame.timestamp == 5:
            break
    del frame
    wait_for(lambda: inner.closed == 1)
    assert inner.given <= 9


def test_prefetch_raises_where_the_frame_would_have_been() -> None:
    got: list[float | None] = []
    with pytest.raises(SourceError, match="broken on purpose"):
        got.extend(frame.timestamp for frame in Prefetch(Counted(fails_at=7), 3))
    assert got == list(range(7))
    with pytest.raises(SourceError, match="queue_size=0"):
        Prefetch(Counted(), 0)


def test_prefetch_of_pictures(tmp_path: Path) -> None:
    write_pictures(tmp_path, range(12))
    assert numbers(Prefetch(Images(tmp_path))) == list(range(12))


# -- live ----------------------------------------------------------------------------------------------------------


def test_live_drops_what_comes_too_fast(tmp_path: Path) -> None:
    path = write_video(tmp_path / "a.mp4")
    live = Live(str(path))
    got: list[int] = []
    for frame in live:
        got.append(number_of(frame.image))
        time.sleep(0.02)
    assert got == sorted(set(got))
    assert got[-1] == 39, "the newest is never dropped"
    assert live.counters.received == 40
    assert live.counters.dropped == 40 - len(got) > 0


def test_live_keeps_up_with_a_camera() -> None:
    """A generated camera of 200 frames/s, in real time."""
    live = Live("testsrc=rate=200:size=64x48:duration=0.25,realtime", container_format="lavfi")
    times = [frame.timestamp for frame in live]
    assert times == sorted(times)
    assert live.counters.received == 50
    assert len(times) + live.counters.dropped == 50
    assert len(times) > 5


def test_live_stops_in_the_middle_of_an_endless_stream() -> None:
    with Live("testsrc=rate=100:size=64x48,realtime", container_format="lavfi") as live:
        for _ in zip(range(3), live, strict=False):
            pass
    assert live.counters.received >= 3


def test_live_over_http(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", movflags="faststart")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            live = Live(f"http://127.0.0.1:{server.server_port}/a.mp4")
            assert numbers(live)[-1] == 39
            with pytest.raises(SourceError, match=r"missing\.mp4 cannot be opened .*running stream"):
                list(Live(f"http://127.0.0.1:{server.server_port}/missing.mp4"))
        finally:
            server.shutdown()
            thread.join()


def test_live_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="nowhere cannot be opened"):
        list(Live(str(tmp_path / "nowhere")))
    with pytest.raises(SourceError, match="timeout_seconds=0"):
        Live("rtsp://host", timeout_seconds=0)


def test_live_goes_on_after_lost_packets(tmp_path: Path) -> None:
    live = Live(str(cut_off(write_video(tmp_path / "a.mp4", 90, movflags="faststart"), 0.6)))
    assert numbers(live)
    assert live.counters.received > 10
    assert live.counters.broken == 1


def test_live_says_when_it_broke_off(tmp_path: Path) -> None:
    """A server that promises more than it sends."""
    content = cut_off(write_video(tmp_path / "a.mp4", 90, movflags="faststart"), 0.6).read_bytes()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 9999999\r\n\r\n")
                connection.sendall(content)
                silence.wait(5)

        silence = threading.Event()
        thread = threading.Thread(target=serve)
        thread.start()
        live = Live(f"http://127.0.0.1:{server.getsockname()[1]}/a.mp4", timeout_seconds=0.5)
        with pytest.raises(SourceError, match=r"broke off after \d+ frames \(.*\); see whether it still sends"):
            list(live)
        silence.set()
        thread.join()
    assert live.counters.received > 10


# -- raw -----------------------------------------------------------------------------------------------------------


class Dribble(io.BytesIO):
    """A pipe that brings a few bytes at a time."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size or 0, 1000))


@pytest.mark.parametrize("pipe", [io.BytesIO, Dribble])
def test_raw_frames(pipe: type[io.BytesIO]) -> None:
    content = b"".join(shade(number).tobytes() for number in range(5))
    frames = list(RawPipe(64, 48, rate=10, pipe=pipe(content)))
    np.testing.assert_array_equal([frame.image for frame in frames], [shade(number) for number in range(5)])
    assert [frame.timestamp for frame in frames] == [0, 0.1, 0.2, 0.3, 0.4]
    assert [frame.timestamp for frame in RawPipe(64, 48, pipe=pipe(content))] == [None] * 5


def test_raw_pipe_that_breaks_off() -> None:
    content = b"".join(shade(number).tobytes() for number in range(3))
    with pytest.raises(SourceError, match="ended 9206 bytes into a frame of 9216, after 2 whole frames"):
        list(RawPipe(64, 48, pipe=io.BytesIO(content[:-10])))
    with pytest.raises(SourceError, match="before its first frame of 9216 bytes"):
        list(RawPipe(64, 48, pipe=io.BytesIO()))
    for width, height, rate in ((0, 4, None), (4, -1, None), (4, 4, 0.0), (4, 4, float("nan"))):
        with pytest.raises(SourceError, match="cannot be"):
            RawPipe(width, height, rate)


def test_raw_standard_input() -> None:
    program = (
        "from recal3r import open_source\n"
        "for frame in open_source('-', width=64, height=48): print(frame.image.shape, int(frame.image[-1, -1, 0]))"
    )
    content = shade(1).tobytes() + shade(9).tobytes()
    printed = subprocess.run([sys.executable, "-c", program], input=content, check=True, capture_output=True).stdout
    assert printed.decode().splitlines() == [f"(48, 64, 3) {shade(k)[-1, -1, 0]}" for k in (1, 9)]


# -- watch ---------------------------------------------------------------------------------------------------------


def test_watched_folder_until_its_stop_file(tmp_path: Path) -> None:
    write_pictures(tmp_path, [2, 10])
    write_pictures(tmp_path.with_name("aside"), [11, 12])
    reading = iter(WatchedFolder(tmp_path, poll_seconds=0.02))
    assert [number_of(next(reading).image) for _ in range(2)] == [2, 10]

    slow = tmp_path / "img11.png"
    content = (tmp_path.with_name("aside") / "img11.png").read_bytes()

    def write_slowly() -> None:
        with slow.open("wb") as file:
            for part in (content[:400], content[400:900], content[900:]):
                file.write(part)
                file.flush()
                time.sleep(0.15)  # longer than two looks: half a picture seems to be at rest
        os.replace(tmp_path.with_name("aside") / "img12.png", tmp_path / "img12.png")  # noqa: PTH105
        (tmp_path / "STOP").touch()

    writer = threading.Thread(target=write_slowly)
    writer.start()
    rest = [number_of(frame.image) for frame in reading]
    writer.join()
    assert rest == [11, 12]


def test_watched_folder_until_nothing_comes(tmp_path: Path) -> None:
    write_pictures(tmp_path, [1, 2])
    (tmp_path / "half.png").write_bytes((tmp_path / "img1.png").read_bytes()[:500])
    options = {"poll_seconds": 0.01, "idle_seconds": 0.1}
    given: list[int] = []
    with pytest.raises(SourceError, match=r"half\.png cannot be read"):
        given.extend(number_of(frame.image) for frame in WatchedFolder(tmp_path, **options))
    assert given == [1, 2], "what is complete comes first"
    skipping = WatchedFolder(tmp_path, skip_broken=True, **options)
    assert numbers(skipping) == [1, 2]
    assert skipping.skipped.count == 1


def test_watched_folder_can_be_emptied_meanwhile(tmp_path: Path) -> None:
    """A name that was gone when the folder was looked at is a new picture: nothing is remembered of what is gone."""
    reading = iter(Prefetch(WatchedFolder(tmp_path, poll_seconds=0.01, idle_seconds=0.5)))  # looks all the time
    for number in (5, 6, 7):
        Image.fromarray(shade(number)).save(tmp_path / ".next.png")
        (tmp_path / ".next.png").rename(tmp_path / "latest.png")
        assert number_of(next(reading).image) == number
        (tmp_path / "latest.png").unlink()
        time.sleep(0.1)
    assert next(reading, None) is None


def test_watched_folder_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no folder that could be watched"):
        WatchedFolder(tmp_path / "missing")
    with pytest.raises(SourceError, match="no time for two looks"):
        WatchedFolder(tmp_path, poll_seconds=1, idle_seconds=0.5)
