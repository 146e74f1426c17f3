"""The watch over a board of files: what changes between two readings shows in the record."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from mansard.core.records import Conditions, Spread
from mansard.device.conditions import Watch, disturbances, find_sources
from tests.device.conditions_machine import (
    CPUS,
    EMC,
    GPU,
    INA,
    OC,
    create_board,
    mode,
    put,
    set_clients,
    set_cpu_khz,
)
from tests.waiting import awaited

LONG_S = 3600.0  # a period in which the thread never reads


@pytest.fixture
def board(tmp_path: Path) -> Path:
    return create_board(tmp_path)


def watch_change(board: Path, change: Callable[[], None]) -> Conditions:
    with Watch(board, CPUS, LONG_S) as watch:
        change()
    return watch.conditions


def test_a_calm_board_is_known_in_every_field(board: Path) -> None:
    found = watch_change(board, lambda: None)
    assert found.cpu_clock_hz == Spread(
        before=2.2016e9, low=2.2016e9, high=2.2016e9, after=2.2016e9
    )
    assert found.gpu_clock_hz is not None
    assert found.gpu_clock_hz.before == 1.3005e9
    assert found.memory_clock_hz is not None
    assert found.memory_clock_hz.after == 3.199e9
    # tj's 50.25: the GPU's -256 is off, and soc0 is neither CPU nor GPU
    assert found.temperature_c is not None
    assert found.temperature_c.high == 50.25
    assert (found.n_throttle_events, found.n_overcurrent_events) == (0, 0)
    assert found.gpu_processes == ()
    # two readings say nothing of a slope, and neither was taken between them
    assert set(found.unknown) == {"temperature_slope_c_per_s", "memory_use"}
    locked = mode(cpu_hz=2.2016e9, gpu_hz=1.3005e9, memory_hz=3.199e9)
    assert disturbances(found, locked, uses_gpu=True) == ()


def test_the_slowest_cluster_is_the_clock(board: Path) -> None:
    found = watch_change(board, lambda: set_cpu_khz(board, 1_728_000, (4, 5, 6, 7)))
    assert found.cpu_clock_hz == Spread(before=2.2016e9, low=1.728e9, high=2.2016e9, after=1.728e9)


def test_only_the_clusters_in_use_are_read(board: Path) -> None:
    with Watch(board, (0, 1), LONG_S) as watch:
        set_cpu_khz(board, 729_600, (8, 9, 10, 11))
    assert watch.conditions.cpu_clock_hz is not None
    assert watch.conditions.cpu_clock_hz.low == 2.2016e9


def test_a_fall_of_the_gpu_clock_is_a_sentence(board: Path) -> None:
    found = watch_change(board, lambda: put(board, f"{GPU}/cur_freq", 918_000_000))
    assert disturbances(found, mode(gpu_hz=1.3005e9), uses_gpu=True) == (
        "the GPU clock fell to 918 MHz from 1300.5 MHz",
    )


def test_a_gpu_that_is_off_has_no_clock(board: Path) -> None:
    put(board, f"{GPU}/cur_freq", 0)
    found = watch_change(board, lambda: None)
    assert found.gpu_clock_hz is None
    assert "cur_freq: holds nothing that can be used" in found.unknown["gpu_clock_hz"]


def test_throttling_that_begins_counts_once_a_device(board: Path) -> None:
    def throttle() -> None:
        put(board, "sys/class/thermal/cooling_device0/cur_state", 3)  # a fan slows nothing down
        put(board, "sys/class/thermal/cooling_device1/cur_state", 1)
        put(board, "sys/class/thermal/cooling_device3/cur_state", 4)

    assert watch_change(board, throttle).n_throttle_events == 2


def test_throttling_that_lasts_from_before_counts(board: Path) -> None:
    put(board, "sys/class/thermal/cooling_device2/cur_state", 2)
    assert watch_change(board, lambda: None).n_throttle_events == 1


def test_over_current_events_are_counted_over_the_trial(board: Path) -> None:
    def overload() -> None:
        put(board, f"{OC}/oc2_event_cnt", 7)  # 5 before
        put(board, f"{OC}/oc3_event_cnt", 6)

    assert watch_change(board, overload).n_overcurrent_events == 3  # 2 + 1


def test_an_alarm_counts_where_there_is_no_counter(board: Path) -> None:
    for number in (1, 2, 3):
        (board / f"{OC}/oc{number}_event_cnt").unlink()
    found = watch_change(board, lambda: put(board, f"{INA}/curr2_crit_alarm", 1))
    assert found.n_overcurrent_events == 1
    nothing = watch_change(board, lambda: put(board, f"{INA}/curr2_crit_alarm", 0))
    assert nothing.n_overcurrent_events == 1  # it was on when the trial began


def test_the_alarm_of_a_channel_that_is_not_connected_is_no_event(board: Path) -> None:
    found = watch_change(board, lambda: put(board, f"{INA}/curr3_max_alarm", 1))
    assert found.n_overcurrent_events == 0


def test_processes_before_and_after_are_both_seen(board: Path) -> None:
    set_clients(board, {1200: "gnome-shell", 1234: "python3", os.getpid(): "mansard"})
    found = watch_change(board, lambda: set_clients(board, {1200: "gnome-shell", 77: "trtexec"}))
    assert found.gpu_processes == ("gnome-shell (1200)", "python3 (1234)", "trtexec (77)")


def test_without_any_file_everything_is_unknown_with_a_reason(tmp_path: Path) -> None:
    with Watch(tmp_path, (0,), LONG_S) as watch:
        pass
    found = watch.conditions
    assert set(found.unknown) == set(Conditions.__struct_fields__) - {"unknown"}
    assert all(found.unknown.values())
    assert "virtual machine" in found.unknown["temperature_c"]
    assert disturbances(found, mode(gpu_hz=1e9), uses_gpu=True) == ()


def test_a_file_that_goes_away_is_unknown_not_zero(board: Path) -> None:
    found = watch_change(board, (board / f"{EMC}/rate").unlink)
    assert found.memory_clock_hz is None
    assert "emc/rate: no such file" in found.unknown["memory_clock_hz"]


def test_the_thread_sees_what_passes_between(board: Path) -> None:
    # No clock decides here: the block goes on once the reading that it waits for was taken.
    dips = threading.Event()
    times_s = iter(range(10**9))

    def clock() -> float:
        if (board / f"{GPU}/cur_freq").read_text() == "612000000\n":
            dips.set()
        return float(next(times_s))

    with Watch(board, CPUS, 0.001, clock=clock) as watch:
        put(board, f"{GPU}/cur_freq", 612_000_000)
        assert dips.wait(timeout=300)
        assert awaited(
            lambda: (gpu := watch.conditions.gpu_clock_hz) is not None and gpu.low <= 612e6
        )
        put(board, f"{GPU}/cur_freq", 1_300_500_000)
    found = watch.conditions.gpu_clock_hz
    assert found == Spread(before=1.3005e9, low=612e6, high=1.3005e9, after=1.3005e9)


def test_sources_are_found_once_for_many_trials(board: Path) -> None:
    sources = find_sources(board, CPUS)
    for celsius in (40_000, 45_000):
        put(board, "sys/class/thermal/thermal_zone3/temp", celsius)
        put(board, "sys/class/thermal/thermal_zone0/temp", celsius)
        with Watch(board, CPUS, LONG_S, sources=sources) as watch:
            pass
        assert watch.conditions.temperature_c is not None
        assert watch.conditions.temperature_c.after == celsius / 1000


def test_an_error_of_the_block_passes_through(board: Path) -> None:
    with pytest.raises(KeyError, match="of the block"), Watch(board, CPUS, LONG_S) as watch:
        raise KeyError("of the block")
    assert watch.conditions.n_throttle_events == 0
