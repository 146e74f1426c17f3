"""Frames and lines of a container, cut anywhere, and hostile ones."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.containers.stream import Attached, Frames, split_lines
from mansard.core.errors import ContainerError
from mansard.core.processes.line_channel import LineSplitter

pieces = st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(max_size=40)), max_size=12)


def frame(output: int, data: bytes) -> bytes:
    return bytes([output, 0, 0, 0]) + len(data).to_bytes(4, "big") + data


def cut(data: bytes, lengths: list[int]) -> list[bytes]:
    parts = []
    for length in lengths:
        parts.append(data[:length])
        data = data[length:]
    return [*parts, data]


@given(pieces, st.lists(st.integers(0, 30), max_size=30))
def test_frames_give_each_output_whole_wherever_they_are_cut(
    sent: list[tuple[int, bytes]], lengths: list[int]
) -> None:
    frames = Frames()
    received = {"stdout": b"", "stderr": b""}
    for part in cut(b"".join(frame(*one) for one in sent), lengths):
        for chunk in frames.feed(part):
            received[chunk.output] += chunk.data
    assert received["stdout"] == b"".join(data for output, data in sent if output == 1)
    assert received["stderr"] == b"".join(data for output, data in sent if output == 2)


@given(st.binary(max_size=200), st.lists(st.integers(0, 30), max_size=30))
def test_lines_are_the_same_wherever_they_are_cut(data: bytes, lengths: list[int]) -> None:
    lines = split_lines()
    found = [line for part in cut(data, lengths) for line in lines.feed(part)]
    assert found == data.split(b"\n")[:-1]  # what follows the last end is not a line yet


@given(st.binary(min_size=8, max_size=64))
def test_any_bytes_are_a_frame_or_one_error(data: bytes) -> None:
    if data[0] in {1, 2} and data[1:4] == b"\0\0\0":
        n_bytes = int.from_bytes(data[4:8], "big")
        (first, *_) = [*Frames().feed(data[: 8 + n_bytes]), None]
        assert (first.data if first else b"") == data[8 : 8 + n_bytes]
    else:
        with pytest.raises(ContainerError, match="no frames"):
            list(Frames().feed(data))


@pytest.mark.parametrize("data", [b"HTTP/1.1 500", b"\x00\0\0\0\0\0\0\1x", b"\x01\0\1\0\0\0\0\1x"])
def test_a_stream_without_frames_is_an_error(data: bytes) -> None:
    with pytest.raises(ContainerError, match="no frames"):
        list(Frames().feed(data))


def test_a_line_that_never_ends_is_not_kept_for_ever() -> None:
    lines = LineSplitter(100, source="the container", error=ContainerError)
    assert list(lines.feed(b"x" * 100 + b"\n")) == [b"x" * 100]
    assert list(lines.feed(b"y" * 60)) == []
    with pytest.raises(ContainerError, match="more than 100 bytes"):
        list(lines.feed(b"y" * 41))


def test_a_long_message_is_sent_while_an_answer_is_awaited() -> None:
    ours, theirs = socket.socketpair()
    attached = Attached(ours)
    message = b"job" * 1_000_000  # more than the system keeps between the two
    taken = bytearray()

    def take() -> None:
        while len(taken) < len(message):
            taken.extend(theirs.recv(1 << 16))
        theirs.sendall(frame(1, b"thanks"))

    other = threading.Thread(target=take)
    other.start()
    attached.send(message)
    assert next(attached.receive(20)).data == b"thanks"
    other.join()
    assert bytes(taken) == message
    attached.close()
    theirs.close()


def test_signs_of_life_are_sent_until_the_input_is_closed() -> None:
    ours, theirs = socket.socketpair()
    attached = Attached(ours, beat_s=0.01)

    def end_at_the_second() -> None:
        with suppress(BlockingIOError):  # there is none yet
            if len(theirs.recv(2, socket.MSG_PEEK | socket.MSG_DONTWAIT)) == 2:
                raise EOFError

    with pytest.raises(EOFError):
        list(attached.receive(300, end_at_the_second))
    attached.close_input()
    with pytest.raises(TimeoutError):
        list(attached.receive(0.05))
    received = theirs.recv(1000)
    assert set(received) == {ord("\n")}
    assert len(received) >= 2
    assert theirs.recv(1000) == b""
    attached.close()
    theirs.close()


def test_input_that_is_refused_does_not_hide_what_was_said() -> None:
    ours, theirs = socket.socketpair()
    attached = Attached(ours)
    theirs.sendall(frame(2, b"no thanks"))
    theirs.close()
    attached.send(b"job\n")
    assert [(chunk.output, chunk.data) for chunk in attached.receive(5)] == [
        ("stderr", b"no thanks")
    ]
    assert attached.has_ended
    attached.close_input()
    attached.close()
