"""Holding a machine: what is set, what is refused, and that it is always brought back."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from mansard.core.errors import DeviceError, RebootRequired, UsageError
from mansard.core.records import PowerMode
from mansard.device.clocks.readback import read_mode
from mansard.device.holding.acting import MachineStep, planned_steps
from mansard.device.holding.hold import SETTLE_S, hold_machine
from mansard.device.holding.restoring import restore
from mansard.device.nvpmodel.modes import read_modes
from mansard.simulator import create_board, snapshot
from mansard.simulator.faults import set_fault
from tests.device.clock_trees import CPU, make_laptop, make_orin, read, write
from tests.simulator.simulator_bench import has_caught_up
from tests.waiting import awaited

GPU = "sys/class/devfreq/17000000.gpu"


def board_mode(root: Path, name: str) -> PowerMode:
    found = read_modes(root).find(name)
    assert found is not None
    return found.mode


def own_mode(root: Path, **changes: object) -> PowerMode:
    return msgspec.structs.replace(read_mode(root), name="own", kind="clocks", **changes)


def journals(root: Path) -> list[Path]:
    return sorted((root / "var/lib").glob("mansard*"))


# Cores, CPU MHz, GPU MHz, EMC MHz and SMs of the AGX Orin 64 GB, from its nvpmodel.conf.
@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("15W", (4, 1113.6, 408.0, 2133.0, 6)),
        ("30W", (8, 1728.0, 612.0, 3199.0, 8)),
        ("50W", (12, 1497.6, 816.0, 3199.0, 16)),
        ("MAXN", (12, 2201.6, 1300.5, 3199.0, 16)),
    ],
)
def test_a_mode_of_the_board_is_set_locked_and_taken_back(
    agx_orin: Path, name: str, figures: tuple[float, ...]
) -> None:
    before = snapshot(agx_orin)
    with hold_machine(agx_orin, settle_s=0) as hold:
        found = hold.set(board_mode(agx_orin, name))
        assert read(agx_orin, f"{GPU}/min_freq") == read(agx_orin, f"{GPU}/max_freq")
        assert read(agx_orin, "sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked") == "1"
        assert journals(agx_orin) != []
    clocks = [(hz or 0) / 1e6 for hz in (found.cpu_hz, found.gpu_hz, found.memory_hz)]
    assert (found.n_cpus, *clocks, found.n_sms) == figures
    assert (found.name, found.kind) == (name, "nvpmodel")
    assert snapshot(agx_orin) == before
    assert journals(agx_orin) == []


@pytest.mark.parametrize("board", ["orin-nano-super", "xavier-nx", "tx2", "thor"])
def test_every_mode_of_every_board_is_taken_back(tmp_path: Path, board: str) -> None:
    root = create_board(board, tmp_path)
    before = snapshot(root)
    with hold_machine(root, settle_s=0) as hold:
        set_modes = []
        for one in read_modes(root).modes:
            with contextlib.suppress(RebootRequired):  # Thor's GPU is gated when it is started
                found = hold.set(one.mode)
                assert found.n_cpus == one.mode.n_cpus
                assert found.n_sms in {one.mode.n_sms, None}
                set_modes.append(one.mode.name)
    assert len(set_modes) >= 2
    assert snapshot(root) == before


def test_a_running_board_is_set_and_taken_back(running_agx_orin: Path) -> None:
    before = snapshot(running_agx_orin)
    with hold_machine(running_agx_orin) as hold:
        assert hold.set(board_mode(running_agx_orin, "MAXN")).n_cpus == 12
        assert hold.set(board_mode(running_agx_orin, "15W")).gpu_hz == 408e6
    assert snapshot(running_agx_orin) == before


def test_cores_whose_clocks_vanish_with_them(running_agx_orin: Path) -> None:
    """Their settings come to light when they go on, and are put back before they go off."""
    set_fault(running_agx_orin, "cpufreq_gone", True)
    with hold_machine(running_agx_orin) as hold:
        hold.set(board_mode(running_agx_orin, "15W"))  # cores 4 to 7 go, and their folders
        hold.set(board_mode(running_agx_orin, "MAXN"))
    assert read(running_agx_orin, f"{CPU}/cpufreq/policy8/scaling_min_freq") == "729600"
    assert read(running_agx_orin, f"{CPU}/cpufreq/policy4/scaling_min_freq") == "729600"
    assert read(running_agx_orin, f"{CPU}/cpu8/online") == "0"


def test_a_clock_that_comes_to_light_late_is_kept_and_put_back(agx_orin: Path) -> None:
    """A busy kernel makes the folder of a core some time after the core is switched on."""
    links = [agx_orin / CPU / f"cpu{cpu}/cpufreq" for cpu in range(8, 12)]
    for link in links:
        link.unlink()

    def appear(step: MachineStep) -> None:
        for link in links:
            if step.target.endswith(f"{link.parent.name}/online") and not link.is_symlink():
                threading.Timer(0.05, link.symlink_to, ("../cpufreq/policy8",)).start()

    before = read(agx_orin, f"{CPU}/cpufreq/policy8/scaling_min_freq")
    with hold_machine(agx_orin, on_step=appear, settle_s=0) as hold:
        hold.set(board_mode(agx_orin, "MAXN"))
        assert read(agx_orin, f"{CPU}/cpufreq/policy8/scaling_min_freq") != before
    assert read(agx_orin, f"{CPU}/cpufreq/policy8/scaling_min_freq") == before


def test_an_error_in_the_body_restores_and_is_not_hidden(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    mode = board_mode(agx_orin, "15W")

    def work() -> None:
        with hold_machine(agx_orin, settle_s=0) as hold:
            hold.set(mode)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert snapshot(agx_orin) == before


def test_nothing_is_left_where_nothing_was_set(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    steps: list[MachineStep] = []
    with hold_machine(agx_orin, on_step=steps.append):
        pass
    assert [step.kind for step in steps] == ["journal", "journal"]
    assert snapshot(agx_orin) == before


def test_a_dry_run_touches_nothing_and_is_what_is_done(agx_orin: Path) -> None:
    mode = board_mode(agx_orin, "50W")
    before = snapshot(agx_orin)
    planned = planned_steps(agx_orin, mode)
    assert snapshot(agx_orin) == before
    steps: list[MachineStep] = []
    with hold_machine(agx_orin, on_step=steps.append, settle_s=0) as hold:
        del steps[:]
        hold.set(mode)
        assert [str(step) for step in steps] == [str(step) for step in planned]


def test_a_mode_that_needs_a_reboot(agx_orin: Path) -> None:
    set_fault(agx_orin, "reboot_modes", [0])
    before = snapshot(agx_orin)
    line = r"power mode MAXN needs a reboot: .*Reboot required"
    with pytest.raises(RebootRequired, match=line), hold_machine(agx_orin, settle_s=0) as hold:
        hold.set(board_mode(agx_orin, "MAXN"))
    assert snapshot(agx_orin) == before


def test_a_mode_that_nvpmodel_refuses(agx_orin: Path) -> None:
    set_fault(agx_orin, "nvpmodel_refuses", True)
    before = snapshot(agx_orin)
    line = "nvpmodel does not set power mode 15W"
    with pytest.raises(DeviceError, match=line), hold_machine(agx_orin, settle_s=0) as hold:
        hold.set(board_mode(agx_orin, "15W"))
    assert snapshot(agx_orin) == before


def test_a_mode_of_another_board_is_not_set_by_its_number(agx_orin: Path) -> None:
    mode = msgspec.structs.replace(board_mode(agx_orin, "15W"), gpu_hz=918e6)
    with pytest.raises(UsageError, match="means something else by power mode 15W"):
        planned_steps(agx_orin, mode)


def test_an_unknown_frequency_is_refused_before_anything_is_touched(agx_orin: Path) -> None:
    steps: list[MachineStep] = []
    with hold_machine(agx_orin, on_step=steps.append) as hold:
        del steps[:]
        with pytest.raises(UsageError, match="500MHz is not a frequency of gpu"):
            hold.set(own_mode(agx_orin, gpu_hz=500e6))
        assert steps == []


def test_a_clock_that_something_sets_back(
    running_agx_orin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def settle(seconds: float) -> None:
        """As long as it is to last, and until the clock was set back: a daemon may be late."""
        time.sleep(seconds)
        if seconds == SETTLE_S:
            assert awaited(lambda: read(running_agx_orin, f"{GPU}/max_freq") != "408000000")

    monkeypatch.setattr("mansard.device.holding.hold.time", SimpleNamespace(sleep=settle))
    before = snapshot(running_agx_orin)
    set_fault(running_agx_orin, "clock_slips", "gpu")
    line = r"gpu held at 408MHz: .*: wanted 408000000, found [0-9]+; .*; available are 306000000,"
    with pytest.raises(DeviceError, match=line), hold_machine(running_agx_orin) as hold:
        hold.set(own_mode(running_agx_orin, gpu_hz=408e6))
    assert snapshot(running_agx_orin) == before


def test_a_frequency_that_the_kernel_rounds(running_agx_orin: Path) -> None:
    def await_rounding(step: MachineStep) -> None:
        if step.why.startswith("gpu held"):  # the CPUs' clocks are written before the GPU's
            path = f"{CPU}/cpufreq/policy4/scaling_min_freq"
            assert awaited(lambda: read(running_agx_orin, path) == "1651200")

    before = snapshot(running_agx_orin)
    set_fault(running_agx_orin, "kernel_rounds", True)
    line = r"wanted 1728000, found 1651200; the kernel made it that; available are 729600, 806400,"
    with hold_machine(running_agx_orin, on_step=await_rounding) as hold:
        with pytest.raises(DeviceError, match=line):
            hold.set(own_mode(running_agx_orin, gpu_hz=408e6))
        set_fault(running_agx_orin, "kernel_rounds", False)
        assert has_caught_up(running_agx_orin)
    assert snapshot(running_agx_orin) == before


def test_nothing_of_one_mode_is_left_in_the_next(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    present = read_mode(root)
    low = own_mode(root, memory_hz=2133e6, gpu_hz=408e6)
    alone = {"memory_hz": "left alone", "gpu_hz": "left alone", **present.unknown}
    free = own_mode(root, memory_hz=None, gpu_hz=None, unknown=alone)
    with hold_machine(root, settle_s=0) as hold:
        hold.set(low)
        found = hold.set(free)
    assert (found.memory_hz, found.gpu_hz) == (3199e6, 1300.5e6)


def test_what_cannot_be_put_back_stays_in_the_journal(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    switch = root / f"{CPU}/cpu7/online"

    def work() -> None:
        with hold_machine(root, settle_s=0) as hold:
            hold.set(own_mode(root, n_cpus=7, clusters=()))
            switch.unlink()
            switch.mkdir()  # nobody can write it now

    with pytest.raises(DeviceError) as caught:
        work()
    assert "cpu7/online wanted 1, found unreadable" in str(caught.value)
    assert "mansard board restore" in str(caught.value)
    assert [path.name for path in journals(root)] == ["mansard"]
    switch.rmdir()
    switch.write_text("0\n")
    restored = restore(root)
    assert restored is not None
    assert restored.changes == (f"/{CPU}/cpu7/online 0 → 1",)
    assert read(root, f"{CPU}/cpu7/online") == "1"
    assert restore(root) is None


def test_a_laptop_is_capped_and_taken_back(tmp_path: Path) -> None:
    root = make_laptop(tmp_path)
    before = snapshot(root)
    mode = msgspec.structs.replace(
        own_mode(root), kind="cores", clusters=(), cpu_hz=2_000e6, n_cpus=1
    )
    with hold_machine(root, settle_s=0) as hold:
        found = hold.set(mode)
        assert (found.cpu_hz, found.n_cpus) == (2_000e6, 1)
    assert snapshot(root) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_a_missing_right_is_found_before_anything_is_touched(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    path = root / f"{GPU}/max_freq"
    path.chmod(0o444)
    with hold_machine(root) as hold, pytest.raises(DeviceError, match="max_freq: cannot be writt"):
        hold.set(own_mode(root, gpu_hz=408e6))


def test_a_file_that_cannot_be_kept_is_not_written(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    (root / f"{GPU}/min_freq").write_bytes(b"\xff\xfe\n")  # nothing that could be put back
    with hold_machine(root) as hold, pytest.raises(DeviceError, match="cannot be read and kept"):
        hold.set(own_mode(root, gpu_hz=408e6))
    assert read(root, f"{GPU}/max_freq") == "1300500000"


def test_a_locked_memory_is_locked_again_afterwards(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    emc = "sys/kernel/debug/bpmp/debug/clk/emc"
    write(root, f"{emc}/mrq_rate_locked", 1)
    write(root, f"{emc}/rate", 665_600_000)
    with hold_machine(root, settle_s=0) as hold:
        assert hold.set(own_mode(root, memory_hz=2133e6)).memory_hz == 2133e6
    assert (read(root, f"{emc}/mrq_rate_locked"), read(root, f"{emc}/rate")) == ("1", "665600000")


def test_a_gating_mask_that_does_not_hold_is_told(agx_orin: Path) -> None:
    """The GPU's units are gated at its start; a mask that was written later may be ignored."""
    before = snapshot(agx_orin)
    mask = agx_orin / "sys/devices/platform/bus@0/17000000.gpu/tpc_pg_mask"

    def ignore(step: MachineStep) -> None:
        if step.kind == "write" and "MHz" in step.why:  # after nvpmodel, before reading back
            mask.write_text("240\n")  # 4 of 8 TPCs with 2 SMs each

    line = "power mode 50W is not in force: GPU's multiprocessors: wanted 16, found 8"
    with pytest.raises(DeviceError, match=line), hold_machine(agx_orin, on_step=ignore) as hold:
        hold.set(board_mode(agx_orin, "50W"))
    assert snapshot(agx_orin) == before


def test_the_memorys_cap_and_its_table_need_not_agree_to_the_last_digit(agx_orin: Path) -> None:
    write(agx_orin, "sys/kernel/debug/bpmp/debug/clk/emc/max_rate", 3_200_000_000)
    with hold_machine(agx_orin, settle_s=0) as hold:
        assert hold.set(board_mode(agx_orin, "MAXN")).memory_hz == 3199e6
