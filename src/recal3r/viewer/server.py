"""The web server: viser behind the gate."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import viser

from recal3r.errors import OutputError
from recal3r.viewer.gate import Gate, Policy, is_loopback

HOST, PORT = "127.0.0.1", 8080
_HEADER = "X-Recal3r-Gate"


class WebServer:
    """A viser server that is reached through the gate and in no other way, until it is closed.

    `token` is asked for on every host but a loopback one, and drawn at random where none is given.
    """

    def __init__(self, host: str, port: int, token: str | None, clients: int) -> None:
        if token is None and not is_loopback(host):
            token = secrets.token_urlsafe(24)
        policy = Policy(token, clients, f"recal3r-viewer-{port}")  # cookies are shared by all ports of a host
        secret = secrets.token_urlsafe(24)
        with _quietly():
            self.viser = _Viser(host="127.0.0.1", port=0, verbose=False)
        _let_in_only(self.viser, secret)
        try:
            self._gate = Gate(host, port, self.viser.get_port(), policy, f"{_HEADER}: {secret}")
        except OutputError:
            self._stop_viser()
            raise
        self.url = f"http://{_name(host)}:{self._gate.port}/" + ("" if token is None else f"?token={token}")

    @property
    def watching(self) -> int:
        return self._gate.watching

    def close(self) -> None:
        self._gate.close()
        self._stop_viser()

    def _stop_viser(self) -> None:
        with _quietly():
            self.viser.stop()


class _Viser(viser.ViserServer):
    def request_share_url(self, verbose: bool = True) -> None:
        """A page could ask for a tunnel through which the whole world may look in. There is none."""
        del verbose


def _let_in_only(server: viser.ViserServer, secret: str) -> None:
    """Websockets that do not come through the gate are closed: other programs on this machine find the inner port too.

    viser has no public way to ask who connects. Where its insides change, nobody is let in, and this fails here.
    """
    inner = server._websock_server  # pyright: ignore[reportPrivateUsage]
    connections = inner._live_connections  # pyright: ignore[reportPrivateUsage]

    async def check(client: Any) -> None:
        connection = connections[client.client_id]
        offered = connection.request.headers.get(_HEADER, "") if connection.request else ""
        if not hmac.compare_digest(offered.encode(), secret.encode()):
            await connection.close(1008, "Only the gate may come in here.")

    inner.on_client_connect(check)
    inner.disconnect_all_clients()


def _name(host: str) -> str:
    """The host as it stands in a URL."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.is_unspecified:
        import socket  # noqa: PLC0415

        return socket.gethostname()
    return f"[{host}]" if address.version == 6 else host


@contextmanager
def _quietly() -> Generator[None]:
    """viser reports its start and its end on standard output, which belongs to the program that uses it."""
    import rich  # noqa: PLC0415

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before
