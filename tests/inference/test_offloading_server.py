"""The offload server and its client over HTTP: what hostile ones send, and what is answered."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import numpy as np
import pytest

from mansard.core.errors import DeviceError, InputError, MansardError, MeasurementError
from mansard.core.records import ServedNetwork
from mansard.inference.offloading.client import RemoteNetwork, describe
from mansard.inference.offloading.server import MOST_CONNECTIONS, OffloadServer
from mansard.inference.offloading.wire import CLASSIFY_PATH, Payload, array_of
from mansard.inference.servers.connection import KEY_VARIABLE, Address, parse_address
from tests.waiting import awaited

SERVED = ServedNetwork(
    model="large",
    model_hash="0" * 16,
    weights_hash="1" * 64,
    engine="ort",
    engine_version="1",
    provider="cpu",
    precision="fp32",
    n_classes=10,
    preprocessing="",
    takes_images=False,
    input_name="x",
    input_type="uint8",
    input_shape=(2,),
)
SAMPLE = Payload("tensor", "uint8", (2,), bytes([3, 4]))
HEADERS = SAMPLE.headers


def add(payload: Payload) -> tuple[int, float]:
    """A network of two numbers whose class is their sum."""
    row = array_of(payload.data, payload.type_name, payload.shape, ("uint8", (2,)))
    return int(np.sum(row)), 1e-9


@contextmanager
def serving(classify: Callable[[Payload], tuple[int, float]] = add, key: str = "") -> Iterator[Any]:
    with OffloadServer("127.0.0.1", 0, SERVED, classify, key) as server:
        thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def of(server: Any) -> Address:
    return parse_address(server.address)


def test_samples_are_answered_on_one_connection() -> None:
    with serving() as server, RemoteNetwork(of(server), 10, 10) as remote:
        assert describe(of(server)) == SERVED
        answers = [
            remote.classify(SAMPLE._replace(data=bytes([a, b]))) for a, b in [(3, 4), (0, 9)]
        ]
        assert [answer.predicted for answer in answers] == [7, 9]
        assert remote.n_reconnects == 0
        for answer in answers:
            assert answer.sent_bytes == 2
            assert 0 < answer.inference_s <= answer.server_s <= answer.round_trip_s


def test_a_connection_that_the_server_closed_is_opened_again() -> None:
    with serving() as server, RemoteNetwork(of(server), 10, 10) as remote:
        remote.classify(SAMPLE)
        server.most_s = -1.0  # every connection is too old now
        assert awaited(lambda: not server._begun_s)
        server.most_s = 60.0
        assert remote.classify(SAMPLE).predicted == 7
        assert remote.n_reconnects == 1


def ask(server: Any, method: str, path: str, body: bytes, headers: dict[str, str]) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    return response.status, json.loads(response.read())["error"]


@pytest.mark.parametrize(
    ("path", "body", "changes", "status", "fault"),
    [
        ("/v1/other", b"ab", {}, 404, "there are /v1/network and /v1/classify"),
        (CLASSIFY_PATH, b"ab", {"Content-Type": "application/json"}, 415, "is sent as application"),
        (CLASSIFY_PATH, b"ab", {"Content-Length": "-1"}, 411, "with its Content-Length"),
        (CLASSIFY_PATH, b"ab", {"Content-Length": "9" * 15}, 413, "67,108,864 bytes at most"),
        (CLASSIFY_PATH, b"ab", {"Content-Length": str((64 << 20) + 1)}, 413, "bytes at most"),
        (CLASSIFY_PATH, b"ab", {"Transfer-Encoding": "chunked"}, 411, "Content-Length"),
        (CLASSIFY_PATH, b"abc", {}, 400, "3 bytes are not uint8 [2]"),
        (CLASSIFY_PATH, b"", {}, 400, "0 bytes are not uint8 [2]"),
        (CLASSIFY_PATH, b"ab", {"Mansard-Type": "object"}, 400, "is object [2], not uint8 [2]"),
        (CLASSIFY_PATH, b"ab", {"Mansard-Shape": "2,1"}, 400, "a sample is uint8 [2, 1]"),
        (CLASSIFY_PATH, b"ab", {"Mansard-Shape": "1e9"}, 400, "'1e9' is not a shape"),
        (CLASSIFY_PATH, b"ab", {"Mansard-Shape": "-2"}, 400, "'-2' is not a shape"),
        (CLASSIFY_PATH, b"ab", {"Mansard-Form": "pickle"}, 400, "is not tensor, pixels or image"),
    ],
)
def test_what_is_no_sample_is_refused(
    path: str, body: bytes, changes: dict[str, str], status: int, fault: str
) -> None:
    with serving() as server:
        found = ask(server, "POST", path, body, HEADERS | changes)
        assert (found[0], fault in found[1]) == (status, True), found
        with RemoteNetwork(of(server), 10, 10) as remote:  # and the server goes on
            assert remote.classify(SAMPLE).predicted == 7


def test_a_cut_body_takes_no_thread_for_ever() -> None:
    with serving() as server:
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            head = f"POST {CLASSIFY_PATH} HTTP/1.1\r\nContent-Length: 2\r\n"
            client.sendall(f"{head}Content-Type: application/octet-stream\r\n\r\na".encode())
            client.shutdown(socket.SHUT_WR)
            assert b"400" in client.recv(1000).split(b"\r\n")[0]
        assert awaited(lambda: not server._begun_s)


def test_connections_are_bounded_and_slow_ones_are_closed() -> None:
    with serving() as server:
        port = server.server_port
        slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(MOST_CONNECTIONS)]
        assert awaited(lambda: len(server._begun_s) == MOST_CONNECTIONS)
        with socket.create_connection(("127.0.0.1", port), timeout=20) as further:
            assert further.recv(1) == b""  # closed at once
        server.most_s = -1.0
        assert awaited(lambda: not server._begun_s)
        for client in slow:
            client.close()


def test_a_token_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(key="sesame") as server:
        for key in ("", "sesam", "sésame"):
            monkeypatch.setenv(KEY_VARIABLE, key)
            with pytest.raises(MeasurementError, match="answered 401") as caught:
                describe(of(server))
            assert not key or key not in str(caught.value)
        monkeypatch.setenv(KEY_VARIABLE, "sesame")
        assert describe(of(server)) == SERVED
        with RemoteNetwork(of(server), 10, 10) as remote:
            assert remote.classify(SAMPLE).predicted == 7


@pytest.mark.parametrize("kind", [InputError, MeasurementError])
def test_a_network_that_fails_says_so_in_one_line(kind: type[MansardError]) -> None:
    def fail(payload: Payload) -> tuple[int, float]:
        raise kind("the sample \x1b[31m is odd")

    with serving(fail) as server, RemoteNetwork(of(server), 10, 10) as remote:
        with pytest.raises(MeasurementError) as caught:
            remote.classify(SAMPLE)
        status = 400 if kind is InputError else 500
        assert f"answered {status} to /v1/classify: the sample" in str(caught.value)
        assert "\x1b" not in str(caught.value)


def test_a_port_that_is_taken_is_one_line() -> None:
    with serving() as server, pytest.raises(DeviceError, match="cannot listen there: address"):
        OffloadServer("127.0.0.1", server.server_port, SERVED, add)


class _Liar(socketserver.StreamRequestHandler):
    """Answers each request on a connection with the next of the server's answers."""

    def handle(self) -> None:
        while self.rfile.readline():
            length = 0
            while (line := self.rfile.readline()) not in {b"\r\n", b""}:
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.rfile.read(length)
            answer = self.server.answer  # type: ignore[attr-defined]
            self.wfile.write(answer)
            if b"content-length" not in answer.lower():
                return


