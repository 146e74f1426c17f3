"""An HTTP server for few readers: its connections are bounded in number and in time.

``prometheus_client``'s own server gives each connection a thread and a file descriptor for as long
as the other side likes, and idle ones would take those that the meters are read through.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

MOST_CONNECTIONS = 16  # at a time; further ones are closed at once
CONNECTION_S = 5.0  # from its beginning; what is not asked and answered by then is closed


def serve(app: Callable[..., Any], host: str, port: int) -> WSGIServer:
    """A server that listens; its ``serve_forever`` is to be called. Raises OSError."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    kind = type("Server", (_Server,), {"address_family": family})
    server: WSGIServer = kind((host, port), _Handler)
    server.set_app(app)
    return server


class _Handler(WSGIRequestHandler):
    """One request of a connection; without a log."""

    timeout = CONNECTION_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        del format, args


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *args: Any, **named: Any) -> None:
        self._begun_s: dict[Any, float] = {}
        self._lock = threading.Lock()
        super().__init__(*args, **named)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        del client_address
        with self._lock:
            if len(self._begun_s) >= MOST_CONNECTIONS:
                return False
            self._begun_s[request] = time.monotonic()
        return True

    def service_actions(self) -> None:
        """Between two connections, and twice a second: end those that are too old."""
        oldest_s = time.monotonic() - CONNECTION_S
        with self._lock:
            old = [request for request, begun_s in self._begun_s.items() if begun_s < oldest_s]
        for request in old:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        try:
            super().shutdown_request(request)
        finally:
            with self._lock:
                self._begun_s.pop(request, None)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print no traceback when a client closes its connection early."""
        del request, client_address
