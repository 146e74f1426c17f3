"""An engine that answers some questions as an attacker would: without an end."""

from __future__ import annotations

import gzip
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.containers.stand_in_engine import DOCKER_28, stand_in_engine

_PIECE = b"x" * (1 << 16)
_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_PLAIN = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
_ZEROS = gzip.compress(bytes(64 << 20))
Flood = Callable[[], Iterator[bytes]]


def _then_for_ever(first: bytes, again: bytes) -> Flood:
    return lambda: itertools.chain([first], itertools.repeat(again))


def slowly() -> Iterator[bytes]:
    """A byte now and then."""
    yield _PLAIN
    while True:
        time.sleep(0.02)
        yield b" "


def _gzip_bomb(status: bytes = b"200 OK") -> Iterator[bytes]:
    kind = b"Content-Encoding: gzip\r\nContent-Length: %d" % len(_ZEROS)
    yield b"HTTP/1.1 %s\r\n%s\r\n\r\n%s" % (status, kind, _ZEROS)


FLOODS: Mapping[str, Flood] = {
    "a body that never ends": _then_for_ever(_PLAIN, _PIECE),
    "a body of a terabyte": _then_for_ever(
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n", _PIECE
    ),
    "a status that never ends": _then_for_ever(b"HTTP/1.1 200 ", _PIECE),
    "a header that never ends": _then_for_ever(b"HTTP/1.1 200 OK\r\nA: ", _PIECE),
    "headers that never end": _then_for_ever(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 1000),
    "for ever to be continued": _then_for_ever(
        b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000
    ),
    "tiny chunks": _then_for_ever(_CHUNKED, b"8\r\nxxxxxxxx\r\n" * 1000),
    "a length of a chunk that never ends": _then_for_ever(_CHUNKED + b"1;", _PIECE),
    "a chunk of a terabyte": _then_for_ever(_CHUNKED + b"e8d4a51000\r\n", _PIECE),
    "trailers that never end": _then_for_ever(
        _CHUNKED + b"0\r\n", b"A: bbbbbbbbbbbbbbbb\r\n" * 999
    ),
    "lines without a meaning": _then_for_ever(_PLAIN, b"\n" * 65536),
    "messages that never end": _then_for_ever(_PLAIN, b'{"stream":"%s"}\n' % (b"x" * 500) * 100),
    "an error that never ends": _then_for_ever(
        b"HTTP/1.1 500 Not good\r\nConnection: close\r\n\r\n", _PIECE
    ),
    "compressed zeros": _gzip_bomb,
    "compressed zeros somewhere else": lambda: _gzip_bomb(b"302 Found\r\nLocation: /version"),
    "somewhere else": _then_for_ever(
        b"HTTP/1.1 302 Found\r\nLocation: /version\r\nContent-Length: 0\r\n\r\n", b""
    ),
}


class Sent(msgspec.Struct):
    """How many bytes the engine has sent."""

    n_bytes: int = 0


@contextmanager
def flooding_engine(folder: Path, path: str, flood: Flood) -> Iterator[tuple[str, Sent]]:
    """An engine whose answers to what ends with ``path`` are ``flood``; its address."""
    sent = Sent()

    def counted() -> Iterator[bytes]:
        for piece in itertools.takewhile(bool, flood()):
            yield piece
            sent.n_bytes += len(piece)

    with stand_in_engine(folder, {**DOCKER_28, path: (200, counted)}) as address:
        yield address, sent
