"""Simulated boards as fixtures, and how tests wait for them, read them and run their tools."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from mansard.simulator import create_board, running
from tests.waiting import awaited


@pytest.fixture
def board(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A simulated AGX Orin, switched on; the mark ``board`` says what is different."""
    tmp_path.chmod(0o755)  # everybody may look at it, as at a board's /sys
    mark = request.node.get_closest_marker("board")
    with a_board(tmp_path, **(mark.kwargs if mark else {})) as root:
        yield root


@contextmanager
def a_board(
    folder: Path, *, is_on: bool = True, is_small: bool = False, is_metered: bool = True
) -> Iterator[Path]:
    """A simulated AGX Orin; see ``small_board`` for a small one."""
    if is_small:
        root = small_board("agx-orin", folder, is_metered=is_metered)
    else:
        root = create_board("agx-orin", folder)
    with running(root) if is_on else nullcontext():
        yield root


@pytest.fixture
def agx_orin(tmp_path: Path) -> Path:
    """A simulated AGX Orin in its default mode, 30W; nothing moves by itself."""
    return create_board("agx-orin", tmp_path)


@pytest.fixture
def running_agx_orin(agx_orin: Path) -> Iterator[Path]:
    """The same, switched on: its kernel answers and its sensors move."""
    with running(agx_orin) as root:
        yield root


def small_board(name: str, folder: Path, *, is_metered: bool = False) -> Path:
    """A simulated board that is measured in little time.

    Its cores have caches of the first level alone: the profile "brief" has 10 trials for it, 6
    chains and 2 streams in L1 and in memory, instead of 14. Without power monitors, as some
    carrier boards are, no trial waits for windows of energy.
    """
    root = create_board(name, folder)
    needless = [*(root / CPU).glob("cpu*/cache/index[23]")]
    if not is_metered:
        needless += (root / "sys/bus/i2c/drivers").iterdir()
    for path in needless:
        shutil.rmtree(path)
    return root


def run(
    root: Path, tool: str, *arguments: str, answer: str = ""
) -> subprocess.CompletedProcess[str]:
    """One of the board's tools, to its end."""
    folder = "usr/sbin" if tool == "nvpmodel" else "usr/bin"
    command = [str(root / folder / tool), *arguments]
    return subprocess.run(
        command, input=answer, capture_output=True, text=True, timeout=300, check=False
    )


def has_caught_up(root: Path) -> bool:
    """Whether the simulated kernel has answered all that was written and set so far.

    It answers in that order; what it answers here is junk, which it replaces.
    """
    switch = root / CPU / "cpu1/online"
    switch.write_text("junk\n")
    return awaited(lambda: switch.read_text() == "1\n")


def text(root: Path, path: str) -> str:
    return (root / path).read_bytes().decode().strip("\0\n ")


def number(root: Path, path: str) -> int:
    return int(text(root, path))


CPU = "sys/devices/system/cpu"
GPU = "sys/class/devfreq/17000000.gpu"
EMC = "sys/kernel/debug/bpmp/debug/clk/emc"
INA = "sys/class/hwmon/hwmon3"
