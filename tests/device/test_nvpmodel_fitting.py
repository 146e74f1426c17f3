"""The nvpmodel.conf of another module: whose it is, and which of its modes are not offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.errors import UsageError
from mansard.core.hardware import NAMED_MODES
from mansard.device.identity import identify
from mansard.device.nvpmodel.modes import read_modes
from mansard.device.power_modes.listing import list_board, list_config
from mansard.device.power_modes.selection import choose_modes
from tests.device.module_confs import conf, make_module, table

# board with the module: part number, CPUs, highest GPU clock of its kernel in Hz
NX_8 = ("p3767-0001", "0-5", 765e6)
NX_16 = ("p3767-0000", "0-7", 918e6)
NANO_8 = ("p3767-0003", "0-5", 624.75e6)
NANO_4 = ("p3767-0004", "0-5", 624.75e6)
AGX_32 = ("p3701-0004", "0-7", 930.75e6)
AGX_64 = ("p3701-0005", "0-11", 1300.5e6)
XAVIER_NX = ("p3668-0003", "0-5", 1109.25e6)
Part = tuple[str, str, float]


def offered(root: Path) -> list[str]:
    return [one.mode.name for one in read_modes(root).modes]


@pytest.mark.parametrize(
    ("module", "file", "left"),
    [
        (NX_8, "Jetson Orin NX 16GB", ["10W", "15W"]),
        (NANO_4, "Jetson Orin Nano 8GB", []),
        # 15W of AGX Orin has 4 cores, which a Nano has too, but other clocks
        (NANO_8, "Jetson AGX Orin 64GB", ["15W"]),
        (AGX_32, "Jetson AGX Orin 64GB", ["15W", "30W"]),
        (AGX_64, "Jetson AGX Orin 32GB", ["MAXN", "15W", "30W"]),
        (NX_16, "Jetson Orin NX 8GB", ["MAXN", "10W", "15W"]),
        (XAVIER_NX, "Jetson AGX Xavier", []),
    ],
)
def test_modes_of_another_module_are_not_offered(
    tmp_path: Path, module: Part, file: str, left: list[str]
) -> None:
    root = make_module(tmp_path, *module, conf(table(file)))
    assert offered(root) == left
    notes = " ".join(list_board(root).notes)
    assert f"the file is that of {file}" in notes
    for mode in table(file).modes:
        assert mode.name in left or f"{mode.name} is refused" in notes


@pytest.mark.parametrize("board", NAMED_MODES, ids=lambda board: board.board)
def test_every_module_is_offered_all_modes_of_its_own_file(tmp_path: Path, board: object) -> None:
    own = next(each for each in NAMED_MODES if each == board)
    if own.module.soc not in {"tegra234", "tegra194", "tegra186"}:
        pytest.skip("its file has other paths")
    last = max(cpu for cluster in own.module.cpu_clusters for cpu in cluster.cpus)
    gpu_hz = own.gpu_hz or own.module.gpu_hz
    root = make_module(tmp_path, own.module.part_numbers[0], f"0-{last}", gpu_hz, conf(own))
    modes = read_modes(root)
    assert [one.mode.name for one in modes.modes] == [mode.name for mode in own.modes]
    assert modes.fit.notes == ()


def test_cores_that_are_not_there_are_named(tmp_path: Path) -> None:
    modes = read_modes(make_module(tmp_path, *NX_8, conf(table("Jetson Orin NX 16GB"))))
    why = "it switches on cpu6 and cpu7, and this machine has CPUs 0 to 5"
    assert {one.name: one.why for one in modes.fit.refused} == {"MAXN": why, "25W": why}
    # of a mode that can be set its caps are held against the module's own: 1651 and 1421 MHz
    assert "15W differs from that of Jetson Orin NX 8GB: CPU 1651MHz instead of 1420MHz" in (
        modes.fit.notes
    )
    assert modes.default is None  # MAXN, the file's, cannot be set


def test_a_mode_that_is_not_offered_is_not_set_either(tmp_path: Path) -> None:
    root = make_module(tmp_path, *NX_8, conf(table("Jetson Orin NX 16GB")))
    with pytest.raises(UsageError, match="25W is refused: it switches on cpu6 and cpu7"):
        choose_modes("25W", root, identify(root))
    root = make_module(tmp_path / "nano", *NANO_4, conf(table("Jetson Orin Nano 8GB")))
    with pytest.raises(UsageError, match=r"no mode of its nvpmodel.conf is one of this module"):
        choose_modes("all", root, identify(root))


def test_a_super_file_on_a_kernel_without_its_clocks(tmp_path: Path) -> None:
    text = conf(table("Jetson Orin NX 16GB Super"))
    root = make_module(tmp_path / "plain", *NX_16, text)
    # 40W caps the GPU at 1173 MHz, and MAXN_SUPER means that clock; the others stay below 918 MHz.
    assert offered(root) == ["10W", "15W", "25W"]
    assert "the file is of the Super configuration, the kernel not" in " ".join(
        one.why for one in read_modes(root).fit.refused
    )
    part_number, cpus, _ = NX_16
    root = make_module(tmp_path / "super", part_number, cpus, 1173e6, text)
    assert offered(root) == ["MAXN_SUPER", "10W", "15W", "25W", "40W"]


def test_a_tx2_without_its_denver_cores(tmp_path: Path) -> None:
    # MAXN and MAXP_CORE_ALL switch on CPUs 1 and 2, which this kernel hides.
    tx2 = table("Jetson TX2")
    root = make_module(tmp_path, "p3310-1000", "0,3-5", 1300e6, conf(tx2))
    assert offered(root) == ["MAXQ", "MAXP_CORE_ARM"]


def test_a_mode_of_the_owner_is_offered_under_any_name(tmp_path: Path) -> None:
    nx = table("Jetson Orin NX 8GB")
    own = [*nx.modes, nx.modes[1].__class__(
        name="QUIET", gpu_hz=306e6, memory_hz=2133e6, cpu_hz=729.6e6, n_cpus=4, n_sms=4
    )]  # fmt: skip
    modes = read_modes(make_module(tmp_path, *NX_8, conf(nx, own)))
    assert modes.modes[-1].mode.name == "QUIET"
    assert (modes.fit.refused, modes.fit.notes) == ((), ())


def test_a_file_for_another_chip_has_no_mode_of_this_one(tmp_path: Path) -> None:
    root = make_module(tmp_path, *NX_8, conf(table("Jetson AGX Xavier")))
    assert offered(root) == []
    assert {one.why for one in read_modes(root).fit.refused} == {
        "the file is for tegra194, and Jetson Orin NX 8GB is tegra234"
    }


def test_a_file_alone_is_held_against_the_module_in_its_name(tmp_path: Path) -> None:
    path = tmp_path / "nvpmodel_p3767_0001.conf"
    path.write_text(conf(table("Jetson Orin NX 16GB")))
    found = list_config(path)
    assert [one.mode.name for one in found.modes] == ["10W", "15W"]
    assert any("the file is that of Jetson Orin NX 16GB" in note for note in found.notes)


def test_where_the_module_is_not_known_absent_cores_are_said(tmp_path: Path) -> None:
    root = make_module(tmp_path, *NX_8, conf(table("Jetson Orin NX 16GB")))
    (root / "proc/device-tree/compatible").write_text("nvidia,tegra234")
    modes = read_modes(root)
    assert len(modes.modes) == 4
    assert modes.fit.notes == (
        "MAXN switches on cpu6 and cpu7, which this machine does not have: left out",
        "25W switches on cpu6 and cpu7, which this machine does not have: left out",
    )


@pytest.mark.shared_data
def test_the_recorded_case(shared_data: Path) -> None:
    root = shared_data / "cases/05/board"
    assert offered(root) == ["10W", "15W"]
    assert "Jetson Orin NX 16GB (p3767-0000)" in read_modes(root).fit.notes[0]


@pytest.mark.shared_data
@pytest.mark.parametrize("board", NAMED_MODES, ids=lambda board: board.board)
def test_recorded_files_are_their_modules_own(shared_data: Path, board: object) -> None:
    own = next(each for each in NAMED_MODES if each == board)
    for path in (shared_data / "nvpmodel").glob(f"*{own.source.split(';')[0]}"):
        found = list_config(path)
        assert not any("refused" in note or "that of" in note for note in found.notes), path.name
