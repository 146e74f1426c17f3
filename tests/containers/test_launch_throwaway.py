"""The tests' own daemon leaves nothing behind, not even when the tests are killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.containers.throwaway import REPOSITORY, Daemon, clear_leftovers
from tests.waiting import awaited

pytestmark = pytest.mark.docker

SESSION = """
import sys
from tests.containers.throwaway import throwaway_daemon
with throwaway_daemon() as daemon:
    print(daemon.folder, daemon.pid, flush=True)
    sys.stdin.read()
"""


def test_daemon_dies_with_its_session_and_the_next_one_clears_up(daemon: Daemon) -> None:
    session = subprocess.Popen(
        [sys.executable, "-c", SESSION],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert session.stdout is not None
    folder, pid = session.stdout.readline().split()
    assert Path(f"/proc/{pid}").exists()
    session.kill()
    session.communicate()
    assert awaited(lambda: not Path(f"/proc/{pid}").exists())
    clear_leftovers()  # or that of another worker, which may have been faster
    assert not Path(folder).exists()
    assert daemon.folder.exists()  # of a session that lives: left alone
    assert folder not in Path("/proc/self/mountinfo").read_text()
