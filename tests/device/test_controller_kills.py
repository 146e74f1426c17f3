"""Whatever ends a controller or its caller: the board is as it was, at once or at next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.core.records import PowerMode
from mansard.device.controller import LocalController
from mansard.device.controller.messages import HoldBoard, SetMode
from mansard.device.controller.remote import remote_controller
from mansard.simulator import snapshot
from tests.device.controller_board import controller_of, end, is_held, mode_of, put
from tests.device.controller_process import controller_process, started
from tests.waiting import awaited

ENDS = {"end of questions": 0, "SIGTERM": 130, "SIGHUP": 130, "SIGINT": 130}
pytestmark = pytest.mark.usefixtures("as_in_a_terminal")


@pytest.mark.parametrize("how", ENDS)
def test_an_end_while_the_board_is_held_puts_it_back(agx_orin: Path, how: str) -> None:
    before = snapshot(agx_orin)
    with controller_process(agx_orin) as channel, remote_controller(channel, "bench-1") as remote:
        held = remote.hold().__enter__()
        held.set(mode_of_local(agx_orin))
        assert snapshot(agx_orin) != before
        assert end(channel, how) == ENDS[how]
        assert snapshot(agx_orin) == before
        assert not is_held(agx_orin)
        with pytest.raises(DeviceError, match="its board controller has ended"):
            held.set(mode_of_local(agx_orin))


# From the first step (the journal) on to amid nvpmodel, the clocks, and after the last of them.
@pytest.mark.parametrize(
    ("how", "after_s"),
    [
        ("end of questions", 0.0),
        ("SIGTERM", 0.0),
        ("SIGTERM", 0.1),
        ("SIGKILL", 0.0),
        ("SIGKILL", 0.05),
        ("SIGKILL", 0.15),
        ("SIGKILL", 0.4),
    ],
)
def test_an_end_amid_setting_a_mode_is_mended(agx_orin: Path, how: str, after_s: float) -> None:
    before = snapshot(agx_orin)
    with controller_process(agx_orin) as channel, remote_controller(channel, "bench-1") as remote:
        mode = mode_of(remote, "MAXN")
        put(channel, HoldBoard(), SetMode(mode))
        assert awaited(lambda: is_held(agx_orin))
        time.sleep(after_s)
        code = end(channel, how)
    if how == "SIGKILL":
        assert code == -signal.SIGKILL
        assert is_held(agx_orin)
        with controller_of(agx_orin) as remote:
            (first, *_) = remote.put_back()
        assert "restored what the run of" in first
    assert snapshot(agx_orin) == before
    assert not is_held(agx_orin)


def test_what_a_killed_controller_left_is_put_back_by_the_next_sweep(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    with controller_process(agx_orin) as channel, remote_controller(channel, "bench-1") as remote:
        remote.hold().__enter__().set(mode_of_local(agx_orin))
        end(channel, "SIGKILL")
    assert snapshot(agx_orin) != before
    with controller_of(agx_orin) as remote, remote.hold() as held:
        assert "restored what the run of" in held.left_behind[0]
        assert snapshot(agx_orin) == before
    assert snapshot(agx_orin) == before


CALLER = """
import sys
from pathlib import Path
from tests.device.controller_process import started, controller_process
from mansard.device.controller.remote import remote_controller

with (
    controller_process(Path(sys.argv[1])) as channel,
    remote_controller(channel, "b") as controller,
):
    with controller.hold() as held:
        held.set(controller.choose_modes("gpu=612MHz,cores=4")[0])
        print("set", flush=True)
        sys.stdin.read()
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_when_who_asks_is_killed_the_board_is_put_back(agx_orin: Path, how: signal.Signals) -> None:
    before = snapshot(agx_orin)
    command = [sys.executable, "-c", CALLER, str(agx_orin)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "set\n"
        assert snapshot(agx_orin) != before
        os.kill(caller.pid, how)
        caller.communicate()
    # Its controller is nobody's child now, and puts the board back in its own time.
    assert awaited(lambda: not is_held(agx_orin))
    assert snapshot(agx_orin) == before


def test_an_interrupted_caller_finds_its_controller_in_step(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    with controller_process(agx_orin) as channel, remote_controller(channel, "bench-1") as remote:

        def sweep() -> None:
            with remote.hold():
                put(channel, SetMode(mode_of_local(agx_orin)))  # the answer is not awaited
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sweep()
        assert snapshot(agx_orin) == before
        assert remote.identify().is_simulated


def test_a_caller_that_has_fallen_silent_counts_as_gone(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    mode = mode_of_local(agx_orin)
    command = (sys.executable, "-m", "mansard.device.controller", "--board", str(agx_orin))
    with (
        started((*command, "--quiet-s", "5")) as channel,
        remote_controller(channel, "bench-1") as remote,  # its first beat would come after 10 s
    ):
        remote.hold().__enter__().set(mode)
        assert snapshot(agx_orin) != before
        assert awaited(lambda: channel.process.poll() is not None)
        assert snapshot(agx_orin) == before


def test_a_caller_that_beats_is_still_there(agx_orin: Path) -> None:
    command = (sys.executable, "-m", "mansard.device.controller", "--board", str(agx_orin))
    with (
        started((*command, "--quiet-s", "7")) as channel,
        remote_controller(channel, "bench-1", beat_s=0.05) as remote,
    ):
        time.sleep(8.75)
        assert remote.identify().is_simulated


@pytest.mark.parametrize("line", [b"\0\xff\n", b"[" * 100_000 + b"\n"])
def test_a_line_that_is_no_question_ends_the_sweep(agx_orin: Path, line: bytes) -> None:
    before = snapshot(agx_orin)
    with controller_process(agx_orin) as channel, remote_controller(channel, "bench-1") as remote:
        held = remote.hold().__enter__()
        held.set(mode_of_local(agx_orin))
        channel.send(line)
        with pytest.raises(DeviceError, match="use the same version of Mansard"):
            held.set(mode_of_local(agx_orin))
    assert snapshot(agx_orin) == before


def mode_of_local(root: Path) -> PowerMode:
    (mode,) = LocalController(root).choose_modes("gpu=612MHz,cores=4")
    return mode
