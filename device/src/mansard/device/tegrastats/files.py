"""What programs wrap around a line of tegrastats: colours, quotes, a container's JSON log.

    ESC[32mRAM … 1438mW/1438mWESC[0m                        a terminal's colours
    {"log":"RAM …\n","stream":"stdout","time":"2026-…Z"}    Docker's json-file driver
    b'RAM …\n'    "RAM …"                                   a script that printed the bytes

Sources: ECMA-48, control sequences (CSI); Docker's documentation, "JSON File logging driver".
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from mansard.core.errors import InputError
from mansard.core.storage.files import storage_error

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]{0,32}[@-~]|[()][A-Z0-9])")
_QUOTED = re.compile(r"b?([\"'])(.*?)(?:\\[rn]){0,2}\1,?\s*", re.DOTALL)
_WRAPS = ("{", '"', "'", "b'", 'b"')


class _LogEntry(msgspec.Struct):
    log: str
    time: str = ""


_ENTRIES = msgspec.json.Decoder(_LogEntry)


def unwrap(line: str) -> str:
    """The line without its wrapping, whose time is put in front; other lines are unchanged."""
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if not line.startswith(_WRAPS):
        return line
    if line[0] == "{":
        return _of_entry(line)
    match = _QUOTED.fullmatch(line)
    return match[2] if match else line


def _of_entry(line: str) -> str:
    try:
        entry = _ENTRIES.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: half a character
        return line
    return f"{entry.time} {entry.log}" if entry.time else entry.log


_CHUNK_BYTES = 1 << 18
_LONGEST_LINE = 1 << 16  # characters; a real line has under 2000
_GZIP = b"\x1f\x8b"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class _Bytes(Protocol):
    def read1(self, size: int, /) -> bytes: ...


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a log, without their ends, in constant memory.

    Bytes that are no text become replacement characters; a line over 64 KiB is cut there. If
    the log was cut off within its last line, that line's last token may be half a number: it
    is set apart as ``…token``, which fits no field. Raises StorageError, or InputError for a
    broken gzip file.
    """
    try:
        with path.open("rb") as raw:
            is_zipped = raw.peek(2)[:2] == _GZIP  # a pipe cannot be read twice, but looked into
            stream: _Bytes = gzip.GzipFile(fileobj=raw) if is_zipped else raw
            yield from _lines(stream)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"is a broken gzip file: {error}",
            where=str(path),
            fix="zcat FILE > whole.log saves what can be read",
        ) from error
    except OSError as error:
        raise storage_error(error, path) from error


def _lines(stream: _Bytes) -> Iterator[str]:
    head = stream.read1(_CHUNK_BYTES)
    encoding = next((name for mark, name in _MARKS if head.startswith(mark)), "utf-8")
    decode = codecs.getincrementaldecoder(encoding)(errors="replace").decode
    rest = ""
    n_lines = 0
    while head:
        text = rest + decode(head)
        if "\r" in text:  # alone where a terminal was recorded
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        rest = lines.pop()[:_LONGEST_LINE]
        n_lines += len(lines)
        yield from lines
        head = stream.read1(_CHUNK_BYTES)
    rest += decode(b"", True)
    if rest:
        yield _doubted(rest) if n_lines else rest


def _doubted(line: str) -> str:
    """A last line without its end, with its last token set apart if it may have been cut.

    A token that ends with its unit or bracket is whole; one that ends with a digit may have
    had more of them. A log of one line alone was copied by hand, and is believed.
    """
    if not line[-1].isdecimal():
        return line
    before, space, last = line.rpartition(" ")
    return f"{before}{space}…{last}"
