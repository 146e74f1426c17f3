"""The scripts that draw the charts of a page, put together by vl-convert.

That takes more than a second and holds Python's lock: a process beside this one does it while the
page's data are computed, and the next page finds what it made in the user's folder of caches. This
module imports nothing heavy, so that it can be asked first.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

from mansard.core.errors import MansardError
from mansard.core.processes.programs import finish_program, start_program
from mansard.core.storage.files import make_folder, read_whole, write_atomic

_BUNDLE = "import sys, vl_convert; sys.stdout.buffer.write(vl_convert.javascript_bundle().encode())"
_LIMIT_S, _MAX_BYTES = 120.0, 1 << 26  # it takes two seconds, and has 1 MB


@cache
def begin() -> subprocess.Popen[bytes] | None:
    """Start the process that bundles them, once; None if they are cached or it cannot start."""
    if _cached():
        return None
    try:
        return start_program([sys.executable, "-I", "-c", _BUNDLE])
    except MansardError:
        return None


@cache
def bundle() -> str:
    """The scripts, as one text."""
    text = _cached()
    if not text:
        text = _made()
        with contextlib.suppress(MansardError, RuntimeError):
            folder = _folder()
            make_folder(folder, folder)
            write_atomic(folder / _name(), f"{_digest(text)}\n{text}".encode(), folder)
    return text


def _made() -> str:
    process = begin()
    if process is not None:
        with contextlib.suppress(MansardError):
            done = finish_program(process, timeout_s=_LIMIT_S, max_bytes=_MAX_BYTES)
            if done.exit_code == 0 and done.output:
                return done.text
    import vl_convert

    # The stub of vl-convert forgets that the snippet has a default.
    return vl_convert.javascript_bundle()  # type: ignore[call-arg]


def _cached() -> str:
    """The cached scripts if their hash fits; else empty."""
    with contextlib.suppress(MansardError, RuntimeError, UnicodeDecodeError):
        folder = _folder()
        digest, _, text = read_whole(folder / _name(), folder).decode().partition("\n")
        if digest == _digest(text):
            return text
    return ""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _folder() -> Path:
    """The folder of the cache; RuntimeError without a home folder."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "mansard"


def _name() -> str:
    """The cached file's name: one for each version of vl-convert."""
    return f"scripts-{version('vl-convert-python')}.js"
