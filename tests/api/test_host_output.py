"""What programs on hosts print, by lines with the host's name or byte by byte."""

from __future__ import annotations

import os
import tempfile

from hypothesis import example, given
from hypothesis import strategies as st

from mansard.core.errors import ProgramFailed
from mansard.core.processes.line_channel import WireError, from_wire, to_wire
from mansard.sweeps.host_targets import HostOutput

PIECES = st.lists(st.binary(max_size=20), max_size=8)


def written(prefix: str, pieces: list[bytes]) -> bytes:
    with tempfile.TemporaryFile() as file:
        output = HostOutput(prefix, file.fileno())
        for piece in pieces:
            output.write("stdout", piece)
        output.end()
        return os.pread(file.fileno(), 1 << 20, 0)


@given(PIECES)
def test_one_host_alone_writes_what_came(pieces: list[bytes]) -> None:
    assert written("", pieces) == b"".join(pieces)


@given(PIECES)
@example([b"a\nb", b"c\n", b"d"])
def test_of_several_hosts_each_line_has_a_name(pieces: list[bytes]) -> None:
    # However the bytes are cut: a\nbc\nd is three lines.
    lines = b"".join(pieces).split(b"\n")
    whole = lines[:-1] if not lines[-1] else lines
    assert written("near: ", pieces) == b"".join(b"near: " + line + b"\n" for line in whole)


def test_an_exit_code_crosses_the_wire_and_no_other_does() -> None:
    failed = from_wire(to_wire(ProgramFailed("ended", 7, where="a", fix="b")), "near")
    assert (type(failed), failed.exit_code, failed.where) == (ProgramFailed, 7, "near: a")
    # A host cannot make a failure a success, nor an exit code that there is not.
    for kind, code in (("ProgramFailed", 0), ("ProgramFailed", 256), ("DeviceError", 9)):
        assert from_wire(WireError(kind, "x", None, None, code)).exit_code == 1
