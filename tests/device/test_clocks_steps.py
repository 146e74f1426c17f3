"""The writes that lock a machine: their order, their values, and what is refused beforehand."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import UsageError
from mansard.core.records import CpuCluster, PowerMode
from mansard.device.clocks.readback import read_mode
from mansard.device.clocks.settings import find_clocks
from mansard.device.clocks.steps import Write, lock_steps
from mansard.device.holding.acting import MachineStep
from mansard.device.holding.hold import hold_machine
from tests.device.clock_trees import (
    CPU,
    add_bpmp,
    add_devfreq,
    make_laptop,
    make_nano,
    make_orin,
    make_thor,
    read,
    write,
)

GPU = "/sys/class/devfreq/17000000.gpu"
EMC = "/sys/kernel/debug/bpmp/debug/clk/emc"


def own_mode(root: Path, **changes: object) -> PowerMode:
    """The present mode with some figures given, as a user's settings make it."""
    present = read_mode(root)
    left = dict.fromkeys(("cpu_hz", "gpu_hz", "memory_hz", "dla_hz"), None)
    values = {**left, "clusters": (), **changes}
    unknown = {name: "left alone" for name, value in values.items() if value is None}
    unknown |= {"n_sms": "not asked for", "power_limit_w": "none"}
    return msgspec.structs.replace(present, name="own", kind="clocks", unknown=unknown, **values)


def steps(root: Path, **changes: object) -> tuple[Write, ...]:
    return lock_steps(root, own_mode(root, **changes), find_clocks(root))


def pairs(root: Path, **changes: object) -> list[tuple[str, str]]:
    return [(write.path, write.value) for write in steps(root, **changes)]


def test_a_clock_is_lowered_by_its_minimum_first(tmp_path: Path) -> None:
    root = make_orin(tmp_path)  # 306 to 1300.5 MHz
    assert pairs(root, gpu_hz=612e6) == [
        (f"{GPU}/min_freq", "612000000"),
        (f"{GPU}/max_freq", "612000000"),
    ]


