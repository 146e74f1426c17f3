"""Lines as they come over a pipe, cut anywhere; silence; lines that never end."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from mansard.core.processes.line_channel import LineReader


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


def test_an_endless_line_is_the_end() -> None:
    reader, writer = os.pipe()
    try:
        lines = LineReader(reader, max_bytes=100)
        os.write(writer, b"one\n" + b"x" * 101)
        assert lines.next() == b"one"
        assert lines.next() is None
    finally:
        os.close(reader)
        os.close(writer)
