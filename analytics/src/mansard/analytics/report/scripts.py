"""The scripts that draw the charts of a page, put together by vl-convert.

That takes more than a second and holds Python's lock: a process beside this one does it while the
page's data are computed. This module imports nothing heavy, so that it can be asked first.
"""

from __future__ import annotations

import subprocess
import sys
from functools import cache

_BUNDLE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"


@cache
def begin() -> subprocess.Popen[bytes] | None:
    """Begin to put them together, once for a process; None where no process can be started."""
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-c", _BUNDLE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


@cache
def bundle() -> str:
    """The scripts, as one text."""
    process = begin()
    if process is not None:
        text, _ = process.communicate()
        if process.returncode == 0 and text:
            return text.decode()
    import vl_convert

    # The stub of vl-convert forgets that the snippet has a default.
    return vl_convert.javascript_bundle()  # type: ignore[call-arg]
