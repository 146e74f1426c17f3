"""The client of an offload server: a connection that stays open, an answer for each sample."""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import msgspec

from mansard.core.errors import MeasurementError
from mansard.core.records import ServedNetwork
from mansard.core.text import printable
from mansard.inference.offloading.wire import (
    CLASSIFY_PATH,
    JSON,
    MOST_ANSWER_BYTES,
    NETWORK_PATH,
    Answer,
    Payload,
)
from mansard.inference.servers.connection import (
    Address,
    Connection,
    ConnectionClosedError,
    HttpError,
    ask,
)

TIMEOUT_S = 30.0  # of silence
_DECODE_ERRORS = (msgspec.DecodeError, ValueError, RecursionError)
_NOT_OURS = "start one with 'mansard offload serve MODEL.onnx', of this version of Mansard"
_MOST_TEXT = 300  # characters of a name that a server gives


class RemoteAnswer(NamedTuple):
    """The server's class of one sample, and what it took."""

    predicted: int
    round_trip_s: float
    server_s: float
    inference_s: float
    sent_bytes: int
    received_bytes: int


def describe(address: Address, timeout_s: float = TIMEOUT_S) -> ServedNetwork:
    """The network that is served there; raises MeasurementError in one line."""
    status, document = ask(address, "GET", NETWORK_PATH, timeout_s=timeout_s)
    if status != 200:
        raise HttpError(address, NETWORK_PATH, status, document)
    try:
        served = msgspec.convert(document, ServedNetwork)
    except _DECODE_ERRORS as error:
        raise _refused(address, f"is not an offload server ({printable(str(error))})") from error
    texts = [text for name, text in msgspec.structs.asdict(served).items() if isinstance(text, str)]
    is_named = all(len(text) <= _MOST_TEXT and printable(text) == text for text in texts)
    sizes = served.input_shape
    if not is_named or served.n_classes < 2 or len(sizes) > 8 or min(sizes, default=1) < 1:
        raise _refused(address, "describes a network that cannot be")
    return served


class RemoteNetwork:
    """A served network, by a connection that is opened before anything is timed."""

    def __init__(self, address: Address, n_classes: int, timeout_s: float = TIMEOUT_S) -> None:
        self._address, self._n_classes, self._timeout_s = address, n_classes, timeout_s
        self._connection = Connection(address, timeout_s)
        self._n_answers = 0  # of this connection
        self.n_reconnects = 0

    def __enter__(self) -> RemoteNetwork:
        self._connection.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.__exit__()

    def classify(self, payload: Payload) -> RemoteAnswer:
        """The server's answer; raises MeasurementError.

        A server may have closed an idle connection: then a new one is opened, once, and the time
        until the answer includes it.
        """
        headers = payload.headers
        start_s = time.monotonic()
        try:
            status, kind, body = self._post(payload.data, headers)
        except ConnectionClosedError:
            if not self._n_answers:
                raise
            self._connection.__exit__()
            self._connection = Connection(self._address, self._timeout_s).__enter__()
            self._n_answers = 0
            self.n_reconnects += 1
            status, kind, body = self._post(payload.data, headers)
        round_trip_s = time.monotonic() - start_s
        self._n_answers += 1
        answer = self._checked(status, kind, body, round_trip_s)
        return RemoteAnswer(
            answer.predicted,
            round_trip_s,
            answer.server_s,
            answer.inference_s,
            len(payload.data),
            len(body),
        )

    def _post(self, data: bytes, headers: dict[str, str]) -> tuple[int, str, bytes]:
        return self._connection.post(CLASSIFY_PATH, data, headers, MOST_ANSWER_BYTES)

    def _checked(self, status: int, kind: str, body: bytes, round_trip_s: float) -> Answer:
        if status != 200:
            raise HttpError(self._address, CLASSIFY_PATH, status, _document(body))
        if kind != JSON:
            raise _refused(self._address, f"answers with {printable(kind, 40)}, not with {JSON}")
        try:
            answer = msgspec.json.decode(body, type=Answer)
        except _DECODE_ERRORS as error:
            raise _refused(
                self._address, f"gives an answer that is not one ({printable(str(error))})"
            ) from error
        if not 0 <= answer.predicted < self._n_classes:
            raise _refused(
                self._address, f"answers class {answer.predicted} of {self._n_classes} classes"
            )
        times_s = (0.0, answer.inference_s, answer.server_s, round_trip_s)
        if not all(map(math.isfinite, times_s)) or list(times_s) != sorted(times_s):
            raise _refused(
                self._address,
                f"says that it took {answer.server_s:g} s, {answer.inference_s:g} s of them for "
                f"the network, in a round trip of {round_trip_s:g} s",
            )
        return answer


def _document(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except _DECODE_ERRORS:
        return None


def _refused(address: Address, what: str) -> MeasurementError:
    return MeasurementError(f"the server {what}", where=address.shown, fix=_NOT_OURS)
