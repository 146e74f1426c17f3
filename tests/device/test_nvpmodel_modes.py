"""From a board's configuration to power modes: clocks, cores, clusters, gating, the file itself."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError, InputError
from mansard.core.hardware import MODULES
from mansard.device.nvpmodel.caps import find_path
from mansard.device.nvpmodel.config import parse_config
from mansard.device.nvpmodel.modes import BoardMode, BoardModes, board_modes, read_modes
from mansard.device.nvpmodel.sections import Param
from tests.device.nvpmodel_files import CONFIG, MODES, PARAMS, write

CPU = "/sys/devices/system/cpu"


def only(text: str) -> BoardMode:
    """The one mode of a configuration."""
    (mode,) = board_modes(parse_config(text, "x.conf"), "x.conf").modes
    return mode


def named(modes: BoardModes, name: str) -> BoardMode:
    found = modes.find(name)
    assert found is not None
    return found


def test_a_mode_has_its_caps_in_hertz_and_its_cores() -> None:
    modes = board_modes(parse_config(CONFIG, "x.conf"), "x.conf")
    low = named(modes, "15W")
    assert (low.id, modes.default, modes.soc) == (7, "15W", "tegra234")
    mode = low.mode
    assert mode.kind == "nvpmodel"
    assert mode.n_cpus == 3
    assert [(one.cpus, one.max_hz) for one in mode.clusters] == [
        ((0, 1), 1_113_600_000),  # the file has kHz
        ((2,), 729_600_000),
    ]
    assert mode.cpu_hz == 1_113_600_000  # of the fastest cluster
    assert mode.gpu_hz == 408_000_000
    assert mode.memory_hz == 3_199_000_000  # more than 31 bits
    assert mode.dla_hz == 614_400_000
    assert mode.n_sms == 6  # 248 is 11111000 in binary: 2 SMs × (8 - 5) TPCs
    assert set(mode.unknown) == {"power_limit_w"}


def test_uncapped_clocks_are_unknown_and_say_so() -> None:
    mode = named(board_modes(parse_config(CONFIG, "x.conf"), "x.conf"), "maxn").mode
    clocks = {name: mode.unknown[name] for name in ("cpu_hz", "gpu_hz", "memory_hz", "dla_hz")}
    assert set(clocks.values()) == {"uncapped"}
    assert [one.unknown for one in mode.clusters] == [{"max_hz": "uncapped"}] * 2
    assert mode.n_sms == 16


@pytest.mark.parametrize(
    ("value", "hz"),
    [
        ("-1", None),
        ("0", None),
        ("2147483647", None),
        ("9223372036854775807", None),
        ("18446744073709551615", None),
        ("2147483646", 2147483646),
        ("4266000000", 4266000000),
        ("0x7FFFFFFF", None),
        ("0x26BE3680", 650000000),
        ("-2", None),
        ("fast", None),
        ("1e9", None),
        ("9" * 900, None),
    ],
)
def test_which_values_are_caps(value: str, hz: int | None) -> None:
    mode = only(f"{PARAMS}< POWER_MODEL ID=0 NAME=A >\nGPU MAX_FREQ {value}\n").mode
    assert mode.gpu_hz == hz
    is_cap = {"-1", "0", "2147483647", "9223372036854775807", "18446744073709551615", "0x7FFFFFFF"}
    if hz is None:
        assert (mode.unknown["gpu_hz"] == "uncapped") is (value in is_cap)


@pytest.mark.parametrize(
    ("mask", "n_sms"),
    [
        ("0", 16),
        ("240", 8),
        ("252", 4),
        ("0xf8", 6),
        ("255", 0),
        ("256", 16),  # a bit beyond the chip's 8 TPCs gates nothing
        ("-1", None),
        ("all", None),
    ],
)
def test_active_multiprocessors_by_the_gating_mask(mask: str, n_sms: int | None) -> None:
    text = f"{PARAMS}< POWER_MODEL ID=0 NAME=A >\nTPC_POWER_GATING TPC_PG_MASK {mask}\n"
    mode = only(text).mode
    assert mode.n_sms == n_sms
    assert ("n_sms" in mode.unknown) is (n_sms is None)


def test_a_module_never_has_more_multiprocessors_than_its_own() -> None:
    config = parse_config(CONFIG, "x.conf")
    modes = board_modes(config, "x.conf", None, MODULES["p3767-0003"])
    assert named(modes, "MAXN").mode.n_sms == 8  # mask 0 on an Orin Nano: 4 TPCs of its 8 are off


def test_a_mode_that_does_not_gate_leaves_the_number_open() -> None:
    assert "as it finds it" in only(f"{PARAMS}< POWER_MODEL ID=0 NAME=A >\n").mode.unknown["n_sms"]


def test_a_path_for_another_kernel_does_not_tell_the_chip() -> None:
    # NVIDIA's file for Nano names Xavier's GPU beside its own.
    text = (
        "< PARAM TYPE=CLOCK NAME=GPU >\n"
        "FREQ_TABLE_KNEXT /sys/devices/17000000.gv11b/devfreq/devfreq0/available_frequencies\n"
        "MAX_FREQ /sys/devices/gpu.0/devfreq/57000000.gpu/max_freq\n"
        "< POWER_MODEL ID=0 NAME=A >\n"
    )
    assert board_modes(parse_config(text, "x"), "x").soc == "tegra210"


def test_dla_names_of_xavier_and_the_lower_of_two_caps() -> None:
    text = (
        "< PARAM TYPE=CLOCK NAME=NAFLL_DLA >\nMAX_FREQ /sys/a\n"
        "< PARAM TYPE=CLOCK NAME=DLA1_CORE >\nMAX_FREQ /sys/b\n"
        "< PARAM TYPE=CLOCK NAME=DLA1_FALCON >\nMAX_FREQ /sys/c\n"
        "< POWER_MODEL ID=0 NAME=A >\nNAFLL_DLA MAX_FREQ 900\nDLA1_CORE MAX_FREQ 800\n"
        "DLA1_FALCON MAX_FREQ 300\n"  # the DLA's controller, not its cores
    )
    assert only(text).mode.dla_hz == 800


TX2 = f"""
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_0 {CPU}/cpu0/online
CORE_1 {CPU}/cpu1/online
CORE_2 {CPU}/cpu2/online
CORE_3 {CPU}/cpu3/online
CORE_4 {CPU}/cpu4/online
CORE_5 {CPU}/cpu5/online
< PARAM TYPE=CLOCK NAME=CPU_A57 >
MAX_FREQ {CPU}/cpu0/cpufreq/scaling_max_freq
< PARAM TYPE=CLOCK NAME=CPU_DENVER >
MAX_FREQ {CPU}/cpu1/cpufreq/scaling_max_freq
< POWER_MODEL ID=0 NAME=A >
CPU_ONLINE CORE_1 1
CPU_ONLINE CORE_2 1
CPU_ONLINE CORE_3 1
CPU_ONLINE CORE_4 1
CPU_ONLINE CORE_5 0
CPU_A57 MAX_FREQ 1400
CPU_DENVER MAX_FREQ 2000
"""


def test_the_scattered_clusters_of_tx2() -> None:
    mode = only(TX2).mode
    # CPU 0 has no switch and is on; 0 and 3 to 5 are the A57 cores, 1 and 2 the Denver ones.
    assert mode.n_cpus == 5
    assert [(one.cpus, one.max_hz) for one in mode.clusters] == [
        ((0, 3, 4), 1_400_000),
        ((1, 2), 2_000_000),
    ]
    assert mode.n_sms == 2


PER_CORE = "< PARAM TYPE=FILE NAME=CPU_ONLINE >\n" + "".join(
    f"CORE_{cpu} {CPU}/cpu{cpu}/online\n" for cpu in range(6)
)
PER_CORE += "".join(
    f"< PARAM TYPE=CLOCK NAME=CPU_A78_{cpu} >\nMAX_FREQ {CPU}/cpu{cpu}/cpufreq/scaling_max_freq\n"
    for cpu in range(6)
)
PER_CORE += "< POWER_MODEL ID=0 NAME=A >\n" + "".join(
    f"CPU_ONLINE CORE_{cpu} 1\nCPU_A78_{cpu} MAX_FREQ {1000 + cpu}\n" for cpu in range(6)
)


def test_cores_that_are_set_one_by_one_are_merged_where_the_kernel_says_so(tmp_path: Path) -> None:
    write(tmp_path, "etc/nvpmodel.conf", PER_CORE)
    for cpu in range(6):
        related = "0 1 2 3" if cpu < 4 else "4 5"
        write(tmp_path, f"{CPU}/cpu{cpu}/cpufreq/related_cpus", related)
    (one,) = read_modes(tmp_path).modes
    # Of one policy the value that is written last holds: that of CPU 3, and of CPU 5.
    assert [(cluster.cpus, cluster.max_hz) for cluster in one.mode.clusters] == [
        ((0, 1, 2, 3), 1_003_000),
        ((4, 5), 1_005_000),
    ]
    assert len(only(PER_CORE).mode.clusters) == 6  # without the kernel each is its own


def test_cpus_that_this_board_does_not_have_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "etc/nvpmodel.conf", PER_CORE)
    for cpu in range(4):
        (tmp_path / f"{CPU}/cpu{cpu}".lstrip("/")).mkdir(parents=True)
    (one,) = read_modes(tmp_path).modes
    assert one.mode.n_cpus == 4
    assert [cluster.cpus for cluster in one.mode.clusters] == [(0,), (1,), (2,), (3,)]


def test_cpus_that_no_mode_mentions_do_not_exist_without_a_kernel_to_ask() -> None:
    # A module lacks whole clusters of its chip: AGX Orin 32GB defines 12 cores and switches 8.
    text = PARAMS.replace("cpu2/cpufreq", "cpu1/cpufreq") + re.sub(
        "CPU_ONLINE CORE_[23] [01]\n", "", MODES
    )
    modes = board_modes(parse_config(text, "x.conf"), "x.conf")
    assert [one.mode.n_cpus for one in modes.modes] == [2, 2]


def test_a_cluster_that_a_mode_leaves_on_without_a_cap_is_not_uncapped() -> None:
    text = MODES.replace("CPU_A78_1 MAX_FREQ 729600\n", "")
    low = named(board_modes(parse_config(PARAMS + text, "x"), "x"), "15W").mode
    assert low.clusters[1].unknown == {"max_hz": "this mode does not set it"}
    assert low.cpu_hz is None
    assert low.unknown["cpu_hz"] == "this mode does not set it"


def test_the_device_tree_tells_the_chip_where_the_configuration_does_not(tmp_path: Path) -> None:
    text = CONFIG.replace("17000000.ga10b", "17000000.gpu").replace("CPU_A78", "CPU_X")
    write(tmp_path, "etc/nvpmodel.conf", text)
    assert read_modes(tmp_path).soc is None
    assert read_modes(tmp_path).modes[0].mode.n_sms is None
    write(tmp_path, "proc/device-tree/compatible", "nvidia,p3509-0000\0nvidia,tegra194\0")
    modes = read_modes(tmp_path)
    assert modes.soc == "tegra194"
    # 4 TPCs of 2 SMs; of mask 248 only bit 3 is one of them: 2 × (4 - 1).
    assert [one.mode.n_sms for one in modes.modes] == [8, 6]


@pytest.mark.parametrize(
    "target",
    ["/etc/nvpmodel/nvpmodel_p3701_0000.conf", "nvpmodel/nvpmodel_p3701_0000.conf",
     "../../../../../etc/nvpmodel/nvpmodel_p3701_0000.conf"],
)  # fmt: skip
def test_a_link_is_followed_below_the_root(tmp_path: Path, target: str) -> None:
    file = write(tmp_path, "etc/nvpmodel/nvpmodel_p3701_0000.conf", CONFIG)
    (tmp_path / "etc/nvpmodel.conf").symlink_to(target)
    modes = read_modes(tmp_path)
    assert modes.where == str(file)
    assert len(modes.modes) == 2


def test_a_link_to_outside_leads_nowhere(tmp_path: Path) -> None:
    outside = write(tmp_path, "outside.conf", CONFIG)
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/nvpmodel.conf").symlink_to(outside)  # absolute: below the root there is none
    with pytest.raises(DeviceError, match="no such file"):
        read_modes(root)


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/nvpmodel.conf").symlink_to("other.conf")
    (tmp_path / "etc/other.conf").symlink_to("nvpmodel.conf")
    with pytest.raises(DeviceError, match="loop of symbolic links") as raised:
        read_modes(tmp_path)
    assert raised.value.where in {
        str(tmp_path / f"etc/{name}.conf") for name in ("nvpmodel", "other")
    }


def test_no_configuration_is_an_error_that_says_what_a_board_has(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"nvpmodel\.conf: cannot be read.*nvidia-l4t-nvpmodel"):
        read_modes(tmp_path)


def test_a_folder_and_a_pipe_are_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "a/etc/nvpmodel.conf").mkdir(parents=True)
    (tmp_path / "b/etc").mkdir(parents=True)
    os.mkfifo(tmp_path / "b/etc/nvpmodel.conf")  # nobody writes into it: reading would wait
    for name in ("a", "b"):
        with pytest.raises((InputError, DeviceError), match=r"not a file|directory"):
            read_modes(tmp_path / name)


def test_a_file_of_bytes_that_are_no_text_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "etc/nvpmodel.conf", "").write_bytes(bytes(range(256)) * 40)
    with pytest.raises(InputError, match="binary"):
        read_modes(tmp_path)


def test_the_newer_kernels_path_comes_first(tmp_path: Path) -> None:
    param = Param("FILE", "X", {"A": "/sys/old", "A_KNEXT": "/sys/new"})
    assert find_path(tmp_path, param, "A") is None
    write(tmp_path, "sys/old", "1")
    assert find_path(tmp_path, param, "A") == "/sys/old"
    write(tmp_path, "sys/new", "1")
    assert find_path(tmp_path, param, "A") == "/sys/new"


@pytest.mark.parametrize(
    "path",
    ["/etc/shadow", "/sys/../etc/shadow", "/proc/self/root/etc/shadow", "sys/x", "/", "",
     "/sys/a\0b", "/sys/" + "x" * 5000],
)  # fmt: skip
def test_paths_that_lead_elsewhere_are_never_looked_at(tmp_path: Path, path: str) -> None:
    write(tmp_path, "etc/shadow", "secret")
    write(tmp_path, "proc/self/root/etc/shadow", "secret")
    assert find_path(tmp_path, Param("FILE", "X", {"A": path, "A_KNEXT": path}), "A") is None
