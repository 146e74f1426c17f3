"""Signals end a wait whoever handles them, and how a process ended is said in words."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.processes.programs import how_it_ended, names_outer_signal

# What a library such as polars does to SIGINT: its handler has the kernel begin waits again.
_RESTARTED = "import signal; signal.siginterrupt(signal.{name}, False)"
_WAITS = {
    "a pipe": "reading, _ = os.pipe(); programs.is_readable_within(reading)",
    "a pipe, for a while": "reading, _ = os.pipe(); programs.is_readable_within(reading, 600)",
    "lines of a pipe": (
        "reading, _ = os.pipe()\n"
        "from mansard.core.processes.line_channel import LineReader\n"
        "LineReader(reading).is_ready_within(600)"
    ),
    "a read": "reading, _ = os.pipe(); programs.let_interrupts_end_waits(); os.read(reading, 1)",
    "a lock": (
        "import threading; lock = threading.Lock(); lock.acquire()\n"
        "programs.let_interrupts_end_waits(); lock.acquire()"
    ),
    "a child": (
        "child = os.posix_spawnp('sleep', ['sleep', '600'], os.environ)\n"
        "programs.let_interrupts_end_waits()\n"
        "try: os.waitpid(child, 0)\n"
        "finally: os.kill(child, 9)"
    ),
}


def _state(process: int) -> str:
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:  # noqa: PTH123
        return file.read().rpartition(")")[2].split()[0]


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("what", _WAITS)
def test_a_signal_ends_a_wait_that_a_library_has_begun_again(what: str, name: str) -> None:
    program = "\n".join(
        [
            "import os",
            "from mansard.core.processes import programs",
            "programs.turn_signals_into_interrupts()",
            _RESTARTED.format(name=name),
            "try:",
            "    print('waits', flush=True)",
            *(f"    {line}" for line in _WAITS[what].splitlines()),
            "except KeyboardInterrupt:",
            "    print('interrupted', flush=True)",
            "os._exit(0)",
        ]
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waits\n"
            while _state(process.pid) != "S":
                time.sleep(0.01)
            time.sleep(0.2)  # it may have slept for another reason
            process.send_signal(signal.Signals[name])
            said, _ = process.communicate(timeout=300)
            assert said == "interrupted\n"
        finally:
            process.kill()


def test_how_a_process_ended() -> None:
    assert how_it_ended(130) == "ended with code 130"
    assert how_it_ended(-9) == "was killed, as it is where the memory runs out"
    assert how_it_ended(-11) == "crashed (SIGSEGV)"
    assert how_it_ended(-15) == "was ended by SIGTERM"
    assert how_it_ended(-40) == "was ended by signal 40"  # between SIGRTMIN and SIGRTMAX


# SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV and SIGSYS of signal(7)
_FAULTS = {-4, -5, -6, -7, -8, -11, -31}


@given(st.integers(-64, 255))
def test_a_text_names_a_signal_exactly_where_one_came_from_outside(code: int) -> None:
    said = f"x on cpu: its process {how_it_ended(code)}: y"
    assert names_outer_signal(said) == (code < 0 and code not in _FAULTS)
