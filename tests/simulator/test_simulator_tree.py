from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from mansard.core.errors import StorageError, UsageError
from mansard.device.identity import is_simulated
from mansard.simulator import create_board, snapshot
from mansard.simulator.boards import BOARDS
from mansard.simulator.boards.spec import BoardSpec
from mansard.simulator.tools.nvpmodel import parse
from mansard.simulator.tree import render_conf
from tests.simulator.simulator_bench import CPU, number, text

NAMES = ["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"]


@pytest.fixture(params=BOARDS, ids=lambda board: board.name)
def figures(request: pytest.FixtureRequest) -> BoardSpec:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def root(figures: BoardSpec, tmp_path: Path) -> Path:
    return create_board(figures.name, tmp_path)


def test_the_boards() -> None:
    assert [board.name for board in BOARDS] == NAMES


def test_it_says_that_it_is_simulated(root: Path) -> None:
    assert is_simulated(root)
    assert not is_simulated(root.parent)
    for path in ("proc/device-tree/model", "etc/os-release", "etc/nv_tegra_release"):
        assert "simulated" in text(root, path)
    for path in ("etc/mansard-simulated", "etc/nvpmodel.conf", "usr/sbin/nvpmodel"):
        assert "simulated" in text(root, path).lower()


def test_device_tree_strings_end_with_a_nul(root: Path, figures: BoardSpec) -> None:
    folder = root / "proc/device-tree"
    assert (folder / "model").read_bytes().endswith(b"(simulated)\0")
    assert (folder / "compatible").read_bytes() == "".join(
        f"{name}\0" for name in figures.compatible
    ).encode()
    assert re.fullmatch(rb"\d{13}\0", (folder / "serial-number").read_bytes())


def test_the_release_file_has_the_real_form(root: Path) -> None:
    # "# R36 (release), REVISION: 4.7, GCID: …, BOARD: generic, EABI: aarch64, DATE: …"
    line = text(root, "etc/nv_tegra_release").splitlines()[0]
    assert re.fullmatch(
        r"# R\d\d \(release\), REVISION: \d+\.\d, GCID: \d+, BOARD: \w+, EABI: aarch64, DATE: .+",
        line,
    )


def test_links_are_relative_and_lead_somewhere(root: Path) -> None:
    links = [path for path in root.rglob("*") if path.is_symlink()]
    assert len(links) > 20
    for link in links:
        assert not os.path.isabs(os.readlink(link))  # noqa: PTH115, PTH117
        assert link.resolve(strict=True).is_relative_to(root.resolve())


def test_the_configuration_has_the_modes_of_the_table(figures: BoardSpec) -> None:
    conf = parse(render_conf(figures))
    assert conf.errors == []
    assert conf.default == figures.default
    assert [(mode.id, mode.name) for mode in conf.modes.values()] == [
        (mode.id, mode.name) for mode in figures.modes
    ]
    for mode in figures.modes:
        assert tuple(conf.modes[mode.id].settings) == mode.settings


def test_every_setting_of_the_default_mode_is_in_the_tree(root: Path, figures: BoardSpec) -> None:
    assert text(root, "var/lib/nvpmodel/status") == f"pmode:{figures.default:04d}"
    (mode,) = (mode for mode in figures.modes if mode.id == figures.default)
    on = {int(a[5:]) for p, a, value in mode.settings if p == "CPU_ONLINE" and value == "1"}
    if not figures.cpu0_switch:
        on.add(0)
        assert not (root / CPU / "cpu0/online").exists()
    for cpu in figures.cpus:
        assert (text(root, f"{CPU}/cpu{cpu}/online") if cpu else "1") == str(int(cpu in on))


def test_agx_orin_starts_in_30w(agx_orin: Path) -> None:
    # nvpmodel_p3701_0000.conf: 8 cores at 1728 MHz, mask 240, GPU 612 MHz, EMC uncapped
    gpu = "sys/devices/platform/bus@0/17000000.gpu"
    assert text(agx_orin, f"{CPU}/online") == "0-7"
    assert text(agx_orin, f"{CPU}/offline") == "8-11"
    assert number(agx_orin, f"{CPU}/cpu7/cpufreq/scaling_max_freq") == 1728000
    assert number(agx_orin, f"{gpu}/tpc_pg_mask") == 240
    assert number(agx_orin, f"{gpu}/devfreq_dev/max_freq") == 612000000
    assert number(agx_orin, "sys/kernel/nvpmodel_clk_cap/emc") == 3199000000
    assert text(agx_orin, "sys/devices/platform/gpu.0/power/control") == "auto"
    assert text(agx_orin, "sys/class/devfreq/17000000.gpu/device/of_node/name") == "gpu"
    labels = [text(agx_orin, f"sys/class/hwmon/hwmon4/in{n}_label") for n in (1, 2, 3)]
    assert labels == ["NC", "VDDQ_VDD2_1V8AO", "NC"]
    assert (agx_orin / "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon3/curr1_input").exists()


def test_tx2_has_the_older_monitors(tmp_path: Path) -> None:
    root = create_board("tx2", tmp_path)
    first, second = (
        root / "sys/bus/i2c/drivers/ina3221x" / name
        for name in ("0-0040/iio:device0", "0-0041/iio:device1")
    )
    assert [(first / f"rail_name_{n}").read_text().strip() for n in (0, 1, 2)] == [
        "VDD_SYS_GPU",
        "VDD_SYS_SOC",
        "VDD_4V0_WIFI",
    ]
    assert (second / "rail_name_0").read_text() == "VDD_IN\n"
    assert (second / "in_power0_input").exists()
    # A cap between the steps of the table is kept as it was written: MAXP_CORE_ALL, 1.4 GHz
    assert number(root, f"{CPU}/cpu0/cpufreq/scaling_max_freq") == 1400000


