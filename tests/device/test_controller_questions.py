"""Errors that cross a pipe arrive as what they were; a line that is no message is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core import errors
from mansard.core.errors import DeviceError, MansardError
from mansard.core.processes.line_channel import encode_line, from_wire, to_wire
from mansard.device.controller.messages import (
    ErrorAnswer,
    NumberedAsk,
    Reply,
    decode,
)

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
        decode(line, NumberedAsk)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("depth", [10, 100_000])
def test_a_line_nested_too_deep_is_refused(depth: int) -> None:
    with pytest.raises(DeviceError, match="is not of Mansard"):
        decode(b'{"number":1,"ask":' + b"[" * depth, NumberedAsk)
