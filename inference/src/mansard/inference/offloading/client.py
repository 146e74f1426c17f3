"""The client of an offload server: a connection that stays open, an answer for each sample."""

from __future__ import annotations

import math
import threading
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
    Payload,
    ServedAnswer,
)
from mansard.inference.servers.connection import (
    Address,
    Connection,
    ConnectionClosedError,
    HttpError,
)

TIMEOUT_S = 30.0  # until an answer is whole
_LOOK_S = 0.25  # between two looks at the clock
_MOST_DESCRIPTION_BYTES = 1 << 20
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
    with _Exchange(address, timeout_s) as exchange:
        status, _, body = exchange.answer("GET", NETWORK_PATH, None, {}, _MOST_DESCRIPTION_BYTES)
    document = _document(body)
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


class _Exchange:
    """One connection whose answers have to be whole within ``timeout_s``.

    A socket's own timeout is that of silence: a server that sends a byte now and then would keep
    it waiting for ever. A thread looks at the clock instead, beside the requests that are timed.
    """

    def __init__(self, address: Address, timeout_s: float) -> None:
        self._connection, self._timeout_s = Connection(address, timeout_s), timeout_s
        self._address = address
        self._end_s, self._is_cut = math.inf, False
        self._is_over = threading.Event()
        self._watch = threading.Thread(target=self._cut_late, name="late answers", daemon=True)

    def __enter__(self) -> _Exchange:
        self._connection.__enter__()
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._watch.join()
        self._connection.__exit__()

    def answer(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], most_bytes: int
    ) -> tuple[int, str, bytes]:
        """Status, type and body; raises MeasurementError, ConnectionClosedError."""
        self._end_s = time.monotonic() + self._timeout_s
        try:
            return self._connection.exchange(method, path, data, headers, most_bytes)
        except MeasurementError as error:
            if not self._is_cut:
                raise
            raise MeasurementError(
                f"the server gave no whole answer to {path} in {self._timeout_s:g} s",
                where=self._address.shown,
                fix="give it longer, with --timeout",
            ) from error
        finally:
            self._end_s = math.inf

    def _cut_late(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            if time.monotonic() > self._end_s:
                self._is_cut = True
                self._connection.cut()


class RemoteNetwork:
    """A served network, by a connection that is opened before anything is timed."""

    def __init__(self, address: Address, n_classes: int, timeout_s: float = TIMEOUT_S) -> None:
        self._address, self._n_classes, self._timeout_s = address, n_classes, timeout_s
        self._exchange = _Exchange(address, timeout_s)
        self._n_answers = 0  # of this connection
        self.n_reconnects = 0

    def __enter__(self) -> RemoteNetwork:
        self._exchange.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._exchange.__exit__()

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
            self._exchange.__exit__()
            self._exchange = _Exchange(self._address, self._timeout_s).__enter__()
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
        return self._exchange.answer("POST", CLASSIFY_PATH, data, headers, MOST_ANSWER_BYTES)

    def _checked(self, status: int, kind: str, body: bytes, round_trip_s: float) -> ServedAnswer:
        if status != 200:
            raise HttpError(self._address, CLASSIFY_PATH, status, _document(body))
        if kind != JSON:
            raise _refused(self._address, f"answers with {printable(kind, 40)}, not with {JSON}")
        try:
            answer = msgspec.json.decode(body, type=ServedAnswer)
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