def test_thor_has_other_nodes(tmp_path: Path) -> None:
    root = create_board("thor", tmp_path)
    folder = "sys/class/devfreq"
    assert text(root, f"{folder}/gpu-gpc-0/available_frequencies").split()[-1] == "1575000000"
    assert text(root, f"{folder}/gpu-nvd-0/available_frequencies").split()[-1] == "1692000000"
    assert number(root, f"{folder}/bwmgr/max_freq") == 4266000000
    assert text(root, "sys/class/hwmon/hwmon4/name") == "ina238"
    assert (root / "sys/class/hwmon/hwmon4/power1_input").exists()
    assert not (root / "sys/kernel/debug/bpmp/debug/clk/emc").exists()


def test_sensors_show_an_idle_board_before_it_runs(agx_orin: Path) -> None:
    # VDD_GPU_SOC: 2.4 W at 19.904 V are 120.6 mA, six steps of 20 mA; over 2 mΩ 240 µV
    folder = "sys/class/hwmon/hwmon3"
    assert number(agx_orin, f"{folder}/in1_input") == 19904
    assert number(agx_orin, f"{folder}/curr1_input") == 120
    assert number(agx_orin, f"{folder}/in4_input") == 240
    assert number(agx_orin, "sys/class/thermal/thermal_zone0/temp") == 35000


def test_the_same_board_twice_is_the_same(tmp_path: Path) -> None:
    first, second = (create_board("agx-orin", tmp_path / name) for name in "ab")
    assert snapshot(first) == snapshot(second)
    assert len(snapshot(first)) > 500


def test_a_snapshot_sees_settings_and_no_readings(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    (agx_orin / "sys/class/hwmon/hwmon3/curr1_input").write_text("5\n")
    (agx_orin / f"{CPU}/cpufreq/policy0/scaling_cur_freq").write_text("5\n")
    assert snapshot(agx_orin) == before
    # The kernel ends each value with a newline, whether the writer did or not.
    cap = agx_orin / "sys/kernel/nvpmodel_clk_cap/emc"
    cap.write_text("3199000000")
    assert snapshot(agx_orin) == before
    cap.write_text("2133000000")
    assert snapshot(agx_orin) == {**before, "sys/kernel/nvpmodel_clk_cap/emc": b"2133000000"}


def test_limits_of_cores_that_are_off_are_in_no_snapshot(agx_orin: Path) -> None:
    before = snapshot(agx_orin)
    (agx_orin / f"{CPU}/cpufreq/policy8/scaling_max_freq").write_text("729600\n")
    assert snapshot(agx_orin) == before
    (agx_orin / f"{CPU}/cpu8/online").write_text("1\n")
    assert f"{CPU}/cpufreq/policy8/scaling_max_freq" in snapshot(agx_orin)


def test_unknown_boards_and_used_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose one of: agx-orin, orin-nano-super"):
        create_board("nano", tmp_path)
    create_board("thor", tmp_path)
    with pytest.raises(StorageError, match="exists"):
        create_board("thor", tmp_path)


RECORDED = {
    "agx-orin": "concord__nvpmodel__nvpmodel_p3701_0000.conf",
    "orin-nano-super": "concord__nvpmodel__nvpmodel_p3767_0003_super.conf",
    "xavier-nx": "galen__nvpmodel__nvpmodel_t194_p3668.conf",
    "tx2": "quill__nvpmodel__nvpmodel_t186.conf",
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", RECORDED)
def test_modes_are_those_of_the_recorded_configuration(name: str, shared_data: Path) -> None:
    (file,) = (shared_data / "nvpmodel").glob(f"*{RECORDED[name]}")
    (figures,) = (board for board in BOARDS if board.name == name)
    ours, theirs = parse(render_conf(figures)), parse(file.read_text())
    assert ours.default == theirs.default
    assert ours.modes.keys() == theirs.modes.keys()
    for number_, mode in theirs.modes.items():
        # An EMC without a cap is 0 up to r35 and -1 on r36; this file of AGX Orin is of r35.
        settings = [
            ("EMC", "MAX_FREQ", "-1") if name == "agx-orin" and s == ("EMC", "MAX_FREQ", "0") else s
            for s in mode.settings
        ]
        assert ours.modes[number_].name == mode.name
        assert ours.modes[number_].settings == settings


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_the_version_of_l4t_is_that_of_the_release(board: BoardSpec) -> None:
    # "# R35 (release), REVISION: 4.1, …": 35.4
    found = re.match(r"R(\d+) \(release\), REVISION: (\d+)", board.release.removeprefix("# "))
    assert found is not None
    assert board.l4t == (int(found[1]), int(found[2]))


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.name)
def test_clocks_are_whole_kilohertz_in_rising_order(board: BoardSpec) -> None:
    """As in the kernel's tables, whose unit is 1 kHz."""
    tables = [board.emc_hz, *(gpu.hz for gpu in board.gpus)]
    for table in tables:
        assert list(table) == sorted(set(table))
        assert not [hz for hz in table if hz % 1000]


def test_the_lowest_clock_of_a_cluster_is_its_first_step(root: Path, figures: BoardSpec) -> None:
    for cluster in figures.clusters:
        folder = f"{CPU}/cpufreq/policy{cluster.cpus[0]}"
        steps = [
            int(step) for step in text(root, f"{folder}/scaling_available_frequencies").split()
        ]
        ends = [number(root, f"{folder}/cpuinfo_{end}_freq") for end in ("min", "max")]
        assert ends == [min(steps), max(steps)]
