"""Engines at work, swapping and fans: read on boards of files, unknown where nothing tells."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mansard.core.records import Spread
from mansard.device.conditions import Watch
from mansard.device.conditions.surroundings import find_engines, find_fans, read_swapped_bytes
from mansard.simulator import create_board as create_simulated
from mansard.simulator import running
from tests.device.conditions_machine import HOST1X, PWM_FAN, create_board, put, set_swapped
from tests.waiting import awaited

LONG_S = 3600.0


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return create_board(tmp_path)


def test_engines_that_were_at_work_at_any_reading(board: Path) -> None:
    put(board, f"{HOST1X}/15880000.nvdla0/power/runtime_status", "active")
    with Watch(board, (0,), LONG_S) as watch:
        put(board, f"{HOST1X}/15880000.nvdla0/power/runtime_status", "suspended")
        put(board, f"{HOST1X}/154c0000.nvenc/power/runtime_status", "active")
    assert watch.conditions.engines == ("DLA0", "NVENC")


@pytest.mark.parametrize(
    ("name", "engines"),
    [
        ("agx-orin", {"DLA0", "DLA1", "NVDEC", "NVENC", "PVA0", "VIC"}),
        ("orin-nano-super", {"NVDEC", "VIC"}),  # the module has neither NVENC nor DLA
        ("tx2", {"NVDEC", "NVENC", "VIC"}),
        ("thor", {"VIC"}),
    ],
)
def test_the_engines_of_every_release(tmp_path: Path, name: str, engines: set[str]) -> None:
    found = find_engines(create_simulated(name, tmp_path))
    assert found.states.keys() == engines
    assert found.read() == ()


def test_a_device_of_another_kind_is_no_engine(board: Path) -> None:
    put(board, f"{HOST1X}/15820000.se/power/runtime_status", "active")
    put(board, f"{HOST1X}/13e00000.nvenc-bridge/power/runtime_status", "active")
    assert find_engines(board).read() == ()


def test_swapping_is_counted_over_the_trial_in_both_directions(board: Path) -> None:
    with Watch(board, (0,), LONG_S) as watch:
        set_swapped(board, 110, 205)  # 100 and 200 before
    assert watch.conditions.swapped_bytes == 15 * os.sysconf("SC_PAGE_SIZE")
    put(board, "proc/vmstat", "pswpin 5")
    assert read_swapped_bytes(board) is None


def test_fans_of_every_release(board: Path, tmp_path: Path) -> None:
    with Watch(board, (0,), LONG_S) as watch:
        put(board, f"{PWM_FAN}/pwm1", 255)
        put(board, "sys/class/hwmon/hwmon2/rpm", 4000)
    found = watch.conditions
    assert found.fan_speed_rpm == Spread(before=1600.0, low=1600.0, high=4000.0, after=4000.0)
    # 85 and 255 of 255
    assert found.fan_drive_share == Spread(before=1 / 3, low=1 / 3, high=1.0, after=1.0)
    old = tmp_path / "r32"
    put(old, "sys/devices/pwm-fan/cur_pwm", 51)
    put(old, "sys/devices/pwm-fan/rpm_measured", 900)
    assert (find_fans(old).read_speed_rpm(), find_fans(old).read_drive()) == (900.0, 0.2)


def test_a_simulated_fan_turns_faster_as_the_board_warms(tmp_path: Path) -> None:
    root = create_simulated("agx-orin", tmp_path)
    put(root, "run/mansard-simulator/faults.json", '{"throttle": true}')
    fans = find_fans(root)
    with running(root):
        assert awaited(lambda: fans.read_speed_rpm() == 4800.0)


def test_where_there_is_none_the_reason_stands_there(tmp_path: Path) -> None:
    with Watch(tmp_path, (0,), LONG_S) as watch:
        pass
    names = ("settings_changed", "engines", "swapped_bytes", "fan_speed_rpm", "fan_drive_share")
    reasons = [watch.conditions.unknown[name] for name in names]
    assert "not record" not in " ".join(reasons)
