"""Who is let in: judged by the head of the request alone, and shown on real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest
import viser
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from recal3r.errors import OutputError
from recal3r.viewer.gate import Gate, Policy, Request, is_loopback, parse_head
from recal3r.viewer.server import WebServer

TOKEN = "a-token-of-the-tests"
HERE = "127.0.0.1:8080"


def request(target: str = "/", **headers: str) -> Request:
    return Request(target, {"host": HERE, **headers})


def websocket(origin: str | None = f"http://{HERE}", **headers: str) -> Request:
    return request(upgrade="websocket", **({} if origin is None else {"origin": origin}), **headers)


def status(answer: bytes | None) -> int | None:
    return None if answer is None else int(answer.split()[1])


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "127.0.0.1", "LOCALHOST:1"])
def test_on_this_machine_everybody_may_look(host: str) -> None:
    assert Policy(None).answer(request(host=host), 0) is None
    assert Policy(None).answer(websocket(f"http://{host}", host=host), 0) is None


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8080", "", "["])
def test_names_that_lead_here_from_elsewhere_are_turned_away(host: str) -> None:
    assert status(Policy(None).answer(request(host=host), 0)) == 403


@pytest.mark.parametrize(
    "origin", [None, "http://evil.example", "http://127.0.0.1:9090", "null", f"http://{HERE}.evil"]
)
@pytest.mark.parametrize("token", [None, TOKEN])
def test_pages_from_elsewhere_may_not_open_a_websocket(origin: str | None, token: str | None) -> None:
    answer = Policy(token).answer(websocket(origin, cookie=f"recal3r-viewer={TOKEN}"), 0)
    assert status(answer) == 403


def test_the_token_becomes_a_cookie() -> None:
    policy = Policy(TOKEN)
    answer = policy.answer(request(f"/?token={TOKEN}", host="192.0.2.7:8080"), 0)
    assert status(answer) == 303
    head = (answer or b"").decode()
    assert "Location: /\r\n" in head
    assert "HttpOnly; SameSite=Strict" in head
    cookie = head.split("Set-Cookie: ")[1].split(";")[0]
    assert policy.answer(request(cookie=f"other=1; {cookie}"), 0) is None
    assert policy.answer(websocket(cookie=cookie), 0) is None


@pytest.mark.parametrize(
    "shown",
    [
        request(),
        request("/?token="),
        request(f"/?token={TOKEN[:-1]}"),
        request(f"/?token={TOKEN}x"),
        request("/?token=ü" + TOKEN),
        request(cookie=f"recal3r-viewer={TOKEN[:-1]}"),
        request(cookie=f"another={TOKEN}"),
        request(cookie=";;=,\x00"),
        websocket(),
        Request(f"/?token={TOKEN}", {"host": HERE, "upgrade": "websocket", "origin": f"http://{HERE}"}),
    ],
)
def test_without_the_token_nobody_comes_in(shown: Request) -> None:
    answer = Policy(TOKEN).answer(shown, 0)
    assert status(answer) == 403
    assert TOKEN.encode() not in (answer or b"")


def test_only_so_many_are_let_in() -> None:
    assert Policy(None, clients=2).answer(request(), 1) is None
    assert status(Policy(None, clients=2).answer(request(), 2)) == 503
    assert status(Policy(None, clients=2).answer(websocket(), 2)) == 503


def test_tokens_and_numbers_that_protect_nobody() -> None:
    with pytest.raises(OutputError, match="too easy to guess"):
        Policy("short")
    with pytest.raises(OutputError, match="0 clients"):
        Policy(None, clients=0)


def test_an_open_address_needs_a_token() -> None:
    with pytest.raises(OutputError, match="needs a token"):
        Gate("0.0.0.0", 0, 1, Policy(None), "X-Secret: s")
    assert [is_loopback(host) for host in ("::1", "127.8.0.1", "localhost", "0.0.0.0", "::", "host", "")] == [
        *(True, True, True, False, False, False, False)
    ]


def test_heads() -> None:
    parsed = parse_head(b"GET /a?b=c HTTP/1.1\r\nHost: x:1\r\nUPGRADE:  WebSocket \r\n\r\n")
    assert parsed == Request("/a?b=c", {"host": "x:1", "upgrade": "WebSocket"})
    assert parsed.is_websocket
    for nonsense in (b"\r\n\r\n", b"GET /\r\n\r\n", b"GET / SPDY/3\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"):
        assert parse_head(nonsense) is None


# -- on real sockets -----------------------------------------------------------------------------------------------


class Echo:
    """An inner server that says back what it gets, after what it was shown first."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heads: list[bytes] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                inner, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(inner,), daemon=True).start()

    def _answer(self, inner: socket.socket) -> None:
        with closing(inner), suppress(ConnectionError):
            self.heads.append(inner.recv(65536))
            inner.sendall(b"hello")
            while piece := inner.recv(65536):
                inner.sendall(piece)


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.listener.close()


