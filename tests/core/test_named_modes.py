"""The table of NVIDIA's named modes: names of boards, and the files and boards it agrees with."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mansard.core.hardware import (
    MODULES,
    NAMED_MODES,
    WITHOUT_MODES,
    NamedModes,
    boards_called,
)
from mansard.core.records import PowerMode
from mansard.device.nvpmodel.config import load_config
from mansard.device.nvpmodel.modes import BoardModes, board_modes, read_modes
from mansard.simulator import create_board


def called(name: str) -> list[str]:
    return [board.board.removeprefix("Jetson ") for board in boards_called(name)]


@pytest.mark.parametrize(
    ("name", "boards"),
    [
        ("Jetson Orin Nano Super", ["Orin Nano 8GB Super"]),
        ("Jetson Orin Nano Engineering Reference Developer Kit Super", ["Orin Nano 8GB Super"]),
        ("jetson_orin_nano_8gb", ["Orin Nano 8GB", "Orin Nano 8GB Super"]),
        ("OrinNano-4GB", ["Orin Nano 4GB", "Orin Nano 4GB Super"]),
        ("Orin Nano 4GB Super", ["Orin Nano 4GB Super"]),
        ("orin nx 16 super", ["Orin NX 16GB Super"]),
        ("Jetson AGX Orin 64GB", ["AGX Orin 64GB", "AGX Orin developer kit"]),
        # The first developer kit has 32 GB and the GPU of the 64GB module.
        ("AGX Orin 32GB", ["AGX Orin developer kit", "AGX Orin 32GB"]),
        ("p3767-0004", ["Orin Nano 4GB", "Orin Nano 4GB Super"]),
        ("NVIDIA Jetson TX2", ["TX2"]),
        ("TX2 NX", ["TX2 NX"]),
        ("Jetson Nano", ["Nano"]),
        ("AGX Orin 16GB", []),
        ("Orin", []),
        ("GeForce GTX 1080 Ti", []),
    ],
)
def test_a_name_means_the_boards_that_it_may_mean(name: str, boards: list[str]) -> None:
    assert called(name) == boards


def test_a_name_without_super_may_mean_either() -> None:
    assert called("Orin Nano") == [
        "Orin Nano 8GB", "Orin Nano 8GB Super", "Orin Nano 4GB", "Orin Nano 4GB Super"
    ]  # fmt: skip


def one(name: str) -> NamedModes:
    (board,) = boards_called(name)
    return board


def test_modes_are_found_by_any_usual_spelling() -> None:
    nano = one("Orin Nano Super")
    # 25W of nvpmodel_p3767_0003_super.conf: 918 MHz, EMC 3199 MHz, mask 240: 4 of 8 TPCs
    for name in ("25W", "mode_25w", "MODE 25W", "25 W"):
        found = nano.find(name)
        assert found is not None
        assert (found.gpu_hz, found.memory_hz, found.n_sms) == (918e6, 3199e6, 8)
    # MAXN has no caps: the module's highest clocks
    highest = nano.find("MAXN")
    assert highest is not None
    assert (highest.name, highest.gpu_hz, highest.cpu_hz) == ("MAXN_SUPER", 1020e6, 1728e6)
    assert nano.find("60W") is None
    assert one("AGX Xavier").find("MAXN_SUPER") is None


def test_what_no_source_says_stays_unknown() -> None:
    # The GPU clock of the 32GB module is in the module's table from memory.
    (smaller,) = (board for board in NAMED_MODES if board.board == "Jetson AGX Orin 32GB")
    maxn, lower = smaller.find("MAXN"), smaller.find("40W")
    assert maxn is not None
    assert lower is not None
    assert (maxn.gpu_hz, maxn.memory_hz, maxn.n_sms) == (None, 3199e6, 14)
    assert lower.gpu_hz == 816e6


def why_unknown(board: NamedModes, field: str) -> str:
    return board.unknown.get(field, "")


@pytest.mark.parametrize("board", NAMED_MODES, ids=lambda board: board.board)
def test_no_mode_has_a_hole_without_a_reason(board: NamedModes) -> None:
    for mode in map(board.uncapped, board.modes):
        for field in ("gpu_hz", "memory_hz", "cpu_hz"):
            hz = getattr(mode, field)
            assert hz is not None or "not confirmed" in why_unknown(board, field), mode
            assert hz is None or 100e6 < hz < 5e9
        assert 1 <= mode.n_cpus <= board.module.n_cpus
        assert 1 <= mode.n_sms <= board.module.n_sms


def test_every_module_has_modes_or_a_reason_for_none() -> None:
    named = {board.module.name for board in NAMED_MODES}
    for module in MODULES.values():
        assert (module.name in named) != bool(WITHOUT_MODES.get(module.name)), module.name


def test_the_only_holes_are_those_of_agx_orin_32() -> None:
    assert {board.board: sorted(board.unknown) for board in NAMED_MODES if board.unknown} == {
        "Jetson AGX Orin 32GB": ["cpu_hz", "gpu_hz"]
    }


def test_modes_without_a_cap_have_the_clocks_that_nvidia_publishes() -> None:
    # MAXN of AGX Xavier: 1377, 2133 and 2265.6 MHz; 15W of Orin Nano: 1510.4 MHz of the CPU.
    maxn = one("AGX Xavier").find("MAXN")
    assert maxn is not None
    assert (maxn.gpu_hz, maxn.memory_hz, maxn.cpu_hz) == (1377e6, 2133e6, 2265.6e6)
    (plain,) = (board for board in NAMED_MODES if board.board == "Jetson Orin Nano 8GB")
    highest = plain.find("15W")
    assert highest is not None
    assert (highest.gpu_hz, highest.cpu_hz) == (625e6, 1510.4e6)


def compare(board: NamedModes, found: BoardModes) -> int:
    """Check every mode that both have; how many."""
    listed = {each.mode.name: each.mode for each in found.modes}
    both = [mode for mode in board.modes if mode.name in listed]
    for mode in both:
        its: PowerMode = listed[mode.name]
        caps = (its.gpu_hz, its.memory_hz, its.cpu_hz)
        assert (mode.gpu_hz, mode.memory_hz, mode.cpu_hz) == pytest.approx(caps), mode.name
        assert mode.n_cpus == its.n_cpus, mode.name
        if its.n_sms is not None:
            assert mode.n_sms == its.n_sms, mode.name
    return len(both)


@pytest.mark.parametrize(
    ("simulated", "name", "n_modes"),
    [
        ("agx-orin", "AGX Orin 64GB", 4),
        ("orin-nano-super", "Orin Nano Super", 3),
        ("xavier-nx", "Xavier NX", 9),
        ("tx2", "TX2", 4),
        ("thor", "Thor", 1),
    ],
)
def test_simulated_boards_have_the_same_modes(
    tmp_path: Path, simulated: str, name: str, n_modes: int
) -> None:
    found = read_modes(create_board(simulated, tmp_path))
    assert compare(boards_called(name)[0], found) == n_modes


@pytest.mark.shared_data
def test_recorded_configurations_have_the_same_modes(shared_data: Path) -> None:
    n_compared = 0
    for board in NAMED_MODES:
        wanted = board.source.split(";")[0]
        for path in (shared_data / "nvpmodel").glob(f"*{wanted}"):
            config = load_config(path)
            found = board_modes(config, path.name, module=board.module)
            n_modes = compare(board, found)
            assert n_modes == len(found.modes), path.name
            n_compared += n_modes
    # 4 + 4 (kit) + 4 + 4 + 4 + 5 + 2 + 3 + 3 + 8 + 9 + 4 + 4: two Super files are not there
    assert n_compared == 58


@pytest.mark.shared_data
def test_the_recorded_dump_of_a_nano_has_the_same_modes(shared_data: Path) -> None:
    (path,) = (shared_data / "nvpmodel").glob("*show_verbose_nano.txt")
    nano = one("Jetson Nano")
    assert compare(nano, board_modes(load_config(path), path.name, module=nano.module)) == 2


@pytest.mark.parametrize(
    ("name", "n_cpus"),
    [
        # "Online CPU" of NVIDIA's guide, in the order of the modes' numbers (MAXN is 0).
        ("AGX Xavier", (8, 2, 4, 8, 6, 4, 2, 4)),
        ("Xavier NX", (2, 4, 6, 2, 4, 4, 2, 4, 6)),
        ("TX2 8GB", (6, 4, 6, 4)),
        ("Jetson Nano", (4, 2)),
    ],
)
def test_modes_have_the_cores_of_nvidias_guide(name: str, n_cpus: tuple[int, ...]) -> None:
    assert tuple(mode.n_cpus for mode in one(name).modes) == n_cpus


def test_a_name_that_says_its_cores_has_them() -> None:
    for board in NAMED_MODES:
        for mode in board.modes:
            said = re.search(r"_(\d+)CORE$|_(ALL)$|(MAXN)", mode.name)
            if said and board.module.name != "Jetson AGX Orin 32GB":
                assert mode.n_cpus == (int(said[1]) if said[1] else board.module.n_cpus), mode
