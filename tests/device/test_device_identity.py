"""Identity and state, read from sysfs trees made in a folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.hardware import MODULES
from mansard.device.identity import identify
from mansard.device.system import parse_cpu_list, usable_cpus
from mansard.device.topology import cpu_quota, data_caches, physical_cores


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def write_cache(root: Path, cpu: int, index: int, level: int, **fields: str) -> None:
    folder = f"sys/devices/system/cpu/cpu{cpu}/cache/index{index}"
    write(root, f"{folder}/level", f"{level}\n")
    for name, value in fields.items():
        write(root, f"{folder}/{name}", f"{value}\n")


@pytest.fixture
def laptop(tmp_path: Path) -> Path:
    """Two cores with two threads each: CPUs 0 and 2 are one core, 1 and 3 the other."""
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        cpu_folder = f"sys/devices/system/cpu/cpu{cpu}"
        write(tmp_path, f"{cpu_folder}/topology/thread_siblings_list", siblings)
        write(tmp_path, f"{cpu_folder}/cpufreq/scaling_cur_freq", f"{2_400_000 + cpu}\n")
        write(tmp_path, f"{cpu_folder}/thermal_throttle/package_throttle_count", "7\n")
        line = {"coherency_line_size": "64"}
        write_cache(tmp_path, cpu, 0, 1, type="Data", size="48K", shared_cpu_list=siblings, **line)
        write_cache(tmp_path, cpu, 1, 1, type="Instruction", size="32K", shared_cpu_list=siblings)
        write_cache(tmp_path, cpu, 2, 2, type="Unified", size="2048K", shared_cpu_list=siblings)
        write_cache(tmp_path, cpu, 3, 3, type="Unified", size="12M", shared_cpu_list="0-3", **line)
    write(tmp_path, "proc/cpuinfo", "processor : 0\nmodel name : Made-up   CPU @ 2.4GHz\n")
    write(tmp_path, "proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\n")
    write(tmp_path, "etc/os-release", 'NAME="X"\nPRETTY_NAME="Made-up Linux 1"\n')
    write(tmp_path, "etc/machine-id", "0123456789abcdef\n")
    write(tmp_path, "sys/class/thermal/thermal_zone0/type", "acpitz\n")
    write(tmp_path, "sys/class/thermal/thermal_zone0/temp", "20000\n")
    write(tmp_path, "sys/class/thermal/thermal_zone1/type", "x86_pkg_temp\n")
    write(tmp_path, "sys/class/thermal/thermal_zone1/temp", "61500\n")
    return tmp_path


def test_a_laptop_is_described_by_what_the_system_says(laptop: Path) -> None:
    machine = identify(laptop, allowed_cpus=(0, 1, 2, 3))
    assert machine.kind == "cpu"
    assert machine.name == "Made-up CPU @ 2.4GHz"
    assert machine.cpus == (0, 1)  # one thread of each core
    assert machine.memory_bytes == 16384 * 1024
    assert machine.operating_system == "Made-up Linux 1"
    assert machine.machine_hash is not None
    assert "0123456789abcdef" not in machine.machine_hash
    assert machine.accelerators == ()
    assert (machine.board, machine.cuda, machine.driver) == (None, None, None)
    assert not machine.is_simulated


def test_caches_are_counted_by_instance(laptop: Path) -> None:
    caches = identify(laptop, allowed_cpus=(0, 1, 2, 3)).caches
    assert [(c.level, c.size_bytes, c.n_instances) for c in caches] == [
        (1, 49_152, 2),  # 48 KiB = 48 × 1024, one for each core
        (2, 2_097_152, 2),
        (3, 12_582_912, 1),  # shared by all
    ]
    assert caches[0].shared_cpus == (0, 2)
    assert (caches[1].line_bytes, list(caches[1].unknown)) == (None, ["line_bytes"])


def test_only_allowed_cpus_count(laptop: Path) -> None:
    machine = identify(laptop, allowed_cpus=(2, 3))
    assert machine.cpus == (2, 3)
    assert identify(laptop, allowed_cpus=(0, 2)).cpus == (0,)


def test_a_container_is_limited_by_its_quota(laptop: Path) -> None:
    write(laptop, "proc/self/cgroup", "0::/user.slice/job\n")
    write(laptop, "sys/fs/cgroup/user.slice/cpu.max", "max 100000\n")
    write(laptop, "sys/fs/cgroup/user.slice/job/cpu.max", "150000 100000\n")
    write(laptop, "sys/fs/cgroup/user.slice/memory.max", "4194304\n")
    assert cpu_quota(laptop) == 1.5
    machine = identify(laptop, allowed_cpus=(0, 1, 2, 3))
    assert machine.cpus == (0,)  # 1.5 CPUs pay for one whole thread
    assert machine.memory_bytes == 4_194_304  # less than the 16 MiB of the machine
    write(laptop, "sys/fs/cgroup/cpu.max", "50000 100000\n")
    assert cpu_quota(laptop) == 0.5
    assert identify(laptop, allowed_cpus=(0, 1, 2, 3)).cpus == (0,)


def test_a_container_of_the_first_kind(tmp_path: Path) -> None:
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n")
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    assert cpu_quota(tmp_path) == 2.0
    assert identify(tmp_path, allowed_cpus=(0, 1, 2)).cpus == (0, 1)
    write(tmp_path, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    assert cpu_quota(tmp_path) is None


@pytest.mark.parametrize("text", ["max 100000", "", "0", "1 0", "x y", "-1 100000"])
def test_a_quota_that_is_none(tmp_path: Path, text: str) -> None:
    write(tmp_path, "sys/fs/cgroup/cpu.max", text)
    assert cpu_quota(tmp_path) is None


def test_a_jetson_is_known_by_its_device_tree(laptop: Path) -> None:
    write(laptop, "proc/device-tree/model", "NVIDIA Jetson AGX Orin Developer Kit\0")
    write(laptop, "proc/device-tree/serial-number", "1421\0")
    other_hash = identify(laptop, (0,)).machine_hash
    write(laptop, "proc/device-tree/serial-number", "1422\0")
    machine = identify(laptop, (0,))
    assert (machine.kind, machine.name) == ("jetson", "NVIDIA Jetson AGX Orin Developer Kit")
    assert machine.machine_hash != other_hash


def test_cards_are_seen(laptop: Path) -> None:
    write(laptop, "proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t NVIDIA H200\n")
    write(laptop, "proc/driver/nvidia/gpus/0000:02:00.0/information", "IRQ: 7\n")
    assert identify(laptop, (0,)).accelerators == ("NVIDIA H200", "NVIDIA GPU of unknown model")


def test_an_empty_system_leaves_everything_unknown(tmp_path: Path) -> None:
    machine = identify(tmp_path, allowed_cpus=(0, 1))
    assert machine.cpus == (0, 1)
    assert machine.caches == ()
    assert set(machine.unknown) == {"memory_bytes", "machine_hash", "board", "cuda", "driver"}


@pytest.mark.parametrize("size", ["0K", "", "K", "-4K", "4", "fourK"])
def test_a_cache_without_a_size_is_left_out(tmp_path: Path, size: str) -> None:
    write_cache(tmp_path, 0, 0, 1, type="Data", size=size)
    assert identify(tmp_path, (0,)).caches == ()


def test_a_cache_line_of_zero_bytes_is_unknown(tmp_path: Path) -> None:
    line = {"coherency_line_size": "0"}
    write_cache(tmp_path, 0, 0, 1, type="Data", size="32K", shared_cpu_list="0", **line)
    (cache,) = identify(tmp_path, (0,)).caches
    assert (cache.size_bytes, cache.line_bytes) == (32 * 1024, None)


def test_this_machine_has_a_name_and_cores() -> None:
    machine = identify()
    assert machine.name
    assert set(machine.cpus) <= set(usable_cpus())


@given(st.lists(st.integers(0, 300), unique=True).map(sorted))
def test_cpu_lists_read_back(cpus: list[int]) -> None:
    assert parse_cpu_list(",".join(map(str, cpus))) == tuple(cpus)


def test_cpu_lists_with_ranges() -> None:
    assert parse_cpu_list("0-2,5,7-8\n") == (0, 1, 2, 5, 7, 8)
    assert parse_cpu_list("") == ()


@given(st.sets(st.integers(0, 63), min_size=1))
def test_without_siblings_every_cpu_is_a_core(
    tmp_path_factory: pytest.TempPathFactory, cpus: set[int]
) -> None:
    assert physical_cores(tmp_path_factory.getbasetemp(), tuple(cpus)) == tuple(sorted(cpus))


@pytest.mark.parametrize(
    ("name", "cpus", "n_instances", "shared"),
    [
        # L1, L2 and L3 of the first CPU: how many there are, and who shares them. Sources: the
        # manuals of the cores. TX2: Denver's two cores (1, 2) and the four A57 have an L2 each.
        ("Jetson TX2", range(6), (6, 2), ((0,), (0, 3, 4, 5))),
        ("Jetson AGX Xavier", range(8), (8, 4, 1), ((0,), (0, 1), tuple(range(8)))),
        ("Jetson AGX Orin 64GB", range(12), (12, 12, 3), ((0,), (0,), (0, 1, 2, 3))),
        ("Jetson Thor T5000", range(14), (14, 14, 1), ((0,), (0,), tuple(range(14)))),
    ],
)
def test_the_clusters_of_a_module_say_who_shares_a_cache(
    tmp_path: Path,
    name: str,
    cpus: range,
    n_instances: tuple[int, ...],
    shared: tuple[tuple[int, ...], ...],
) -> None:
    """The kernel describes CPU 0 alone, as where the others are off."""
    for level in range(1, len(n_instances) + 1):
        write_cache(tmp_path, 0, level, level, size=f"{64 * level}K", type="Unified")
    module = next(module for module in MODULES.values() if module.name == name)
    caches = data_caches(tmp_path, tuple(cpus), module)
    assert tuple(cache.n_instances for cache in caches) == n_instances
    assert tuple(cache.shared_cpus for cache in caches) == shared