@contextmanager
def gate(echo: Echo, **policy: object) -> Iterator[Gate]:
    with closing(Gate("127.0.0.1", 0, echo.port, Policy(**{"token": None, **policy}), "X-Secret: s")) as gate:
        yield gate


@contextmanager
def opened(gate: Gate, *headers: str) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", gate.port), timeout=10) as client:
        head = ["GET / HTTP/1.1", f"Host: 127.0.0.1:{gate.port}", *headers]
        client.sendall("\r\n".join([*head, "", ""]).encode())
        yield client


def upgrade(gate: Gate) -> tuple[str, str]:
    return "Upgrade: websocket", f"Origin: http://127.0.0.1:{gate.port}"


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_bytes_pass_to_and_fro_and_the_inner_server_knows_the_gate(echo: Echo) -> None:
    with gate(echo) as door, opened(door, *upgrade(door)) as client:
        assert client.recv(5) == b"hello"
        client.sendall(b"ping")
        assert client.recv(4) == b"ping"
        assert b"\r\nX-Secret: s\r\n" in echo.heads[0]


def test_people_who_vanish_make_room(echo: Echo) -> None:
    with gate(echo, clients=1) as door:
        for _ in range(3):
            with opened(door, *upgrade(door)) as client:
                assert client.recv(5) == b"hello"
                with opened(door, *upgrade(door)) as other:
                    assert b"503" in other.recv(100)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # gone without a word
            until(lambda: door.watching == 0)


def test_one_who_does_not_read_slows_nobody_else(echo: Echo) -> None:
    with gate(echo) as door, opened(door, *upgrade(door)) as idle, opened(door, *upgrade(door)) as lively:
        idle.settimeout(0.5)
        with pytest.raises(TimeoutError):
            idle.sendall(bytes(100_000_000))
        assert lively.recv(5) == b"hello"
        lively.sendall(b"ping")
        assert lively.recv(4) == b"ping"


@pytest.mark.parametrize("nonsense", [b"\r\n\r\n", b"\x16\x03\x01 a TLS greeting \r\n\r\n"])
def test_nonsense_is_answered_and_put_away(echo: Echo, nonsense: bytes) -> None:
    with gate(echo) as door, socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        client.sendall(nonsense)
        assert b"400 Bad Request" in client.recv(1000)
        assert echo.heads == []


def test_a_head_without_an_end_is_cut_off(echo: Echo) -> None:
    with gate(echo) as door, socket.create_connection(("127.0.0.1", door.port), timeout=10) as client:
        client.sendall(b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10_000)
        assert _received(client) == b""
        assert echo.heads == []


def _received(client: socket.socket) -> bytes:
    """Until the other side ends, politely or not."""
    try:
        return client.recv(1000)
    except ConnectionError:
        return b""


def test_a_port_that_is_taken(echo: Echo) -> None:
    with pytest.raises(OutputError, match=f"cannot listen on 127.0.0.1:{echo.port} .*choose another port"):
        Gate("127.0.0.1", echo.port, 1, Policy(None), "X-Secret: s")


def test_the_server_behind_the_gate_lets_in_nobody_else() -> None:
    """A program on this machine that finds the inner port speaks the right protocol, and is put out all the same."""
    with closing(WebServer("127.0.0.1", 0, None, 2)) as server:
        inner = server.viser.get_port()
        protocol = [f"viser-v{viser.__version__}"]
        with connect(f"ws://127.0.0.1:{inner}", subprotocols=protocol) as stranger:
            with pytest.raises(ConnectionClosed):
                [stranger.recv(timeout=10) for _ in range(100)]
            assert stranger.protocol.close_code == 1008
        port = server.url.split(":")[2].strip("/")
        origin = f"http://127.0.0.1:{port}"
        with connect(f"ws://127.0.0.1:{port}", subprotocols=protocol, origin=origin) as guest:
            assert guest.recv(timeout=10), "messages of the scene"
            assert server.watching == 1


def test_a_server_that_cannot_listen_leaves_nothing_behind(echo: Echo) -> None:
    before = threading.active_count()
    with pytest.raises(OutputError, match="cannot listen"):
        WebServer("127.0.0.1", echo.port, None, 2)
    until(lambda: threading.active_count() <= before)


def test_nobody_can_ask_for_a_tunnel() -> None:
    with closing(WebServer("127.0.0.1", 0, None, 2)) as server:
        assert server.viser.request_share_url() is None


def test_a_token_is_drawn_where_none_is_given() -> None:
    with closing(WebServer("0.0.0.0", 0, None, 2)) as one, closing(WebServer("0.0.0.0", 0, None, 2)) as other:
        first, second = (server.url.split("?token=")[1] for server in (one, other))
        assert first != second
        assert len(first) >= 24
