"""The scripts that draw the charts of a page, put together by vl-convert.

That takes more than a second and holds Python's lock: a process beside this one does it while the
page's data are computed. This module imports nothing heavy, so that it can be asked first.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from functools import cache

from mansard.core.errors import MansardError
from mansard.core.programs import finish_program, start_program

_BUNDLE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
_LIMIT_S, _MAX_BYTES = 120.0, 1 << 26  # it takes two seconds, and has 1 MB


@cache
def begin() -> subprocess.Popen[bytes] | None:
    """Begin to put them together, once for a process; None where no process can be started."""
    try:
        return start_program([sys.executable, "-I", "-c", _BUNDLE])
    except MansardError:
        return None


@cache
def bundle() -> str:
    """The scripts, as one text."""
    process = begin()
    if process is not None:
        with contextlib.suppress(MansardError):
            done = finish_program(process, timeout_s=_LIMIT_S, max_bytes=_MAX_BYTES)
            if done.exit_code == 0 and done.output:
                return done.text
    import vl_convert

    # The stub of vl-convert forgets that the snippet has a default.
    return vl_convert.javascript_bundle()  # type: ignore[call-arg]