@contextmanager
def lying(answer: bytes) -> Iterator[Address]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Liar) as server:
        server.daemon_threads = True
        server.answer = answer  # type: ignore[attr-defined]
        threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True).start()
        yield parse_address(f"127.0.0.1:{server.server_address[1]}")
        server.shutdown()


def reply(body: bytes, status: str = "200 OK", kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


ANSWER = b'{"predicted":%s,"inference_s":%s,"server_s":%s}'


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (reply(b"", "302 Found\r\nLocation: http://127.0.0.1:1/"), "answered 302 to /v1/classify"),
        (reply(b"<html>"), "gives an answer that is not one"),
        (reply(ANSWER % (b"3", b"0", b"0"), kind="text/html"), "answers with text/html"),
        (reply(b"[" * 30_000), "gives an answer that is not one"),
        (reply(ANSWER % (b"10", b"0", b"0")), "answers class 10 of 10 classes"),
        (reply(ANSWER % (b"-1", b"0", b"0")), "answers class -1"),
        (reply(ANSWER % (b'"3"', b"0", b"0")), "gives an answer that is not one"),
        (reply(ANSWER % (b"3", b"1e999", b"0")), "gives an answer that is not one"),
        (reply(ANSWER % (b"3", b"0", b"1e6")), "says that it took 1e+06 s"),
        (reply(ANSWER % (b"3", b"0.1", b"1e-9")), "says that it took 1e-09 s, 0.1 s of them"),
        (reply(ANSWER % (b"3", b"-1", b"0")), "says that it took 0 s, -1 s of them"),
        (reply(b" " * 70_000), "gave an answer to /v1/classify that cannot be read"),
        (reply(b"{}")[:-1], "answer to /v1/classify"),
        (b"nonsense\r\n\r\n", "gave no answer to /v1/classify"),
        (b"", "gave no answer to /v1/classify"),
    ],
)
def test_a_server_that_lies_is_one_line(answer: bytes, fault: str) -> None:
    with lying(answer) as address, RemoteNetwork(address, 10, 5) as remote:
        with pytest.raises(MeasurementError) as caught:
            remote.classify(SAMPLE)
        assert fault in str(caught.value)
        assert "\n" not in str(caught.value)


