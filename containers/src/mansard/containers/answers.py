"""Answers of an engine, limited in bytes and time.

The Docker SDK and the libraries below it read until an engine ends its answer. An engine that
never does, or another program in its place, would fill the memory: by a body, a header, a line or
the length of a chunk without an end. So the bytes are counted where they leave the socket.
"""

from __future__ import annotations

import functools
import http.client
import io
import itertools
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

import msgspec

from mansard.containers.engine_errors import START_ENGINE, no_engine
from mansard.core.errors import ContainerError
from mansard.core.processes.line_channel import DECODE_ERRORS, LineSplitter
from mansard.core.text import printable

if TYPE_CHECKING:
    import socket

TIMEOUT_S = 60  # of silence; to start a container on a board takes some seconds
_UNPACKING_S = 1800.0  # of silence: pip downloads, or gigabytes are unpacked onto an eMMC
_GIGABYTES_S = 12 * 3600.0  # on a slow line
_MOST_LINE_BYTES = 1 << 20  # limit of a line of a log or header, or of a chunk's length
_LINE_PIECE = 1 << 14  # engines send logs in chunks, which are handed on as they come


class AnswerLimits(msgspec.Struct, frozen=True):
    """The limits of an answer, from its request to its end."""

    n_bytes: int
    seconds: float
    silence_s: float = TIMEOUT_S


ANSWER = AnswerLimits(
    4 << 20, 2 * TIMEOUT_S
)  # of one question; headers and errors have no more bytes
EVENTS = AnswerLimits(4 << 20, TIMEOUT_S)
LOG = AnswerLimits(16 << 20, _GIGABYTES_S, _UNPACKING_S)  # for builds, pulls and loads
SENDING = AnswerLimits(
    4 << 20, _GIGABYTES_S, _UNPACKING_S
)  # the engine's answer to files that are sent
IMAGE = AnswerLimits(48 << 30, _GIGABYTES_S, _UNPACKING_S)  # an image that is saved
TAKING = AnswerLimits(48 << 30, _GIGABYTES_S, _UNPACKING_S)  # files that are taken from a volume


class _Budget:
    """The rest of an answer's limits; raises ContainerError beyond them."""

    def __init__(self, limits: AnswerLimits, address: str) -> None:
        self._limits, self._address = limits, address
        self._left_bytes = min(limits.n_bytes, ANSWER.n_bytes)
        self._end_s = time.monotonic() + limits.seconds

    def allow_body(self) -> None:
        """The engine agreed to answer: its body may be as long as the limits say."""
        self._left_bytes += max(0, self._limits.n_bytes - ANSWER.n_bytes)

    def take(self, n_bytes: int) -> None:
        self._left_bytes -= n_bytes
        if self._left_bytes < 0:
            raise self.refusal("is longer than it may be")
        if time.monotonic() > self._end_s:
            raise self.refusal(f"takes longer than {self._limits.seconds:g} s")

    def refusal(self, why: str) -> ContainerError:
        return ContainerError(
            f"the answer of the container engine {why}", where=self._address, fix=START_ENGINE
        )


_BUDGET: ContextVar[_Budget] = ContextVar("budget of the request that is being sent")


@contextmanager
def _current(budget: _Budget) -> Iterator[None]:
    token = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(token)


class _Counted(io.RawIOBase):
    """A socket's file that counts what is read against a budget."""

    def __init__(self, raw: Any, budget: _Budget) -> None:
        super().__init__()
        self._raw, self._budget = raw, budget
        self._sock: socket.socket = raw._sock  # where the SDK looks for it

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        n_bytes: int | None = self._raw.readinto(buffer)
        self._budget.take(n_bytes or 0)
        return n_bytes

    def close(self) -> None:
        super().close()
        self._raw.close()


class _Lines(io.BufferedReader):
    """A counted file with bounded lines: urllib3 reads the length of a chunk as a line."""

    def __init__(self, raw: Any, budget: _Budget) -> None:
        super().__init__(_Counted(raw, budget))
        self._budget = budget

    def readline(self, size: int | None = -1, /) -> bytes:
        wanted = _MOST_LINE_BYTES + 1 if size is None or size < 0 else size
        line = super().readline(wanted)
        if len(line) > _MOST_LINE_BYTES:
            raise self._budget.refusal(f"has a line of more than {_MOST_LINE_BYTES} bytes")
        return line


class _HttpAnswer(http.client.HTTPResponse):
    """An answer whose bytes are counted from the first of its header on."""

    def __init__(self, sock: socket.socket, *arguments: Any, **settings: Any) -> None:
        super().__init__(sock, *arguments, **settings)
        self.fp: Any = _Lines(self.fp.detach(), _BUDGET.get())


