"""HTTP with a server of a language model: documents, and streams whose lines are timed on arrival.

The standard library alone: a line is read and stamped before anything of it is decoded, so that
the measuring process adds some tens of microseconds to what it times.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import time
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from mansard.core.errors import MeasurementError, UsageError
from mansard.core.text import masked, printable

KEY_VARIABLE = "MANSARD_SERVER_KEY"  # of the environment: sent as a bearer's token
CONNECT_S = 10.0
SILENCE_S = 900.0  # a long prompt on a small board takes minutes until its first token
_MOST_BYTES = 64 << 20  # of a document
_SHOWN = 300  # characters of a server's message


class Address(msgspec.Struct, frozen=True):
    """Where a server listens; ``path`` goes before the paths of every interface."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def shown(self) -> str:
        """As a URL without secrets; parse_address refuses those that have some."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


class TimedLine(NamedTuple):
    """One line of a stream, and when it arrived."""

    monotonic_s: float
    data: bytes


class Streamed(NamedTuple):
    """The lines of an answer."""

    sent_s: float  # monotonic
    lines: list[TimedLine]
    end_s: float  # monotonic


def parse_address(text: str) -> Address:
    """The address of ``--server``; raises UsageError for what is none, or names a user."""
    fix = "write it as http://localhost:8000"
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        port = parts.port
    except ValueError as error:
        raise UsageError(f"--server {masked(text)!r}: {error}", fix=fix) from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise UsageError(f"--server {masked(text)!r} is not an address of a server", fix=fix)
    if parts.username is not None or parts.query or parts.fragment:
        raise UsageError(
            "--server takes a host, a port and a path alone",
            fix=f"give a key in the variable {KEY_VARIABLE}",
        )
    path = parts.path.rstrip("/").removesuffix("/v1")
    default = 443 if parts.scheme == "https" else 80
    return Address(parts.scheme, parts.hostname, port or default, path)


class Connection:
    """One connection to a server, opened before a request is timed; closed by ``with``."""

    def __init__(self, address: Address, timeout_s: float = SILENCE_S) -> None:
        is_secure = address.scheme == "https"
        kind = http.client.HTTPSConnection if is_secure else http.client.HTTPConnection
        self._address, self._timeout_s = address, timeout_s
        self._connect_s = min(CONNECT_S, timeout_s)
        self._http = kind(address.host, address.port, timeout=self._connect_s)

    def __enter__(self) -> Connection:
        try:
            self._http.connect()
        except OSError as error:
            raise self._failed("cannot be reached", error) from error
        self._http.sock.settimeout(self._timeout_s)
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the document of an answer, None where it is no JSON."""
        try:
            self._send(method, path, None if body is None else json.dumps(body).encode())
            response = self._http.getresponse()
            data = response.read(_MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(f"gave no answer to {path}", error) from error
        return response.status, _decoded(data)

    def stream(self, path: str, body: Any) -> Streamed:
        """The lines of an answer as they arrive; raises MeasurementError, HttpError."""
        lines: list[TimedLine] = []
        data = json.dumps(body).encode()  # before the clock starts: a long prompt takes its time
        try:
            sent_s = time.monotonic()
            self._send("POST", path, data)
            response = self._http.getresponse()
            if response.status != http.client.OK:
                raise HttpError(
                    self._address, path, response.status, _decoded(response.read(_MOST_BYTES))
                )
            while data := response.readline():
                lines.append(TimedLine(time.monotonic(), data))
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(f"broke off its answer to {path}", error) from error
        return Streamed(sent_s, lines, time.monotonic())

    def cut(self) -> None:
        """End the connection, from any thread: what waits for its answer fails."""
        if self._http.sock is not None:
            with contextlib.suppress(OSError):
                self._http.sock.shutdown(socket.SHUT_RDWR)

    def exchange(
        self,
        method: str,
        path: str,
        data: bytes | None,
        headers: Mapping[str, str],
        most_bytes: int,
    ) -> tuple[int, str, bytes]:
        """The status, type and body of an answer; the connection stays open.

        Raises MeasurementError where no answer comes, or one of more than ``most_bytes``, and
        ConnectionClosedError where the server had ended the connection before.
        """
        try:
            self._send(method, path, data, headers)
            response = self._http.getresponse()
            body = response.read(most_bytes + 1)
        except (ConnectionResetError, BrokenPipeError, http.client.RemoteDisconnected) as error:
            raise self._failed(f"gave no answer to {path}", error, ConnectionClosedError) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(f"gave no answer to {path}", error) from error
        if len(body) > most_bytes or response.length:
            too_much = OSError(f"not whole, or of more than {most_bytes:,} bytes")
            raise self._failed(f"gave an answer to {path} that cannot be read", too_much)
        return response.status, response.headers.get_content_type(), body

    def _send(
        self, method: str, path: str, data: bytes | None, more: Mapping[str, str] | None = None
    ) -> None:
        headers = {"Accept": "application/json, text/event-stream"}
        key = os.environ.get(KEY_VARIABLE)
        if key:
            headers["Authorization"] = f"Bearer {key}"
        if data is not None:
            headers["Content-Type"] = "application/json"
        headers |= more or {}
        self._http.request(method, self._address.path + path, data, headers)

    def _failed(
        self, what: str, error: Exception, kind: type[MeasurementError] = MeasurementError
    ) -> MeasurementError:
        if isinstance(error, TimeoutError):
            waited_s = self._connect_s if self._http.sock is None else self._timeout_s
            why = f"it was silent for {waited_s:g} s"
        else:
            why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else ""
            why = why.lower() or str(error).lower() or type(error).__name__
        return kind(
            f"the server {what}: {printable(why)}",
            where=self._address.shown,
            fix="check that it runs and listens there",
        )


class ConnectionClosedError(MeasurementError):
    """The server ended a connection without an answer, as it may with one that was idle."""


class HttpError(MeasurementError):
    """The server refused a request; ``status``: of HTTP."""

    def __init__(self, address: Address, path: str, status: int, document: Any) -> None:
        said = message_of(document)
        super().__init__(
            f"the server answered {status} to {path}{f': {said}' if said else ''}",
            where=address.shown,
            fix="its own log may say more",
        )
        self.status = status


def message_of(document: Any) -> str:
    """What a server says of an error, in the forms of OpenAI, FastAPI and Ollama."""
    for name in ("error", "detail", "message"):
        if isinstance(document, dict) and name in document:
            document = document[name]
    if isinstance(document, list) and document:
        return message_of(document[0].get("msg") if isinstance(document[0], dict) else document[0])
    return masked(printable(document, _SHOWN)) if isinstance(document, str) else ""


def ask(
    address: Address, method: str, path: str, body: Any = None, timeout_s: float = SILENCE_S
) -> tuple[int, Any]:
    """One request on a connection of its own: its status and document."""
    with Connection(address, timeout_s) as connection:
        return connection.ask(method, path, body)


def is_listening(address: Address) -> bool:
    """Whether anything accepts connections there."""
    try:
        with Connection(address, CONNECT_S):
            return True
    except MeasurementError:
        return False


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