def test_a_clock_is_raised_by_its_maximum_first(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    write(root, f"{GPU[1:]}/max_freq", 408_000_000)
    assert pairs(root, gpu_hz=612e6) == [
        (f"{GPU}/max_freq", "612000000"),
        (f"{GPU}/min_freq", "612000000"),
    ]


@given(st.data())
def test_no_write_puts_a_minimum_above_its_maximum(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("gpu")
    table = (100e6, 200e6, 300e6, 400e6)
    add_devfreq(root, "sys/class/devfreq/gpu", tuple(int(hz) for hz in table))
    low, high = sorted(data.draw(st.tuples(st.sampled_from(table), st.sampled_from(table))))
    state = {"min_freq": int(low), "max_freq": int(high)}
    for name, value in state.items():
        write(root, f"sys/class/devfreq/gpu/{name}", value)
    wanted = data.draw(st.sampled_from(table))
    for step in steps(root, gpu_hz=wanted):
        state[step.path.rpartition("/")[2]] = int(step.value)
        assert state["min_freq"] <= state["max_freq"]
    assert set(state.values()) == {int(wanted)}


def test_whole_megahertz_mean_the_entry_that_prints_as_them(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    wanted = {write.value for write in steps(root, cpu_hz=1190e6)}
    assert wanted == {"1190400"}  # in kHz, of both clusters


def test_a_frequency_that_is_not_there_is_told_what_is(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    line = "500MHz is not a frequency of gpu; available, nearest first: 408MHz, 612MHz, 306MHz"
    with pytest.raises(UsageError, match=line):
        steps(root, gpu_hz=500e6)
    with pytest.raises(UsageError, match="3000MHz is not a frequency of emc"):
        steps(root, memory_hz=3000e6)


def test_a_clock_that_the_machine_does_not_show(tmp_path: Path) -> None:
    root = make_laptop(tmp_path)
    with pytest.raises(UsageError, match="no GPU clock that could be set to 612MHz"):
        steps(root, gpu_hz=612e6)
    with pytest.raises(UsageError, match="no memory clock"):
        steps(root, memory_hz=2133e6)


def test_cores_go_on_first_and_off_last(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    for cpu in (1, 2):
        write(root, f"{CPU}/cpu{cpu}/online", 0)
    assert pairs(root, n_cpus=4, gpu_hz=612e6) == [
        (f"/{CPU}/cpu1/online", "1"),
        (f"/{CPU}/cpu2/online", "1"),
        (f"{GPU}/min_freq", "612000000"),
        (f"{GPU}/max_freq", "612000000"),
        (f"/{CPU}/cpu7/online", "0"),
        (f"/{CPU}/cpu6/online", "0"),
        (f"/{CPU}/cpu5/online", "0"),
        (f"/{CPU}/cpu4/online", "0"),
    ]


def test_clusters_name_the_cores_and_their_clocks(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    clusters = (CpuCluster(cpus=(4, 5), max_hz=1_113_600e3),)
    values = dict(pairs(root, n_cpus=2, clusters=clusters, cpu_hz=1_113_600e3))
    assert values[f"/{CPU}/cpu4/cpufreq/scaling_max_freq"] == "1113600"
    assert f"/{CPU}/cpu0/cpufreq/scaling_max_freq" not in values
    assert [path for path, value in values.items() if value == "0"] == [
        f"/{CPU}/cpu{cpu}/online" for cpu in (7, 6, 3, 2, 1, 0)
    ]


@pytest.mark.parametrize("n_cpus", [9, 4096])
def test_more_cores_than_there_are(tmp_path: Path, n_cpus: int) -> None:
    with pytest.raises(UsageError, match=rf"asks for {n_cpus} cores, 8 are there"):
        steps(make_orin(tmp_path), n_cpus=n_cpus)


def test_the_memory_is_capped_locked_and_then_set(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    write(root, "sys/kernel/nvpmodel_clk_cap/emc", 665_600_000)
    assert pairs(root, memory_hz=2133e6) == [
        ("/sys/kernel/nvpmodel_clk_cap/emc", "2133000000"),
        (f"{EMC}/mrq_rate_locked", "1"),
        (f"{EMC}/rate", "2133000000"),
    ]


def test_a_bandwidth_manager_is_halted_and_goes_on_afterwards(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    halt = "/sys/kernel/debug/bpmp/debug/bwmgr/bwmgr_halt"
    write(root, halt.lstrip("/"), 0)
    done: list[MachineStep] = []
    with hold_machine(root, on_step=done.append, settle_s=0) as hold:
        hold.set(own_mode(root, memory_hz=2133e6))
        assert read(root, halt) == "1"
    switched = [(step.target, step.value) for step in done if step.kind == "write"]
    assert switched == [
        (f"{EMC}/mrq_rate_locked", "1"),
        (halt, "1"),
        (f"{EMC}/rate", "2133000000"),
        (f"{EMC}/rate", "204000000"),
        (halt, "0"),
        (f"{EMC}/mrq_rate_locked", "0"),
    ]


def test_switches_that_a_kernel_lacks_are_no_reason_against_setting(tmp_path: Path) -> None:
    root = make_orin(tmp_path, release=35)
    (root / EMC.lstrip("/") / "state").unlink()
    emc = find_clocks(root).emc
    assert emc is not None
    assert emc.domain.why_not == ""
    assert pairs(root, memory_hz=2133e6) == [
        (f"{EMC}/mrq_rate_locked", "1"),
        (f"{EMC}/rate", "2133000000"),
    ]


def test_the_memory_of_a_nano_has_no_table(tmp_path: Path) -> None:
    root = make_nano(tmp_path)
    assert pairs(root, memory_hz=1600e6) == [
        ("/sys/kernel/debug/clk/override.emc/clk_state", "1"),
        ("/sys/kernel/debug/clk/override.emc/clk_update_rate", "1600000000"),
    ]


@pytest.mark.parametrize("has_debug_files", [False, True])
def test_the_memory_of_a_thor_is_a_devfreq(tmp_path: Path, has_debug_files: bool) -> None:
    root = make_thor(tmp_path)
    if has_debug_files:
        add_bpmp(root, (665600, 2750000, 4266000))
    assert pairs(root, memory_hz=2750e6) == [
        ("/sys/class/devfreq/bwmgr/min_freq", "2750000000"),
        ("/sys/class/devfreq/bwmgr/max_freq", "2750000000"),
    ]


def test_without_debug_files_the_memory_is_capped(tmp_path: Path) -> None:
    write(tmp_path, "sys/kernel/nvpmodel_emc_cap/emc_iso_cap", 0)
    assert pairs(tmp_path, memory_hz=1600e6) == [
        ("/sys/kernel/nvpmodel_emc_cap/emc_iso_cap", "1600000000")
    ]


def test_a_cap_of_the_accelerators(tmp_path: Path) -> None:
    values = pairs(make_orin(tmp_path), dla_hz=614_400_000.0)
    ((path, value),) = values
    assert path.endswith("15880000.nvdla0/clk_cap/dla0_core")
    assert value == "614400000"


def test_a_plain_machine_is_capped_where_that_is_asked(tmp_path: Path) -> None:
    root = make_laptop(tmp_path)
    mode = msgspec.structs.replace(own_mode(root, cpu_hz=2_000e6), kind="cores")
    assert [(step.path, step.value) for step in lock_steps(root, mode, find_clocks(root))] == [
        (f"/{CPU}/cpu0/cpufreq/scaling_max_freq", "2000000"),
        (f"/{CPU}/cpu1/cpufreq/scaling_max_freq", "2000000"),
    ]
    write(root, f"{CPU}/cpu1/cpufreq/scaling_min_freq", 3_000_000)
    assert lock_steps(root, mode, find_clocks(root))[1].path.endswith(
        "cpu1/cpufreq/scaling_min_freq"
    )


@pytest.mark.parametrize("kind", ["present", "card"])
def test_kinds_that_write_no_clock(tmp_path: Path, kind: str) -> None:
    root = make_orin(tmp_path)
    mode = msgspec.structs.replace(own_mode(root, gpu_hz=612e6), kind=kind)
    assert lock_steps(root, mode, find_clocks(root)) == ()


def test_what_was_planned_is_what_is_written(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    mode = own_mode(root, gpu_hz=612e6, memory_hz=2133e6, cpu_hz=1190e6, n_cpus=4)
    done: list[MachineStep] = []
    with hold_machine(root, on_step=done.append, settle_s=0) as hold:
        planned = hold.steps(mode)
        del done[:]
        found = hold.set(mode)
        assert [step for step in done if step.kind == "write"] == list(planned)
        assert read(root, f"{EMC}/rate") == "2133000000"
    assert (found.gpu_hz, found.memory_hz, found.n_cpus) == (612e6, 2133e6, 4)
    assert str(planned[0]) == (
        f"echo 1190400 > /{CPU}/cpu0/cpufreq/scaling_min_freq (cpu0-3 held at 1190MHz: minimum)"
    )