def _count_answers(pool: Any) -> None:
    """Have every connection that ``pool`` opens count what it receives."""
    if "_new_conn" in vars(pool):
        return
    opened = pool._new_conn

    def connection() -> Any:
        made = opened()
        made.response_class = _HttpAnswer
        return made

    pool._new_conn = connection


def bounded_client(address: str, **settings: Any) -> Any:
    """A client of the Docker SDK whose every answer has limits; raises what the SDK raises."""
    return _client_class()(base_url=address, timeout=TIMEOUT_S, **settings)


@functools.cache
def _client_class() -> Any:
    import docker

    class Api(docker.APIClient):  # type: ignore[misc]
        def __init__(self, base_url: str, **settings: Any) -> None:
            self.address = base_url
            super().__init__(base_url=base_url, **settings)

        def get_redirect_target(self, resp: Any) -> None:
            """None: requests would read and unpack the body before it follows a redirect."""

        def send(self, request: Any, *, stream: bool = False, **settings: Any) -> Any:
            budget = _BUDGET.get(None)
            if budget is None:
                with _current(_Budget(ANSWER, self.address)):
                    return self.send(request, stream=stream, **settings)
            request.headers["Accept-Encoding"] = "identity"
            # Else the SDK keeps a connection for each URL, up to 25: each container has its own
            # URLs, so they grow with what was started, and fifty boards run out of descriptors.
            # A build's is kept: an engine does not see that one which was to be closed is gone.
            is_build = request.path_url.partition("?")[0].endswith("/build")
            if request.headers.get("Connection") == "keep-alive" and not is_build:
                request.headers["Connection"] = "close"
            settings["timeout"] = settings.get("timeout") or TIMEOUT_S  # the SDK may give none
            adapter, options = self.get_adapter(request.url), ("verify", "proxies", "cert")
            _count_answers(
                adapter.get_connection_with_tls_context(
                    request, **{name: settings.get(name) for name in options}
                )
            )
            response = super().send(request, stream=True, **settings)
            encoding = response.headers.get("Content-Encoding", "identity")
            if response.is_redirect or encoding != "identity":
                response.close()
                raise no_engine(self.address)
            if response.ok:
                budget.allow_body()
            if not stream:
                response.content  # noqa: B018 - read here, as the SDK expects it
            return response

    class Client(docker.DockerClient):  # type: ignore[misc]
        def __init__(self, **settings: Any) -> None:
            self.api = Api(**settings)

    return Client


# Long answers, over the SDK's own session. The SDK returns generators, whose connection stays open
# until Python collects them. But a build that is left early goes on until its connection is closed.
_NOTHING: Mapping[str, str] = MappingProxyType({})


@contextmanager
def answer(
    client: Any,
    method: str,
    path: str,
    *,
    limits: AnswerLimits,
    parameters: Mapping[str, str] = _NOTHING,
    headers: Mapping[str, str] = _NOTHING,
    content: IO[bytes] | Iterator[bytes] | None = None,
) -> Iterator[Any]:
    """The response to one request, to be read piece by piece; it is closed at the end.

    Raises ContainerError beyond ``limits``, docker.errors.APIError with what the engine says, and
    what requests raises where the connection breaks.
    """
    from docker.errors import create_api_error_from_http_exception
    from requests.exceptions import HTTPError

    api = client.api
    kind = {} if content is None else {"Content-Type": "application/x-tar"}
    with _current(_Budget(limits, api.address)):
        response = api.request(
            method,
            f"{api.base_url}/v{api.api_version}{path}",
            params=dict(parameters),
            data=content,
            headers={**kind, **headers},
            stream=True,
            timeout=limits.silence_s,
        )
    try:
        try:
            response.raise_for_status()
        except HTTPError as error:
            create_api_error_from_http_exception(error)  # raises
        yield response
    finally:
        response.close()


def messages(response: Any) -> Iterator[dict[str, Any]]:
    """The JSON objects of an answer, one for each line; raises ContainerError for another line."""
    lines = LineSplitter(_MOST_LINE_BYTES, source="the container engine", error=ContainerError)
    for piece in itertools.chain(response.iter_content(_LINE_PIECE), [b"\n"]):
        for line in filter(bytes.strip, lines.feed(piece)):
            try:
                message = json.loads(line)
            except DECODE_ERRORS as error:
                shown = printable(line[:100].decode("utf-8", "replace"))
                raise ContainerError(
                    f"the container engine answers with a line that is not JSON: {shown}",
                    fix=START_ENGINE,
                ) from error
            if isinstance(message, dict):
                yield message
