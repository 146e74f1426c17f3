"""Which Jetson it is: part number, module, release; the same in every power mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.hardware import MODULES
from mansard.device.identity import find_module, identify, is_jetson, read_board, read_gating_mask
from mansard.device.system import usable_cpus
from tests.device.identity_boards import TREE, write, write_cpus, write_orin

ALL = tuple(range(12))


def test_an_agx_orin_by_what_it_says_of_itself(tmp_path: Path) -> None:
    write_orin(tmp_path)
    machine = identify(tmp_path, ALL)
    assert (machine.kind, machine.name) == ("jetson", "NVIDIA Jetson AGX Orin Developer Kit")
    assert machine.board is not None
    assert machine.board.module == "Jetson AGX Orin 64GB"
    assert machine.board.part_number == "p3701-0005"
    assert machine.board.soc == "tegra234"
    assert (machine.board.l4t, machine.board.jetpack) == ("36.4.7", "6.2.1")
    assert machine.board.unknown == {}
    assert find_module(tmp_path) is MODULES["p3701-0005"]


@pytest.mark.parametrize(
    ("place", "content", "part_number"),
    [
        ("compatible", "nvidia,p3768-0000+p3767-0005-super\0nvidia,p3767-0005\0", "p3767-0005"),
        ("compatible", "nvidia,p3449-0000-b00+p3448-0000-b00\0nvidia,tegra210\0", "p3448-0000"),
        ("compatible", "nvidia,p3509-0000+p3668-0001\0nvidia,tegra194\0", "p3668-0001"),
        ("compatible", "nvidia,p4071-0000+p3834-0008\0nvidia,tegra264\0", "p3834-0008"),
        ("compatible", "nvidia,quill\0nvidia,tegra186\0", None),
        ("compatible", "nvidia,p2972-0000\0nvidia,tegra194\0", None),  # the carrier alone
        ("nvidia,dtsfilename", "/dvs/tegra186-quill-p3310-1000-c03-00-base.dts\0", "p3310-1000"),
        ("nvidia,dtsfilename", "x/tegra194-p2888-0001-p2822-0000.dts\0", "p2888-0001"),
        ("chosen/ids", "3767-0000-301 3768-0000-ES1\0", "p3767-0000"),
        ("chosen/plugin-manager/ids/3668-0001-300/connection", "i2c@0\0", "p3668-0001"),
        ("chosen/nvidia,sku", "699-13701-0004-301 G.1\0", "p3701-0004"),
    ],
)
def test_the_part_number_is_found_wherever_it_stands(
    tmp_path: Path, place: str, content: str, part_number: str | None
) -> None:
    write(tmp_path, f"{TREE}/model", "NVIDIA Jetson\0")
    write(tmp_path, f"{TREE}/{place}", content)
    board = read_board(tmp_path)
    assert board.part_number == part_number
    assert board.module == (MODULES[part_number].name if part_number else None)


def test_the_boot_loaders_word_wins_over_a_shared_device_tree(tmp_path: Path) -> None:
    # Early releases flash every AGX Orin with the tree of the first developer kit.
    write_orin(tmp_path)
    write(tmp_path, f"{TREE}/compatible", "nvidia,p3737-0000+p3701-0000\0nvidia,tegra234\0")
    assert read_board(tmp_path).part_number == "p3701-0005"
    (tmp_path / TREE / "chosen/ids").unlink()
    assert read_board(tmp_path).module == "Jetson AGX Orin developer kit"


def test_a_module_that_is_not_in_the_table_is_named_but_not_guessed(tmp_path: Path) -> None:
    write_orin(tmp_path)
    write(tmp_path, f"{TREE}/chosen/ids", "3701-0099-100\0")
    board = read_board(tmp_path)
    assert (board.part_number, board.module) == ("p3701-0099", None)
    assert board.unknown["module"] == "p3701-0099 is not in the table of modules"
    assert find_module(tmp_path) is None


@pytest.mark.parametrize(
    ("text", "l4t", "jetpack"),
    [
        ("# R32 (release), REVISION: 7.4, GCID: 33514132, BOARD: t210ref\n", "32.7.4", "4.6.4"),
        ("# R35 (release), REVISION: 4.1, GCID: 1\n", "35.4.1", "5.1.2"),
        ("# R36 (release), REVISION: 3.0, GCID: 1\n", "36.3.0", "6.0"),
        ("# R38 (release), REVISION: 2.0, GCID: 1\n", "38.2.0", "7.0"),
        ("# R41 (release), REVISION: 1.0, GCID: 1\n", "41.1.0", None),
        ("R36, 4.7", None, None),
        ("", None, None),
    ],
)
def test_releases(tmp_path: Path, text: str, l4t: str | None, jetpack: str | None) -> None:
    write_orin(tmp_path)
    write(tmp_path, "etc/nv_tegra_release", text)
    board = read_board(tmp_path)
    assert (board.l4t, board.jetpack) == (l4t, jetpack)
    if l4t and not jetpack:
        assert board.unknown["jetpack"] == f"no JetPack is known for L4T {l4t}"


def test_the_identity_does_not_hang_on_the_power_mode(tmp_path: Path) -> None:
    write_orin(tmp_path / "maxn")
    write_orin(tmp_path / "15w", online="0-3")
    write_orin(tmp_path / "one", online="0-0")
    maxn = identify(tmp_path / "maxn", ALL)
    assert maxn == identify(tmp_path / "15w", ALL) == identify(tmp_path / "one", ALL)
    assert maxn.cpus == ALL
    # Private levels once a core; the third is shared by each cluster of four: 12 / 4 = 3.
    described = [(c.level, c.size_bytes, c.n_instances, c.shared_cpus) for c in maxn.caches]
    assert described == [
        (1, 64 * 1024, 12, (0,)),
        (2, 256 * 1024, 12, (0,)),
        (3, 2048 * 1024, 3, (0, 1, 2, 3)),
    ]


def test_a_made_up_board_has_the_cpus_that_this_machine_has_too(tmp_path: Path) -> None:
    ours = usable_cpus()
    write_orin(tmp_path)
    write_cpus(tmp_path, f"0-{ours[0]}", "0-0")
    assert identify(tmp_path).cpus == ours[:1]


def test_a_simulated_board_says_so(tmp_path: Path) -> None:
    write_orin(tmp_path)
    assert not identify(tmp_path, (0,)).is_simulated
    write(tmp_path, "etc/mansard-simulated", "")
    assert identify(tmp_path, (0,)).is_simulated


def test_a_container_that_hides_the_device_tree_still_runs_on_a_jetson(tmp_path: Path) -> None:
    write(tmp_path, "sys/devices/soc0/machine", "NVIDIA Jetson AGX Orin Developer Kit\n")
    write(tmp_path, "sys/devices/soc0/family", "tegra234\n")
    machine = identify(tmp_path, (0,))
    assert (machine.kind, machine.name) == ("jetson", "NVIDIA Jetson AGX Orin Developer Kit")
    assert machine.board is not None
    assert (machine.board.soc, machine.board.module) == ("tegra234", None)
    assert machine.board.unknown["module"] == "the device tree names no module that we know"


@pytest.mark.parametrize("folder", ["sys/devices/gpu.0", "sys/devices/platform/gpu.0"])
def test_the_gating_mask_of_the_moment(tmp_path: Path, folder: str) -> None:
    assert read_gating_mask(tmp_path) is None
    write(tmp_path, f"{folder}/tpc_pg_mask", "248\n")
    assert read_gating_mask(tmp_path) == 248


def test_a_plain_machine_is_no_jetson(tmp_path: Path) -> None:
    assert not is_jetson(tmp_path)
    write(tmp_path, f"{TREE}/model", "Raspberry Pi 5 Model B\0")
    write(tmp_path, f"{TREE}/compatible", "raspberrypi,5-model-b\0brcm,bcm2712\0")
    machine = identify(tmp_path, (0,))
    assert (machine.kind, machine.name) == ("cpu", "Raspberry Pi 5 Model B")
    assert machine.unknown["board"] == "the device tree does not name a Jetson"
