"""Ctrl-C, SIGTERM and SIGHUP at every step of a sweep, once and twice."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import msgspec
import pytest

from mansard.core.records import PowerMode
from mansard.device.clocks.readback import read_mode
from mansard.device.holding.acting import MachineStep
from mansard.device.holding.hold import hold_machine
from mansard.device.holding.journal import find_journal, observe, write_journal
from mansard.device.holding.restoring import restore
from mansard.simulator import snapshot
from tests.device.clock_trees import CPU, make_orin, read, write

GPU = "sys/class/devfreq/17000000.gpu"
pytestmark = pytest.mark.usefixtures("as_in_a_terminal")
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def own_mode(root: Path) -> PowerMode:
    return msgspec.structs.replace(
        read_mode(root), name="own", kind="clocks", gpu_hz=408e6, memory_hz=2133e6, n_cpus=6,
        clusters=(),
    )  # fmt: skip


class Interrupter:
    """Sends its own process a signal before its n-th step, and again before every later one."""

    def __init__(self, number: int, stop: signal.Signals, *, is_stubborn: bool) -> None:
        self._number, self._stop, self._is_stubborn = number, stop, is_stubborn
        self.steps: list[MachineStep] = []

    def __call__(self, step: MachineStep) -> None:
        self.steps.append(step)
        n_steps = len(self.steps)
        if n_steps == self._number or (self._is_stubborn and n_steps > self._number):
            signal.raise_signal(self._stop)


def sweep(root: Path, on_step: Interrupter) -> None:
    with hold_machine(root, on_step=on_step, settle_s=0) as hold:
        hold.set(own_mode(root))


@pytest.mark.parametrize("is_stubborn", [False, True])
@pytest.mark.parametrize("stop", STOPS)
def test_a_signal_at_every_step_ends_the_sweep_and_restores(
    tmp_path: Path, stop: signal.Signals, is_stubborn: bool
) -> None:
    root = make_orin(tmp_path)
    before = snapshot(root)
    handlers = [signal.getsignal(number) for number in STOPS]
    whole = Interrupter(10_000, stop, is_stubborn=False)
    sweep(root, whole)
    # journal; 2 GPU, 4 CPU, 2 EMC and DLA writes, 2 cores off; the same back; journal removed
    assert len(whole.steps) > 20
    for number in range(1, len(whole.steps) + 1):
        on_step = Interrupter(number, stop, is_stubborn=is_stubborn)
        with pytest.raises(KeyboardInterrupt):
            sweep(root, on_step)
        assert snapshot(root) == before
        assert find_journal(root) is None
        assert [signal.getsignal(number) for number in STOPS] == handlers


def test_a_signal_while_measuring_restores(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    before = snapshot(root)

    def work() -> None:
        with hold_machine(root, settle_s=0) as hold:
            hold.set(own_mode(root))
            signal.raise_signal(signal.SIGTERM)
            write(root, f"{GPU}/max_freq", 1)  # never reached

    with pytest.raises(KeyboardInterrupt):
        work()
    assert snapshot(root) == before


def test_under_nohup_a_hangup_is_not_heard(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with hold_machine(root, settle_s=0) as hold:
            hold.set(own_mode(root))
            signal.raise_signal(signal.SIGHUP)
            assert read(root, f"{GPU}/max_freq") == "408000000"
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_a_restore_by_itself_is_finished_before_it_is_interrupted(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    write_journal(root, observe(root))
    for cpu in (4, 5):
        write(root, f"{CPU}/cpu{cpu}/online", 0)
    with pytest.raises(KeyboardInterrupt):
        restore(root, on_step=Interrupter(1, signal.SIGINT, is_stubborn=True))
    assert [read(root, f"{CPU}/cpu{cpu}/online") for cpu in (4, 5)] == ["1", "1"]
    assert find_journal(root) is None


def test_in_another_thread_signals_are_left_alone(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    handler = signal.getsignal(signal.SIGTERM)
    seen = []

    def work() -> None:
        with hold_machine(root, settle_s=0) as hold:
            seen.append((signal.getsignal(signal.SIGTERM), hold.set(own_mode(root)).gpu_hz))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(handler, 408e6)]
