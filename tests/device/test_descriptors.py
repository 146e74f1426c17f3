"""Want of file descriptors is named as what it is: nothing is absent because of it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.core.storage.files import check_descriptors

# In a process of its own, whose modules are loaded and which may open nothing more.
EXHAUSTED = """
import os, resource, sys
from pathlib import Path
from mansard.core.errors import DeviceError
{imports}
folder = Path(sys.argv[1])
os.open("/", os.O_RDONLY)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try:
    print("told", {call})
except DeviceError as error:
    print(error)
"""
CALLS = {
    "a system file": ("from mansard.device.system import read_text", "read_text(folder / 'f')"),
    "a folder": ("from mansard.device.system import glob", "glob(folder, '*')"),
    "an empty folder": ("from mansard.device.system import glob", "glob(folder / 'none', 'a*')"),
    "a device tree": ("from mansard.device.identity import _names", "_names(folder)"),
    "a setting": (
        "from mansard.device.clocks.settings import read_setting",
        "read_setting(folder, '/sys/f')",
    ),
    "the waits of threads": (
        "from mansard.inference.calls import ThreadTimes",
        "ThreadTimes().__enter__().find_threads()",
    ),
    "a folder of a board": (
        "from mansard.api.checks.board import _is_listable",
        "_is_listable(folder)",
    ),
    "what ncu said": ("from mansard.inference.counters.trial import _read", "_read(folder / 'f')"),
    "NVML": (
        "from mansard.device.cards import listed_cards",
        "listed_cards()",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_what_cannot_be_opened_is_not_absent(case: str, tmp_path: Path) -> None:
    imports, call = CALLS[case]
    (tmp_path / "f").write_text("1\n")
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/f").write_text("1\n")
    program = textwrap.dedent(EXHAUSTED).format(imports=imports, call=call)
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "too many open files" in done.stdout, done.stdout + done.stderr
    assert "ulimit -n" in done.stdout


@pytest.mark.parametrize(
    ("error", "is_want"),
    [
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), True),
        (OSError(errno.ENFILE, os.strerror(errno.ENFILE)), True),
        # What the dynamic linker says has no number.
        (OSError("libx.so.1: cannot open shared object file: Too many open files"), True),
        (OSError(errno.ENOENT, os.strerror(errno.ENOENT)), False),
        (OSError("libx.so.1: cannot open shared object file: No such file or directory"), False),
        (ValueError("no number"), False),
    ],
)
def test_only_the_want_of_descriptors_is_one(error: Exception, is_want: bool) -> None:
    if is_want:
        with pytest.raises(DeviceError, match=r"there: cannot be read: too many open files"):
            check_descriptors(error, "there")
    else:
        check_descriptors(error, "there")
