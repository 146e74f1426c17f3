"""One sweep at a time: the lock ends with its process, and says who has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.device.holding.board_lock import board_lock
from mansard.device.holding.hold import hold_machine
from mansard.device.holding.journal import find_journal, observe, write_journal
from mansard.device.holding.restoring import restore
from mansard.simulator import snapshot
from tests.device.clock_trees import make_orin

HOLDER = """
import os, sys, time
from pathlib import Path
from mansard.device.holding.board_lock import board_lock

with board_lock(Path(sys.argv[1])):
    if len(sys.argv) > 2:
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.write(writing, b"alive")
            time.sleep(60)  # a child that lives on must not keep the lock
            os._exit(0)
        os.read(reading, 5)
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def another_sweep(root: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", HOLDER, str(root), *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_a_second_sweep_is_told_who_holds_the_machine(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    before = snapshot(root)
    with another_sweep(root) as process:
        line = (
            rf"in use by another sweep, process {process.pid} since 20[0-9-]+T[0-9:]+\+00:00; wait"
        )
        with pytest.raises(DeviceError, match=line), hold_machine(root):
            pytest.fail("two sweeps hold the machine")
    with hold_machine(root):
        pass
    assert snapshot(root) == before  # nothing of the lock is left


def test_a_killed_sweep_holds_nothing_even_if_a_child_of_it_lives(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    with another_sweep(root, "fork") as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with board_lock(root):
            pass


def test_restore_refuses_while_a_sweep_is_alive(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    write_journal(root, observe(root))
    with another_sweep(root):
        with pytest.raises(DeviceError, match="in use by another sweep"):
            restore(root)
        assert find_journal(root) is not None
    assert restore(root) is not None


def test_two_boards_do_not_exclude_each_other(tmp_path: Path) -> None:
    one, other = make_orin(tmp_path / "one"), make_orin(tmp_path / "other")
    with board_lock(one), board_lock(other):
        pass


def test_a_root_that_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="no such file or directory"), board_lock(tmp_path / "x"):
        pytest.fail("it was locked")


def test_the_time_since_when_is_the_holders(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    with another_sweep(root), pytest.raises(DeviceError) as caught, board_lock(root):
        pytest.fail("it was locked twice")
    moment = str(caught.value).partition("since ")[2][:16]  # to the minute
    near = {time.strftime("%Y-%m-%dT%H:%M", time.gmtime(time.time() - ago)) for ago in (0, 60, 120)}
    assert moment in near


def test_what_a_live_sweep_is_writing_is_not_swept_away(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    half = root / "var/lib/mansard/.journal.json.x1y2"
    half.parent.mkdir(parents=True)
    half.write_text("{")
    with another_sweep(root), pytest.raises(DeviceError, match="in use by another sweep"):
        restore(root)
    assert half.exists()
    assert restore(root) is None
    assert not half.parent.exists()
