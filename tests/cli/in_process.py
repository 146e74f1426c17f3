"""The command line inside this process, for tests whose subject is no process of its own.

A new process imports NumPy, polars and Altair again, which takes a CPU 0.4 to 2 s.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from types import FrameType
from typing import NamedTuple
from unittest import mock

from mansard.cli.__main__ import run
from tests.cli.json_outputs import check_output

_PIPE_WIDTH = 80


def mansard(*words: object, cwd: Path | None = None) -> CompletedProcess[str]:
    """Exit code, stdout and stderr of ``mansard`` with these words; its stdin is empty.

    No table on stdout may be wider than a pipe's 80 columns.
    """
    arguments = [str(word) for word in words]
    before = Path.cwd()
    os.chdir(cwd or before)
    try:
        with streams() as printed:
            code = run(arguments)
    finally:
        os.chdir(before)
    done = CompletedProcess(arguments, code, *printed.texts())
    check_output(done.stdout)
    if "COLUMNS" not in os.environ:
        assert wide_rows(done.stdout) == []
    return done


def wide_rows(text: str) -> list[str]:
    """Rows of tables that are wider than 80 columns.

    Sentences may be longer, those of ``doctor`` too: in a pipe they are whole. Of a row two blanks
    part cells; a row of one word, which may be a long path, has none. JSON is no table.
    """
    lines = [] if text.startswith(("{", "[")) else text.splitlines()
    between_cells = re.compile(r"[^ :] {2,}[^ ]")  # not ``set:  command``
    of_doctor = re.compile(r"(\x1b\[\d+m)?(ok|missing|warning|broken)\b| +→ ")
    return [
        line
        for line in lines
        if len(line) > _PIPE_WIDTH and between_cells.search(line) and not of_doctor.match(line)
    ]


class Printed(NamedTuple):
    """What a command wrote."""

    out: _Stream
    err: _Stream

    def texts(self) -> tuple[str, str]:
        """Stdout and stderr."""
        return self.out.text(), self.err.text()


@contextlib.contextmanager
def streams(width: int | None = None) -> Iterator[Printed]:
    """Other streams while the block runs: pipes, or with ``width`` a terminal without colours."""
    printed = Printed(_Stream(width), _Stream(width))
    terminal = {} if width is None else {"COLUMNS": str(width), "NO_COLOR": "1", "TERM": "dumb"}
    with (
        mock.patch.dict(os.environ, terminal),
        mock.patch.multiple(sys, stdin=_Stream(None), stdout=printed.out, stderr=printed.err),
    ):
        yield printed


class _Stream(io.TextIOWrapper):
    """A pipe, or a terminal of ``width`` columns, which knows what was written to it.

    ``printers``: by which functions; ``whole``: lines that are to be copied.
    """

    def __init__(self, width: int | None) -> None:
        self._content = io.BytesIO()
        super().__init__(self._content, encoding="utf-8", errors="backslashreplace")
        self._is_terminal = width is not None
        self.printers: set[tuple[str, str]] = set()
        self.whole: set[str] = set()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        if self._is_terminal:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and "/mansard/cli/" in frame.f_code.co_filename:
                place = frame.f_code.co_filename.rpartition("/mansard/cli/")[2]
                self.printers.add((place, frame.f_code.co_name))
                if frame.f_code.co_name == "print_whole":
                    self.whole |= set(text.splitlines())
                frame = frame.f_back
        return super().write(text)

    def text(self) -> str:
        self.flush()
        return self._content.getvalue().decode()
