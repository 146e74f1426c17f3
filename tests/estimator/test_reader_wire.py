"""Protobuf's wire format, byte by byte as its documentation writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import ModelError
from mansard.core.formats.protobuf import (
    count_packed,
    encode,
    field_at,
    fields,
    messages,
    packed,
    signed,
    signed32,
    varint,
)


def test_varints() -> None:
    assert varint(b"\x00", 0) == (0, 1)
    assert varint(b"\x7f", 0) == (127, 1)
    # 150 = 1·128 + 22: low seven bits first, 0x96 = 128 + 22
    assert varint(b"\xff\x96\x01", 1) == (150, 3)
    # more bytes than needed are allowed
    assert varint(b"\x85\x80\x00", 0) == (5, 3)
    # minus one: ten bytes, sixty-four ones
    assert varint(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)
    # what stands above bit 63 is dropped
    assert varint(b"\xff" * 9 + b"\x7f", 0) == (2**64 - 1, 10)


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 5, b"\x80" * 10 + b"\x01", b"\xff" * 11])
def test_varints_without_end(data: bytes) -> None:
    with pytest.raises(ModelError, match="cut short or damaged"):
        varint(data, 0)


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_what_is_encoded_is_read_back(value: int, more: bytes) -> None:
    assert varint(encode(value) + more, 0) == (value, len(encode(value)))
    assert signed(value) % 2**64 == value
    assert -(2**63) <= signed(value) < 2**63
    assert signed32(value) % 2**32 == value % 2**32
    assert -(2**31) <= signed32(value) < 2**31


def test_fields_of_every_kind() -> None:
    data = (
        b"\x08\x96\x01"  # field 1, a varint of two bytes
        b"\x11ABCDEFGH"  # field 2, eight bytes
        b"\x1a\x02hi"  # field 3, two bytes
        b"\x25\x00\x00\x80\x3f"  # field 4, four bytes
        b"\x8a\x01\x00"  # field 17, no bytes: 17·8 + 2 = 138
    )
    expected = [(8, 150), (17, b"ABCDEFGH"), (26, b"hi"), (37, b"\0\0\x80\x3f"), (138, b"")]
    assert list(fields(data)) == expected
    assert list(messages(data, (26, 138))) == [(26, b"hi"), (138, b"")]
    assert list(messages(b"??" + data + b"?", (26,), 2, 2 + len(data))) == [(26, b"hi")]
    assert field_at(data, 12) == (26, 14, 16)


def test_long_contents() -> None:
    for size in (127, 128, 300, 16_383, 16_384, 70_000):
        data = b"\x0a" + encode(size) + b"x" * size + b"\x12\x01y"
        assert list(fields(data)) == [(10, b"x" * size), (18, b"y")]
        assert list(messages(data, (18,))) == [(18, b"y")]


def test_groups_are_skipped() -> None:
    # field 3 opens (27) and closes (28); inside: a varint, bytes, fixed ones, another group
    group = b"\x1b\x08\x96\x01\x12\x03abc\x11ABCDEFGH\x25WXYZ\x2b\x2c\x1c"
    assert list(fields(group + b"\x08\x05")) == [(8, 5)]
    assert list(messages(group + b"\x12\x01y", (18,))) == [(18, b"y")]


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a\x05abcd",  # longer than what is there
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",  # 2^64 - 1 bytes
        b"\x11ABCDEFG",
        b"\x25ABC",
        b"\x08",
        b"\x0a",
        b"\x00\x01",  # field 0
        b"\x02\x00",
        b"\x0e\x00",  # kinds 6 and 7 do not exist
        b"\x0f\x00",
        b"\x80\x80\x80\x80\x20\x01",  # a field number of more than 29 bits
        b"\x1c",  # a group that nobody opened
        b"\x1b\x08\x01",  # one that nobody closes
        b"\x1b\x2b\x1c\x2c",  # two that overlap
        b"\x1b" * 101 + b"\x1c" * 101,
    ],
)
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(ModelError, match="cut short or damaged"):
        list(fields(data))
    with pytest.raises(ModelError, match="cut short or damaged"):
        list(messages(data, ()))


def test_packed_lists() -> None:
    assert list(packed(b"\x01\x02\x7f")) == [1, 2, 127]
    assert list(packed(b"\x01\x96\x01\x02")) == [1, 150, 2]
    assert list(packed(b"")) == []
    assert count_packed(b"\x01\x96\x01\x02") == 3
    for broken in (b"\x01\x80", b"\x80" * 11 + b"\x01"):
        with pytest.raises(ModelError):
            list(packed(broken))


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_packed_lists_hold_what_was_put_in(values: list[int]) -> None:
    data = b"".join(map(encode, values))
    assert list(packed(data)) == values
    assert count_packed(data) == len(values)


@given(st.binary(max_size=60))
def test_both_ways_to_walk_agree(data: bytes) -> None:
    keys = range(2, 2**11, 8)
    try:
        expected = [(key, held) for key, held in fields(data) if key in keys]
    except ModelError:
        with pytest.raises(ModelError):
            list(messages(data, keys))
        return
    assert list(messages(data, keys)) == expected
