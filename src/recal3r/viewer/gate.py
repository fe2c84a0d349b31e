"""The door of the viewer: who may come in, and how many at once.

viser itself lets in whoever reaches its port. It therefore listens on the loopback device alone, and this gate stands
before it: it reads the head of each connection's request, judges it, and passes bytes to and fro only if all is well.

- On a loopback address the request must be for a loopback name: a page elsewhere that has its own name resolve to
  127.0.0.1 is turned away. On any other address the token must be known: once in the URL, from then on as a cookie.
- A websocket must be opened by a page of this very server, not by one from elsewhere.
- More than so many people at a time are told to come back later.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, urlsplit

from recal3r.errors import OutputError

CLIENTS = 8
LEAST_TOKEN = 16  # characters
_HEAD_LIMIT = 16 * 1024  # bytes of a request's head
_HEAD_SECONDS, _PAGE_SECONDS = 10.0, 300.0
_SPARE_CONNECTIONS = 32  # beside the clients': pages that load, and those that are turned away
_PIECE = 256 * 1024


class Request(NamedTuple):
    """The head of an HTTP request; names of headers in lower case."""

    target: str
    headers: Mapping[str, str]

    @property
    def is_websocket(self) -> bool:
        return self.headers.get("upgrade", "").lower() == "websocket"


@dataclass(frozen=True)
class Policy:
    """token: None only where the server listens on a loopback address."""

    token: str | None
    clients: int = CLIENTS
    cookie: str = "recal3r-viewer"

    def __post_init__(self) -> None:
        if self.clients < 1:
            raise OutputError(f"A viewer for {self.clients} clients serves nobody; allow at least 1.")
        if self.token is not None and (len(self.token) < LEAST_TOKEN or not self.token.isascii()):
            raise OutputError(f"The token is too easy to guess; use at least {LEAST_TOKEN} ASCII characters.")

    def answer(self, request: Request, watching: int) -> bytes | None:
        """What someone who may not come in is told; None for those who may."""
        host = request.headers.get("host", "")
        if self.token is None and not is_loopback(_split(f"//{host}").hostname or ""):
            return page(403, f"This viewer is open on this machine only, and knows no host {host!r}.")
        if self.token is not None and not _same(self._cookie(request), self.token):
            offered = parse_qs(_split(request.target).query).get("token", [""])[0]
            if request.is_websocket or not _same(offered, self.token):
                return page(403, "This viewer needs its token: open the address that it printed when it started.")
            return self._welcome()
        if request.is_websocket and _split(request.headers.get("origin", "")).netloc != host:
            return page(403, "A page from elsewhere may not look into this viewer.")
        if watching >= self.clients:
            return page(503, f"{watching} people are watching, as many as are let in; come back later.")
        return None

    def _cookie(self, request: Request) -> str:
        try:
            cookies = SimpleCookie(request.headers.get("cookie", ""))
        except CookieError:
            return ""
        return cookies[self.cookie].value if self.cookie in cookies else ""

    def _welcome(self) -> bytes:
        """From the URL, where people copy it from, into a cookie, which scripts and other sites cannot read."""
        cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        return _response(303, f"Set-Cookie: {cookie}\r\nLocation: /\r\n", b"")


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_head(head: bytes) -> Request | None:
    """The request whose head this is; None where it is none."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    pairs = [line.partition(":") for line in lines if line]
    if any(not colon for _, colon, _ in pairs):
        return None
    return Request(words[1], {name.strip().lower(): value.strip() for name, _, value in pairs})


def _split(url: str) -> SplitResult:
    """The parts of a URL; of one that is none, nothing."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def page(status: int, sentence: str) -> bytes:
    return _response(status, "Content-Type: text/plain; charset=utf-8\r\n", f"{sentence}\n".encode())


def _response(status: int, headers: str, body: bytes) -> bytes:
    reasons = {303: "See Other", 400: "Bad Request", 403: "Forbidden", 503: "Service Unavailable"}
    head = f"HTTP/1.1 {status} {reasons[status]}\r\n{headers}Content-Length: {len(body)}\r\n"
    return f"{head}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + body


def _same(offered: str, known: str) -> bool:
    return hmac.compare_digest(offered.encode(), known.encode())


class Gate:
    """Listens, in a thread of its own, and lets through to `inner` those whom the policy lets in.

    To the head of what it lets through it adds `secret`, a header line by which the inner server knows it.
    """

    def __init__(self, host: str, port: int, inner: int, policy: Policy, secret: str) -> None:
        if policy.token is None and not is_loopback(host):
            raise OutputError(f"Listening on {host!r}, where others can reach it, needs a token; give one.")
        self._inner, self._policy, self._secret = inner, policy, secret
        self._watching = self._connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="recal3r-viewer-gate", daemon=True)
        self._thread.start()
        try:
            self._server = asyncio.run_coroutine_threadsafe(
                asyncio.start_server(self._serve, host, port, limit=_HEAD_LIMIT), self._loop
            ).result()
        except (OSError, OverflowError) as error:
            self._end_loop()
            raise OutputError(
                f"The viewer cannot listen on {host}:{port} ({error}); choose another port, or 0 for any that is free."
            ) from error
        self.port = int(self._server.sockets[0].getsockname()[1])

    @property
    def watching(self) -> int:
        """How many websockets are open."""
        return self._watching

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._end_loop()

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # for connections that were cut off to be put away

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection. People who vanish are no error: what is theirs is put away."""
        self._connections += 1
        try:
            if self._connections <= self._policy.clients + _SPARE_CONNECTIONS:
                await self._judge(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass
        finally:
            self._connections -= 1
            await _put_away(writer)

    async def _judge(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        request = parse_head(head)
        answer = page(400, "This is no request.") if request is None else self._policy.answer(request, self._watching)
        if request is None or answer is not None:
            writer.write(answer or b"")
            async with asyncio.timeout(_HEAD_SECONDS):
                await writer.drain()
        elif request.is_websocket:
            self._watching += 1
            try:
                await self._pass_on(head, reader, writer)
            finally:
                self._watching -= 1
        else:
            async with asyncio.timeout(_PAGE_SECONDS):
                await self._pass_on(head, reader, writer)

    async def _pass_on(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Bytes to and fro until either side ends; a reader that is slow slows only its own writer."""
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", self._inner)
        first, rest = head.split(b"\r\n", 1)
        inner_writer.write(b"\r\n".join((first, self._secret.encode(), rest)))
        ways = {asyncio.create_task(_copy(reader, inner_writer)), asyncio.create_task(_copy(inner_reader, writer))}
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            inner_writer.transport.abort()


async def _put_away(writer: asyncio.StreamWriter) -> None:
    """What was written is still delivered, but not waited for without an end."""
    writer.close()
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.CancelledError):
        writer.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
