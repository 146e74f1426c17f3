"""The grammar of nvpmodel.conf.

::

    < PARAM TYPE=FILE|CLOCK NAME=name >      then lines  ARGUMENT path
    < PARAM TYPE=HWMON NAME=name >           then lines  ARGUMENT folder file
    < POWER_MODEL ID=number NAME=name >      then lines  PARAMETER ARGUMENT value
    < PM_CONFIG DEFAULT=number >
    < FAN_CONFIG DEFAULT=profile >           not read
    # comments, anywhere

Source: the head of every configuration file that NVIDIA ships describes it so. Files also
leave out spaces (``<PARAM TYPE=CLOCK NAME=EMC >``), and the path of an argument for a newer
kernel stands under the same name with ``_KNEXT``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from mansard.core.errors import InputError
from mansard.device.nvpmodel.config import Config, Param, Setting, Table
from mansard.device.nvpmodel.sections import Line, assemble

__all__ = ["Config", "Param", "Setting", "Table", "parse_config"]

_MAX_CHARACTERS = 1 << 18  # twelve times the longest file that NVIDIA ships
MAX_LINE = 1000  # characters; a path on a board has a hundred
_LINE_END = re.compile(r"\r\n|\r|\n")
_HEADER = re.compile(r"<\s*(\w+)([^<>]*)>?")


def parse_config(text: str, where: str) -> Config:
    """The configuration that ``text``, the file ``where``, holds.

    Lines that are no part of the grammar are kept in ``ignored``; a header that is none
    takes the lines below it along. Raises InputError for a text without any mode, for one
    too large or binary, and where two modes have one number or one name: setting one of
    them could set the other.
    """
    return assemble(_lines(text, where), where)


def text_lines(text: str, where: str) -> Iterator[tuple[int, str]]:
    """Number and stripped content of each line that has any; raises InputError."""
    if len(text) > _MAX_CHARACTERS:
        raise InputError(
            f"has {len(text):,} characters, no configuration of power modes is that long",
            where=where,
        )
    if "\0" in text:
        raise InputError("is a binary file, not a configuration of power modes", where=where)
    for number, raw in enumerate(_LINE_END.split(text.removeprefix("\ufeff")), start=1):
        line = raw.strip()
        if line:
            yield number, line


def _lines(text: str, where: str) -> Iterator[Line]:
    for number, raw in text_lines(text, where):
        line = raw.partition("#")[0].strip()
        if not line:
            continue
        header = _HEADER.fullmatch(line) if len(line) <= MAX_LINE else None
        if header is not None:
            yield Line(number, line, header[1], header[2])
        elif line.startswith("<"):
            yield Line(number, line, "", "")
        else:
            yield Line(number, line, None, line if len(line) <= MAX_LINE else "")
