"""Servers of this process whose connections are bounded in number and in time.

A thread and a file descriptor stand behind each connection. Without bounds, idle or slow clients
take all descriptors, and a program that also reads meters would lose those.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from socketserver import BaseServer, ThreadingMixIn
from typing import Any

from mansard.core.errors import DeviceError, UsageError

_ADDRESS = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9._-]*)):(?P<port>[0-9]{1,5})"
)
_HERE = "127.0.0.1"


def parse_listen(option: str, text: str) -> tuple[str, int]:
    """Host and port; without a host, the loopback address. Raises UsageError."""
    match = _ADDRESS.fullmatch(text if ":" in text else f":{text}")
    port = int(match["port"]) if match else 65536
    if match is None or port > 65535:
        raise UsageError(
            f"{option} {text!r} is not an address",
            fix="write :9100, or 0.0.0.0:9100 for a network",
        )
    return match["six"] or match["host"] or _HERE, port


def address_family(host: str, port: int) -> socket.AddressFamily:
    """IPv4 or IPv6, for a server that listens on ``host``; raises OSError, UnicodeError."""
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]


@contextlib.contextmanager
def listen_errors(where: str) -> Iterator[None]:
    """Raise DeviceError where a server cannot listen; ``where``: the option with its address."""
    try:
        yield
    except (OSError, OverflowError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise DeviceError(
            f"cannot listen there: {why.lower()}",
            where=where,
            fix="choose another port, or find out what has it: ss -ltnp",
        ) from error


def server_url(host: str, port: int) -> str:
    """The URL of an HTTP server; an IPv6 address is put in brackets."""
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class BoundedConnections(ThreadingMixIn, BaseServer):
    """A mix-in for socketserver's servers, before the server's class."""

    daemon_threads = True
    most_connections = 16  # at a time; further ones are closed at once
    most_s = 5.0  # from the beginning of a connection, or from ``renew``; then it is closed

    def __init__(self, *args: Any, **named: Any) -> None:
        self._begun_s: dict[Any, float] = {}
        self._lock = threading.Lock()
        super().__init__(*args, **named)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Accept a connection unless there are too many."""
        del client_address
        with self._lock:
            if len(self._begun_s) >= self.most_connections:
                return False
            self._begun_s[request] = time.monotonic()
        return True

    def renew(self, request: Any) -> None:
        """Restart the time of a connection, such as after each answer."""
        with self._lock:
            if request in self._begun_s:
                self._begun_s[request] = time.monotonic()

    def service_actions(self) -> None:
        """End connections that are too old; called twice a second."""
        oldest_s = time.monotonic() - self.most_s
        with self._lock:
            old = [request for request, begun_s in self._begun_s.items() if begun_s < oldest_s]
        for request in old:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that has ended."""
        try:
            super().shutdown_request(request)
        finally:
            with self._lock:
                self._begun_s.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback when a client closes its connection early."""
        del request, client_address
