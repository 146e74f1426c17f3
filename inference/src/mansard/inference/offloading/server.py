"""The offload server: the larger network of hierarchical inference, behind HTTP.

Each request has one sample, and the network runs one at a time; connections stay open. It is not a
server for many clients: connections are bounded in number and in time, and bodies in size.
"""

from __future__ import annotations

import hmac
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import msgspec

from mansard.core.connections import (
    BoundedConnections,
    address_family,
    listen_errors,
    server_url,
)
from mansard.core.errors import InputError, MansardError
from mansard.core.records import ServedNetwork
from mansard.core.text import printable
from mansard.inference.offloading.wire import (
    BINARY,
    CLASSIFY_PATH,
    FORM_HEADER,
    JSON,
    MOST_BYTES,
    NETWORK_PATH,
    SHAPE_HEADER,
    TYPE_HEADER,
    Payload,
    ServedAnswer,
    parse_shape,
)

MOST_CONNECTIONS = 16
IDLE_S = 60.0  # between two answers of a connection, whatever it does meanwhile
_READ_S = 10.0  # of silence within a request
_MOST_QUEUE_S = 30.0  # of waiting for the network, which others use

# The class of a sample, and the seconds of the network; raises InputError, MeasurementError.
Classifier = Callable[[Payload], tuple[int, float]]


class OffloadServer(BoundedConnections, HTTPServer):
    """Serves ``classify`` until ``shutdown``; ``key``: the bearer's token, or empty for none.

    Raises DeviceError where it cannot listen.
    """

    most_connections = MOST_CONNECTIONS
    most_s = IDLE_S
    allow_reuse_address = True

    def __init__(
        self, host: str, port: int, served: ServedNetwork, classify: Classifier, key: str = ""
    ) -> None:
        self.served, self.description, self.key = served, msgspec.json.encode(served), key
        self._classify, self._turn = classify, threading.Lock()
        with listen_errors(f"--listen {printable(host)}:{port}"):
            self.address_family = address_family(host, port)
            super().__init__((host, port), _SampleHandler)

    @property
    def address(self) -> str:
        """The URL of the server."""
        return server_url(str(self.server_address[0]), self.server_port)

    def classify(self, payload: Payload) -> tuple[int, float]:
        """The answer of the network, once it is this request's turn."""
        if not self._turn.acquire(timeout=_MOST_QUEUE_S):
            raise _Refusal(503, "the network is busy")
        try:
            return self._classify(payload)
        finally:
            self._turn.release()


class _Refusal(Exception):  # noqa: N818 - what a client did, not an error of ours
    """An answer of HTTP that is not 200."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status, self.what = status, what


class _SampleHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "mansard-offload", ""
    timeout = _READ_S
    disable_nagle_algorithm = True  # an answer in two pieces would wait for an acknowledgement
    wbufsize = -1  # one write for head and body
    server: OffloadServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        del format, args

    def do_GET(self) -> None:
        """Describe the network."""
        self._answer(NETWORK_PATH, lambda: self.server.description)

    def do_POST(self) -> None:
        """Classify one sample."""
        self._answer(CLASSIFY_PATH, self._classify)

    def _answer(self, path: str, work: Callable[[], bytes]) -> None:
        try:
            self._check_key()
            if self.path != path:
                raise _Refusal(404, f"there are {NETWORK_PATH} and {CLASSIFY_PATH}")
            status, body = 200, work()
        except _Refusal as refusal:
            status, body = refusal.status, _error(refusal.what)
        except InputError as error:
            status, body = 400, _error(str(error))
        except MansardError as error:
            status, body = 500, _error(str(error))
        if status != 200:
            self.close_connection = True  # a body may be left unread
        self.send_response(status)
        self.send_header("Content-Type", JSON)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()
        self.server.renew(self.connection)

    def _check_key(self) -> None:
        key = self.server.key
        given = self.headers.get("Authorization", "")
        if key and not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
            raise _Refusal(401, "it asks for the bearer's token that it was started with")

    def _classify(self) -> bytes:
        if self.headers.get_content_type() != BINARY:
            raise _Refusal(415, f"a sample is sent as {BINARY}")
        data = self._body()
        start_s = time.monotonic()
        form = self.headers.get(FORM_HEADER, "")
        if form not in {"tensor", "pixels", "image"}:
            what = f"{FORM_HEADER} {printable(form, 20)!r}"
            raise InputError(f"{what} is not tensor, pixels or image")
        is_image = form == "image"
        payload = Payload(
            form,  # type: ignore[arg-type]  # checked
            "" if is_image else self.headers.get(TYPE_HEADER, ""),
            () if is_image else parse_shape(self.headers.get(SHAPE_HEADER, "")),
            data,
        )
        predicted, inference_s = self.server.classify(payload)
        return msgspec.json.encode(ServedAnswer(predicted, inference_s, time.monotonic() - start_s))

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdecimal()):
            raise _Refusal(411, "a sample is sent with its Content-Length")
        if len(length) > 12 or int(length) > MOST_BYTES:
            raise _Refusal(413, f"a sample has {MOST_BYTES:,} bytes at most")
        data = self.rfile.read(int(length))
        if len(data) < int(length):
            raise _Refusal(400, "the sample was cut short")
        return data


def _error(what: str) -> bytes:
    return msgspec.json.encode({"error": what})
