"""Where the memory's clock shows no files, the board's own tool locks and unlocks it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.core.records import PowerMode
from mansard.device.clocks.settings import find_clocks
from mansard.device.holding.acting import MachineStep, planned_steps
from mansard.device.holding.hold import hold_machine
from mansard.device.holding.journal import find_journal, journal_folders
from mansard.device.holding.restoring import restore
from mansard.device.nvpmodel.modes import read_modes
from mansard.simulator import snapshot
from mansard.simulator.faults import set_fault
from tests.device.clock_trees import CPU, read

LOCK = "sys/kernel/debug/bpmp/debug/clk/emc"
GPU = "sys/class/devfreq/17000000.gpu"


@pytest.fixture
def board(agx_orin: Path) -> Path:
    """A board whose debug files have moved to where Mansard does not know them.

    They stay where the simulated tool looks for them, but for those by which Mansard does.
    """
    (agx_orin / f"{LOCK}/mrq_rate_locked").rename(agx_orin / f"{LOCK}/lock")
    (agx_orin / f"{LOCK}/rate").rename(agx_orin / f"{LOCK}/moved")
    (agx_orin / f"{LOCK}/rate").mkdir()
    return agx_orin


def maxn(root: Path) -> PowerMode:
    found = read_modes(root).find("MAXN")
    assert found is not None
    return found.mode


def fake_tool(root: Path, text: str) -> Path:
    """A jetson_clocks that notes how it is called and keeps the memory's lock where it is now."""
    tool = root / "usr/bin/jetson_clocks"
    lock, calls = root / f"{LOCK}/lock", root / "run/calls"
    calls.parent.mkdir(exist_ok=True)
    tool.write_text(
        f"#!/bin/sh\necho \"$@\" >> '{calls}'\n{text}\n"
        f"case $1 in\n--store) cat '{lock}' > \"$2\" ;;\n--restore) cat \"$2\" > '{lock}' ;;\n"
        f"*) echo 1 > '{lock}' ;;\nesac\n"
    )
    tool.chmod(0o755)
    return calls


def test_it_stores_locks_and_restores(board: Path) -> None:
    calls = fake_tool(board, "")
    before = snapshot(board)
    emc = find_clocks(board).emc
    assert emc is not None
    assert emc.lock is None
    store = journal_folders(board)[0] / "jetson_clocks.store"
    steps: list[MachineStep] = []
    with hold_machine(board, on_step=steps.append, settle_s=0) as hold:
        hold.set(maxn(board))
        assert read(board, f"{LOCK}/lock") == "1"
        assert store.exists()
    assert calls.read_text().splitlines() == [f"--store {store}", "", f"--restore {store}"]
    calls.unlink()
    assert snapshot(board) == before
    assert not store.parent.exists()
    kinds = [step.kind for step in steps if step.kind != "write"]
    # observed; the mode; the store in the journal; stored, locked; restored, the mode; forgotten
    assert kinds[:5] == ["journal", "nvpmodel", "journal", "jetson_clocks", "jetson_clocks"]
    assert sorted(kinds[5:]) == ["jetson_clocks", "journal", "nvpmodel"]


def test_a_dry_run_says_so(board: Path) -> None:
    fake_tool(board, "")
    kinds = [step.kind for step in planned_steps(board, maxn(board))]
    assert kinds[4:7] == ["nvpmodel", "jetson_clocks", "jetson_clocks"]  # after four cores


def test_what_a_killed_run_had_it_lock_is_unlocked(board: Path) -> None:
    calls = fake_tool(board, "")
    before = snapshot(board)
    hold = hold_machine(board, settle_s=0)
    hold.__enter__()
    hold.set(maxn(board))
    hold._interrupts.remove()
    hold._stack.close()  # as its death would: the lock is free, the journal stays
    assert read(board, f"{LOCK}/lock") == "1"
    assert restore(board) is not None
    calls.unlink()
    assert snapshot(board) == before


def test_a_tool_that_fails_is_told(board: Path) -> None:
    calls = fake_tool(board, "[ -z \"$1\" ] && { echo 'Error: no such clock'; exit 1; }")
    before = snapshot(board)
    line = "jetson_clocks failed: Error: no such clock"
    with pytest.raises(DeviceError, match=line), hold_machine(board, settle_s=0) as hold:
        hold.set(maxn(board))
    calls.unlink()
    assert snapshot(board) == before


def test_a_tool_that_cannot_restore_leaves_the_journal(board: Path) -> None:
    fake_tool(board, '[ "$1" = --restore ] && exit 1')

    def work() -> None:
        with hold_machine(board, settle_s=0) as hold:
            hold.set(maxn(board))

    with pytest.raises(DeviceError, match=r"jetson_clocks --restore .* failed"):
        work()
    assert find_journal(board) is not None
    fake_tool(board, "")
    assert restore(board) is not None
    assert read(board, f"{LOCK}/lock") == "0"


def test_the_simulated_tool_is_undone_too(agx_orin: Path) -> None:
    """All that it changes is in the journal: processors' idling, the GPU's gating, locks."""
    before = snapshot(agx_orin)
    with hold_machine(agx_orin, settle_s=0):
        subprocess.run([agx_orin / "usr/bin/jetson_clocks"], check=True)
        assert read(agx_orin, f"{CPU}/cpu0/cpuidle/state1/disable") == "1"
    assert snapshot(agx_orin) == before


def test_without_the_tool_nothing_is_locked(board: Path) -> None:
    set_fault(board, "jetson_clocks_missing", True)
    shutil.rmtree(board / f"{LOCK}/rate")
    with hold_machine(board, settle_s=0) as hold:
        hold.set(maxn(board))
        assert read(board, f"{LOCK}/lock") == "0"
        assert read(board, f"{GPU}/min_freq") == "1300500000"
