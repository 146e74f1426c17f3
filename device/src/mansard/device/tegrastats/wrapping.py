"""What programs wrap around a line of tegrastats: colours, quotes, a container's JSON log.

    ESC[32mRAM … 1438mW/1438mWESC[0m                        a terminal's colours
    {"log":"RAM …\\n","stream":"stdout","time":"2026-…Z"}    Docker's json-file driver
    b'RAM …\\n'    "RAM …"                                   a script that printed the bytes

Sources: ECMA-48, control sequences (CSI); Docker's documentation, "JSON File logging driver".
"""

from __future__ import annotations

import re

import msgspec

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]{0,32}[@-~]|[()][A-Z0-9])")
_QUOTED = re.compile(r"b?([\"'])(.*?)(?:\\[rn]){0,2}\1,?\s*", re.DOTALL)
_WRAPS = ("{", '"', "'", "b'", 'b"')


class _Entry(msgspec.Struct):
    log: str
    time: str = ""


_ENTRIES = msgspec.json.Decoder(_Entry)


def unwrap(line: str) -> str:
    """The line itself, with the time that its wrapping has in front; others stay as they are."""
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    if not line.startswith(_WRAPS):
        return line
    if line[0] == "{":
        return _of_entry(line)
    found = _QUOTED.fullmatch(line)
    return found[2] if found else line


def _of_entry(line: str) -> str:
    try:
        entry = _ENTRIES.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # ValueError: half a character
        return line
    return f"{entry.time} {entry.log}" if entry.time else entry.log
