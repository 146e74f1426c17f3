"""The clocks of every generation of boards, found in small trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.device.clocks.readback import differences, read_mode
from mansard.device.clocks.settings import (
    Clocks,
    find_clocks,
    find_settings,
    is_setting,
    known_settings,
    read_setting,
)
from tests.device.clock_trees import (
    CPU,
    add_devfreq,
    make_laptop,
    make_nano,
    make_orin,
    make_thor,
    read,
    write,
)


def test_an_orin_of_jetpack_6(tmp_path: Path) -> None:
    clocks = find_clocks(make_orin(tmp_path))
    assert [one.name for one in clocks.domains()] == ["cpu0-3", "cpu4-7", "gpu", "emc", "dla0_core"]
    assert clocks.cpu[1].cpus == (4, 5, 6, 7)
    assert clocks.cpu[0].available_hz[2] == 1_113_600e3  # cpufreq is in kHz
    assert clocks.gpu is not None
    assert clocks.gpu.max_path == "/sys/class/devfreq/17000000.gpu/max_freq"
    assert clocks.gpu.available_hz[-1] == 1_300_500_000
    assert clocks.emc is not None
    assert clocks.emc.cap_path == "/sys/kernel/nvpmodel_clk_cap/emc"
    # the table is in kHz: 204000, 665600, 2133000, 3199000
    assert clocks.emc.domain.available_hz == (204e6, 665.6e6, 2133e6, 3199e6)
    assert clocks.emc.locked_hz(tmp_path) is None
    assert clocks.online == dict.fromkeys(range(8), True)


def test_a_table_of_the_memory_in_hertz(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    # as kHz the highest would be 2133 GHz, which no memory has
    (root / "sys/kernel/debug/bpmp/debug/emc/possible_rates").write_text("665600000 2133000000\n")
    emc = find_clocks(root).emc
    assert emc is not None
    assert emc.domain.available_hz == (665.6e6, 2133e6)


def test_an_orin_of_jetpack_5(tmp_path: Path) -> None:
    clocks = find_clocks(make_orin(tmp_path, release=35))
    assert clocks.gpu is not None
    assert clocks.gpu.max_path == "/sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq"
    assert clocks.gpu_others == ()  # devfreq_dev is the same
    assert clocks.emc is not None
    assert clocks.emc.cap_path == "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap"
    assert clocks.emc.cap_hz(tmp_path) is None  # 0 is no cap
    assert [one.name for one in clocks.dla] == ["dla0_core"]


@pytest.mark.parametrize(
    "folder",
    [
        "sys/devices/57000000.gpu/devfreq/57000000.gpu",
        "sys/devices/17000000.gp10b/devfreq/17000000.gp10b",
        "sys/devices/17000000.gv11b/devfreq/17000000.gv11b",
        "sys/devices/gpu.0/devfreq/57000000.gpu",
        "sys/devices/17000000.ga10b/devfreq_dev",
        "sys/devices/platform/17000000.gpu/devfreq_dev",
        "sys/devices/platform/bus@0/17000000.gpu/devfreq/17000000.gpu",
        "sys/class/devfreq/gpu-gpc-0",
    ],
)
def test_where_a_gpu_is_found(tmp_path: Path, folder: str) -> None:
    add_devfreq(tmp_path, folder, (100, 200))
    gpu = find_clocks(tmp_path).gpu
    assert gpu is not None
    assert gpu.max_path == f"/{folder}/max_freq"


@pytest.mark.parametrize("name", ["15340000.vic", "bwmgr", "gpufreq", "nvdec", "xgpu"])
def test_other_clocks_are_no_gpu(tmp_path: Path, name: str) -> None:
    add_devfreq(tmp_path, f"sys/class/devfreq/{name}", (100, 200))
    assert find_clocks(tmp_path).gpu is None


def test_a_gpu_by_the_name_of_its_node(tmp_path: Path) -> None:
    add_devfreq(tmp_path, "sys/class/devfreq/devfreq0", (100, 200))
    write(tmp_path, "sys/class/devfreq/devfreq0/device/of_node/name", "gp10b\0")
    assert find_clocks(tmp_path).gpu is not None


def test_a_nano(tmp_path: Path) -> None:
    clocks = find_clocks(make_nano(tmp_path))
    emc = clocks.emc
    assert emc is not None
    assert emc.lock is not None
    assert emc.lock.switches == ("/sys/kernel/debug/clk/override.emc/clk_state",)
    assert emc.domain.available_hz == ()
    assert emc.top_hz(tmp_path) == 1_600_000_000
    settings = find_settings(tmp_path, clocks)
    assert "/sys/devices/57000000.gpu/railgate_enable" in settings


def test_a_thor_has_two_gpu_clocks_and_a_memory_clock_of_devfreq(tmp_path: Path) -> None:
    clocks = find_clocks(make_thor(tmp_path))
    assert clocks.gpu is not None
    assert clocks.gpu.available_hz[-1] == 1_575_000_000
    assert [one.name for one in clocks.gpu_others] == ["gpu-nvd"]
    assert clocks.emc is not None
    assert clocks.emc.domain.max_path == "/sys/class/devfreq/bwmgr/max_freq"
    assert clocks.emc.top_hz(tmp_path) == 4_266_000_000


def test_a_laptop(tmp_path: Path) -> None:
    clocks = find_clocks(make_laptop(tmp_path))
    assert [one.name for one in clocks.cpu] == ["cpu0", "cpu1"]
    assert clocks.cpu[0].is_continuous
    assert clocks.cpu[0].available_hz == (400e6, 4200e6)
    assert (clocks.gpu, clocks.emc, clocks.dla) == (None, None, ())
    assert clocks.online == {0: True, 1: True}  # the first CPU has no switch


def test_an_empty_system_has_no_clocks(tmp_path: Path) -> None:
    clocks = find_clocks(tmp_path)
    assert clocks == Clocks(cpu=(), gpu=None, emc=None, dla=(), gpu_others=(), online={})
    mode = read_mode(tmp_path)
    assert (mode.kind, mode.cpu_hz, mode.gpu_hz, mode.memory_hz) == ("present", None, None, None)
    assert "virtual machine" in mode.unknown["cpu_hz"]


@pytest.mark.parametrize("junk", ["", "x", "-5", "1 two 3", "9" * 400, "0 0 0", "\udcff"])
def test_junk_in_tables_is_no_frequency(tmp_path: Path, junk: str) -> None:
    add_devfreq(tmp_path, "sys/class/devfreq/gpu", (100, 200))
    table = tmp_path / "sys/class/devfreq/gpu/available_frequencies"
    table.write_bytes(junk.encode("utf-8", "surrogateescape"))
    gpu = find_clocks(tmp_path).gpu
    assert gpu is not None
    assert set(gpu.available_hz) <= {1.0, 3.0}


def test_reading_back_counts_only_cores_that_are_on(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    for cpu in (4, 5, 6, 7):
        write(root, f"{CPU}/cpu{cpu}/online", 0)
    write(root, f"{CPU}/cpufreq/policy0/scaling_max_freq", 1_113_600)
    mode = read_mode(root)
    assert (mode.n_cpus, mode.cpu_hz) == (4, 1_113_600e3)
    assert [one.cpus for one in mode.clusters] == [(0, 1, 2, 3)]
    assert (mode.gpu_hz, mode.memory_hz, mode.dla_hz) == (1_300_500_000, 3_199e6, 1_600e6)


def test_differences_name_what_was_wanted_and_found(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    before = read_mode(root)
    write(root, "sys/class/devfreq/17000000.gpu/max_freq", 612_000_000)
    write(root, f"{CPU}/cpu7/online", 0)
    assert differences(before, read_mode(root)) == (
        "cores: wanted 8, found 7",
        "GPU: wanted 1300MHz, found 612MHz",
    )
    assert differences(before, before) == ()


def test_settings_are_found_once_and_readings_are_none(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    table = root / "sys/class/devfreq/17000000.gpu/available_frequencies"
    table.chmod(0o444)
    settings = find_settings(root, find_clocks(root))
    assert sum(path.endswith("scaling_max_freq") for path in settings) == 2  # of 8 CPUs
    assert not any("available" in path or "cur_freq" in path for path in settings)
    assert sum(path.endswith("tpc_pg_mask") for path in settings) == 1
    assert read(root, settings[0]) == "1"


def test_a_link_out_of_the_tree_is_no_setting(tmp_path: Path) -> None:
    root = make_orin(tmp_path / "board")
    secret = tmp_path / "secret"
    secret.write_text("1\n")
    switch = root / f"{CPU}/cpu1/online"
    switch.unlink()
    switch.symlink_to(secret)
    assert f"/{CPU}/cpu1/online" not in find_settings(root, find_clocks(root))
    assert read_setting(root, f"/{CPU}/cpu1/online") is None


def test_what_is_no_text_or_too_long_is_not_read(tmp_path: Path) -> None:
    root = make_orin(tmp_path)
    path = f"/{CPU}/cpu1/online"
    for content in (b"\xff\n", b"1" * 5000):
        (root / path.lstrip("/")).write_bytes(content)
        assert read_setting(root, path) is None


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/sys/kernel/../../etc/passwd",
        "/sys/power/state",
        "/proc/sys/kernel/core_pattern",
        f"/{CPU}/cpu1/cpufreq/../../../../../power/state",
        f"/{CPU}/cpu1/online\n",
        "",
    ],
)
def test_other_files_are_no_settings(tmp_path: Path, path: str) -> None:
    root = make_orin(tmp_path)
    known = known_settings(root, find_clocks(root))
    assert not is_setting(path, known)
    assert is_setting(f"/{CPU}/cpu1/online", known)


def test_a_range_of_cpus_without_end_is_not_counted_out(tmp_path: Path) -> None:
    root = make_laptop(tmp_path)
    write(root, f"{CPU}/cpu0/cpufreq/related_cpus", "0-99999999999")
    assert find_clocks(root).cpu[0].cpus == (0,)
