"""Modes of a device that is not the machine that asks: its own clocks and cores, never ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.core.errors import InputError, UsageError
from mansard.core.records import MachineIdentity
from mansard.device.identity import identify
from mansard.device.power_modes.published_modes import modes_elsewhere, names_another

PC = replace(identify(), kind="cpu", name="AMD EPYC 7B13", accelerators=(), board=None)
AGX = "Jetson AGX Orin 64GB (published)"


def names(text: str, device: str = AGX, seen: tuple[str, ...] = ()) -> list[str]:
    return [mode.name for mode in modes_elsewhere(text, device, seen)]


@pytest.mark.parametrize(
    ("device", "machine", "another"),
    [
        (AGX, PC, True),
        ("a board", PC, True),
        ("AMD EPYC 7B13", PC, False),
        ("amd epyc 7b13 (1f3a5c)", PC, False),
        ("NVIDIA H200", replace(PC, kind="gpu", accelerators=("NVIDIA H200",)), False),
        ("GeForce GTX 1080 Ti", replace(PC, accelerators=("NVIDIA GeForce GTX 1080 Ti",)), False),
    ],
)
def test_a_device_is_this_machine_if_it_is_called_so(
    device: str, machine: MachineIdentity, another: bool
) -> None:
    assert names_another(device, machine) is another


def test_all_are_the_named_modes_of_the_board() -> None:
    found = {mode.name: mode for mode in modes_elsewhere("all", AGX)}
    assert list(found) == ["MAXN", "15W", "30W", "50W"]
    # 15W of nvpmodel_p3701_0000.conf: 4 cores, 3 TPCs of 2 SMs, GPU at 408 MHz
    assert (found["15W"].n_cpus, found["15W"].n_sms, found["15W"].gpu_hz) == (4, 6, 408e6)
    assert found["MAXN"].gpu_hz == 1300.5e6  # no cap: the module's highest
    assert names("30w,MODE_15W") == ["30W", "15W"]


def test_what_was_seen_tells_which_board_it_is() -> None:
    # 50W is a mode of the 64 GB module, not of the 32 GB one
    with pytest.raises(UsageError, match="may be one of several boards whose modes differ"):
        names("all", "Jetson AGX Orin")
    assert "50W" in names("all", "Jetson AGX Orin", seen=("50W", "gpu306MHz"))
    assert "40W" in names("all", "Jetson AGX Orin", seen=("40W",))


def test_clocks_and_cores_are_taken_as_written() -> None:
    found = modes_elsewhere("gpu=408MHz,emc=2133MHz,cores=12;gpu=612MHz;gpu=612MHz", AGX)
    assert [mode.name for mode in found] == ["gpu408MHz_emc2133MHz_12c", "gpu612MHz"]
    assert (found[0].gpu_hz, found[0].memory_hz, found[0].n_cpus) == (408e6, 2133e6, 12)
    assert found[1].unknown["memory_hz"] == "not named"
    # of a device without a table any clock and any number of cores
    assert names("gpu=2GHz,cores=64", "some board") == ["gpu2000MHz_64c"]


def test_a_grid_is_of_the_devices_cores(tmp_path: Path) -> None:
    grid = tmp_path / "grid.toml"
    grid.write_text('gpu = ["408MHz", "612MHz"]\ncores = [4, 12]\n')
    assert sorted(names(str(grid))) == [
        "gpu408MHz_12c",
        "gpu408MHz_4c",
        "gpu612MHz_12c",
        "gpu612MHz_4c",
    ]
    grid.write_text("cores = [4, 16]\n")
    with pytest.raises(InputError, match=r"grid.toml:1: 16 cores cannot be on; use 1 to 12"):
        names(str(grid))


@pytest.mark.parametrize(
    ("text", "device", "line"),
    [
        ("all", "some board", "unknown power modes: some board is not this machine, and no table"),
        ("70W", AGX, r"has no mode '70W'; it has MAXN, 15W, 30W, 50W"),
        ("gpu=2GHz", AGX, "gpu has no 2000MHz; any from 1MHz to 1300MHz is available"),
        ("sms=4,gpu=1GHz", AGX, "sms cannot be set"),
        ("gpu=1GHz,", AGX, "'' is not a setting"),
    ],
)
def test_what_the_device_has_not_is_one_line(text: str, device: str, line: str) -> None:
    with pytest.raises(UsageError, match=line):
        names(text, device)
