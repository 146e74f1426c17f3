"""The settings of a mode: what is otherwise, what is told of it, and writes that leave no trace."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.device.conditions import Watch, disturbances, find_sources
from mansard.device.conditions.mode_settings import SettingChange, describe, find_mode_settings
from mansard.device.file_watch import FileWatcher
from tests.device.conditions_machine import CPUS, EMC, GPU, create_board, mode, put

LONG_S = 3600.0  # a period in which the thread never reads by itself
CPU = "sys/devices/system/cpu"
CAP = f"{CPU}/cpu0/cpufreq/scaling_max_freq"


@pytest.fixture
def board(tmp_path: Path) -> Path:
    root = create_board(tmp_path)
    for cpu in CPUS:
        put(root, f"{CPU}/cpu{cpu}/cpufreq/scaling_governor", "schedutil")
    put(root, f"{EMC}/mrq_rate_locked", 0)
    put(root, "var/lib/nvpmodel/status", "pmode:0001")
    return root


def changed(board: Path, change: Callable[[], None]) -> tuple[str, ...] | None:
    with Watch(board, (0, 1), LONG_S) as watch:
        change()
    return watch.conditions.settings_changed


def test_nothing_is_said_of_a_board_that_is_left_alone(board: Path) -> None:
    def only_read() -> None:
        for path in board.rglob("*"):
            if path.is_file():
                path.read_bytes()
        put(board, f"{GPU}/cur_freq", 612_000_000)  # readings, not settings
        put(board, f"{EMC}/rate", 2_133_000_000)

    assert changed(board, only_read) == ()


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (f"{CPU}/cpu3/online", 0, "core 3 was switched off"),
        (CAP, 1_113_600, f"another setting: /{CAP} is 1113600, it was 2201600"),
        # A cluster that runs no thread of ours: cores 8 to 11.
        (
            f"{CPU}/cpu8/cpufreq/scaling_governor",
            "powersave",
            f"another governor: /{CPU}/cpu8/cpufreq/scaling_governor is powersave, it was "
            "schedutil",
        ),
        (
            "var/lib/nvpmodel/status",
            "pmode:0000",
            "another power mode: /var/lib/nvpmodel/status is pmode:0000, it was pmode:0001",
        ),
    ],
)
def test_a_setting_that_is_otherwise_afterwards(
    board: Path, path: str, value: object, line: str
) -> None:
    assert changed(board, lambda: put(board, path, value)) == (line,)


def test_a_core_that_goes_takes_its_files_with_it(board: Path) -> None:
    def switch_off() -> None:
        put(board, f"{CPU}/cpu5/online", 0)
        for path in (board / CPU / "cpu5/cpufreq").iterdir():
            path.unlink()

    put(board, f"{CPU}/cpu7/online", 0)
    with Watch(board, (0, 1), LONG_S) as watch:
        switch_off()
        put(board, f"{CPU}/cpu7/online", 1)
    expected = ("core 5 was switched off", "core 7 was switched on")
    assert watch.conditions.settings_changed == expected


def test_a_write_that_is_taken_back_at_once_is_told(board: Path) -> None:
    """Between two readings: only the system knows."""

    def there_and_back() -> None:
        put(board, CAP, 1_113_600)
        put(board, CAP, 2_201_600)

    sources = find_sources(board, (0, 1))
    with Watch(board, (0, 1), LONG_S, sources=sources) as watch:
        there_and_back()
    said = watch.conditions.settings_changed
    assert said is not None
    assert len(said) == 1
    assert f"/{CAP}" in said[0]
    assert disturbances(watch.conditions, mode("present")) == said
    assert sources.losses() == ()  # the mode is in force


def test_a_locked_memory_clock_is_a_setting_and_a_free_one_a_reading(board: Path) -> None:
    rate = f"/{EMC}/rate"
    assert rate not in find_mode_settings(board).files
    put(board, f"{EMC}/mrq_rate_locked", 1)
    assert rate in find_mode_settings(board).files
    # Rounded by the boot processor: 0.05 %
    found = find_mode_settings(board)
    put(board, f"{EMC}/rate", 3_197_500_000)
    assert found.changes() == ()


def test_caps_that_heat_has_lowered_are_no_other_mode(board: Path) -> None:
    settings = find_mode_settings(board)
    put(board, CAP, 1_113_600)
    assert settings.losses(is_throttled=True) == ()
    assert len(settings.losses(is_throttled=False)) == 1
    put(board, f"{CPU}/cpu3/online", 0)
    assert settings.losses(is_throttled=True) == ("core 3 was switched off",)


def test_a_mode_with_many_settings_is_told_in_few_lines() -> None:
    changes = [
        *(SettingChange(f"/{CPU}/cpu{cpu}/online", "1", "0") for cpu in (8, 9, 10)),
        *(SettingChange(f"/sys/x{n}/max_freq", "1", "2") for n in range(5)),
        SettingChange("/sys/y/governor", "a", None),
    ]
    assert describe(changes, ("/sys/z", "/sys/x0/max_freq", "/sys/w")) == (
        "cores 8, 9 and 10 were switched off",
        "another governor: /sys/y/governor is gone, it was a",
        "another setting: /sys/x0/max_freq is 2, it was 1 (and 4 more)",
        "another program wrote /sys/w (and 1 more)",
    )


@given(st.lists(st.builds(SettingChange, st.text(), st.text(), st.none() | st.text()), min_size=1))
def test_whatever_changes_is_said_on_printable_lines(changes: list[SettingChange]) -> None:
    lines = describe(changes)
    assert lines
    assert all(line.isprintable() for line in lines)


def test_a_program_that_writes_on_and_on_does_not_keep_the_watch_busy(board: Path) -> None:
    n_readings = 0

    def clock() -> float:
        nonlocal n_readings
        n_readings += 1
        return float(n_readings)

    with Watch(board, (0, 1), LONG_S, clock=clock) as watch:
        for _ in range(2000):
            put(board, CAP, 1_113_600)
            put(board, CAP, 2_201_600)
    # Before, after, and one for the first write, with one of the memory's use; not 4000.
    assert n_readings <= 4
    assert watch.conditions.settings_changed


def test_a_watcher_is_woken_and_closed(tmp_path: Path) -> None:
    watcher = FileWatcher([tmp_path / "absent"])
    threading.Timer(0.05, watcher.wake).start()
    assert watcher.wait(60.0) == []
    watcher.close()
    watcher.close()
    assert watcher.wait(0.0) == []
