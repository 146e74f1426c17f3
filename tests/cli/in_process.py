"""The command line inside this process, for tests whose subject is no process of its own.

A new process imports NumPy, polars and Altair again, which takes a CPU 0.4 to 2 s.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from unittest import mock

from mansard.cli.__main__ import run
from tests.cli.json_outputs import check_output


def mansard(*words: object, cwd: Path | None = None) -> CompletedProcess[str]:
    """Exit code, stdout and stderr of ``mansard`` with these words; its stdin is empty."""
    arguments = [str(word) for word in words]
    out, err = _Stream(io.BytesIO()), _Stream(io.BytesIO())
    before = Path.cwd()
    os.chdir(cwd or before)
    try:
        with mock.patch.multiple(sys, stdin=_Stream(io.BytesIO()), stdout=out, stderr=err):
            code = run(arguments)
    finally:
        os.chdir(before)
    check_output(out.text())
    return CompletedProcess(arguments, code, out.text(), err.text())


class _Stream(io.TextIOWrapper):
    def __init__(self, content: io.BytesIO) -> None:
        super().__init__(content, encoding="utf-8", errors="backslashreplace")
        self._content = content

    def text(self) -> str:
        self.flush()
        return self._content.getvalue().decode()
