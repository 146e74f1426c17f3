"""Lines as they come over a pipe, cut anywhere; silence; errors that cross it."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core import errors
from mansard.core.errors import DeviceError, MansardError
from mansard.core.line_channel import LineReader, encode_line, from_wire, to_wire
from mansard.device.controller.messages import (
    ErrorAnswer,
    Question,
    Reply,
    decode,
)


def read_all(data: bytes, sizes: list[int]) -> list[bytes]:
    """The lines of ``data``, written to a pipe in pieces of these sizes."""
    reader, writer = os.pipe()
    try:
        questions, lines = LineReader(reader, quiet_s=0.001), []
        for size in [*sizes, len(data)]:
            piece, data = data[:size], data[size:]
            if piece:
                os.write(writer, piece)
                questions.read_more()
        os.close(writer)
        while (line := questions.next()) is not None:
            lines.append(line)
        return lines
    finally:
        os.close(reader)


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b" ")), max_size=8),
    st.binary(max_size=5).map(lambda rest: rest.replace(b"\n", b" ")),
    st.lists(st.integers(1, 12), max_size=12),
)
def test_lines_arrive_whole_however_they_are_cut(
    lines: list[bytes], rest: bytes, sizes: list[int]
) -> None:
    data = b"".join(line + b"\n" for line in lines) + rest
    # Empty lines are signs of life, and half a line at the end is none.
    assert read_all(data, sizes) == [line for line in lines if line]


def test_silence_is_the_end() -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, b"one\nhalf")
        questions = LineReader(reader, quiet_s=0.01)
        assert questions.next() == b"one"
        assert questions.next() is None
        os.write(writer, b" more\n")  # too late
        assert questions.next() is None
    finally:
        os.close(reader)
        os.close(writer)


KINDS = [
    one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, MansardError)
]


@given(
    st.sampled_from(KINDS),
    st.text(max_size=60),
    st.none() | st.text(min_size=1, max_size=20),
    st.none() | st.text(max_size=20),
)
def test_every_error_arrives_as_what_it_was(
    kind: type[MansardError], what: str, where: str | None, fix: str | None
) -> None:
    error = kind(what, where=where, fix=fix)
    reply = decode(encode_line(Reply(1, ErrorAnswer(to_wire(error)))), Reply)
    assert isinstance(reply.answer, ErrorAnswer)
    found = from_wire(reply.answer.error, "bench-1")
    assert type(found) is kind
    assert (found.what, found.fix, found.exit_code) == (error.what, error.fix, error.exit_code)
    assert found.where == (f"bench-1: {error.where}" if error.where else "bench-1")


@given(st.binary(max_size=80) | st.text(max_size=60).map(str.encode))
def test_any_other_line_is_refused_in_one_clear_error(line: bytes) -> None:
    with pytest.raises(DeviceError, match="use the same version") as caught:
        decode(line, Question)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("depth", [10, 100_000])
def test_a_line_nested_too_deep_is_refused(depth: int) -> None:
    with pytest.raises(DeviceError, match="is not of Mansard"):
        decode(b'{"number":1,"ask":' + b"[" * depth, Question)