class _Dripping(socketserver.BaseRequestHandler):
    """Sends a byte of its answer now and then: it is never silent for long."""

    def handle(self) -> None:
        self.request.recv(1000)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"
        with contextlib.suppress(OSError):
            self.request.sendall(head)
            while True:
                self.request.sendall(b" ")
                time.sleep(0.02)


@pytest.mark.parametrize("of_sample", [False, True])
def test_a_server_that_drips_is_left(of_sample: bool) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Dripping) as server:
        server.daemon_threads = True
        threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True).start()
        address = parse_address(f"127.0.0.1:{server.server_address[1]}")
        refused = pytest.raises(MeasurementError, match=r"gave no whole answer to .* in 3 s")
        if of_sample:
            with RemoteNetwork(address, 10, 3.0) as remote, refused:
                remote.classify(SAMPLE)
        else:
            with refused:
                describe(address, 3.0)
        server.shutdown()


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b"[]",
        b"null",
        json.dumps({"model": 3}).encode(),
    ],
)
def test_a_server_of_something_else_is_one_line(body: bytes) -> None:
    refused = pytest.raises(MeasurementError, match="is not an offload server")
    with lying(reply(body)) as address, refused:
        describe(address, 5)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_classes": 1},
        {"input_shape": [0]},
        {"input_shape": [1] * 9},
        {"model": "a\x1b[2Jb"},
        {"model": "a" * 301},
    ],
)
def test_a_description_that_cannot_be_is_one_line(changes: dict[str, Any]) -> None:
    document = msgspec.to_builtins(SERVED) | changes
    refused = pytest.raises(MeasurementError, match="describes a network that cannot be")
    with lying(reply(json.dumps(document).encode())) as address, refused:
        describe(address, 5)
