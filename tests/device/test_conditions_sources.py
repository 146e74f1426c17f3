"""Where conditions are read: names of every release, odd machines, junk."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mansard.device.conditions import Watch, disturbances, find_sources
from mansard.device.conditions.recording import temperature_slope
from mansard.device.conditions.sources import ConditionsReading, count_increase, count_rises
from mansard.device.conditions.surroundings import parse_clients
from tests.device.conditions_machine import CPUS, create_board, mode, put

LONG_S = 3600.0


@pytest.mark.parametrize(
    "kind", ["CPU-therm", "MCPU-therm", "BCPU-therm", "cpu-thermal", "x86_pkg_temp", "tj-thermal"]
)
def test_zones_of_every_release(tmp_path: Path, kind: str) -> None:
    put(tmp_path, "sys/class/thermal/thermal_zone4/type", kind)
    put(tmp_path, "sys/class/thermal/thermal_zone4/temp", 61_500)
    assert find_sources(tmp_path, (0,)).thermometers.read_c() == 61.5


def test_a_chip_where_there_is_no_zone(tmp_path: Path) -> None:
    put(tmp_path, "sys/class/hwmon/hwmon0/name", "nvme")
    put(tmp_path, "sys/class/hwmon/hwmon3/name", "k10temp")
    put(tmp_path, "sys/class/hwmon/hwmon3/temp1_input", 48_250)
    assert find_sources(tmp_path, (0,)).thermometers.read_c() == 48.25


@pytest.mark.parametrize("junk", ["-256000", "", "nan", "9" * 400, "12 34", "\udc80"])
def test_sensors_that_are_off_or_talk_junk(tmp_path: Path, junk: str) -> None:
    put(tmp_path, "sys/class/thermal/thermal_zone0/type", "cpu-thermal")
    path = tmp_path / "sys/class/thermal/thermal_zone0/temp"
    path.write_bytes(junk.encode("utf-8", "surrogateescape"))
    with Watch(tmp_path, (0,), LONG_S) as watch:
        pass
    assert watch.conditions.temperature_c is None
    assert watch.conditions.unknown["temperature_c"] == "the sensor did not answer"


def laptop(root: Path) -> Path:
    for cpu in (0, 1):
        folder = f"sys/devices/system/cpu/cpu{cpu}"
        put(root, f"{folder}/cpufreq/scaling_max_freq", 4_000_000)
        put(root, f"{folder}/cpufreq/scaling_cur_freq", 2_400_000 + cpu)
        put(root, f"{folder}/thermal_throttle/package_throttle_count", 7)
        put(root, f"{folder}/topology/physical_package_id", 0)
    return root


def test_a_laptop(tmp_path: Path) -> None:
    with Watch(laptop(tmp_path), (0, 1), LONG_S) as watch:
        for cpu in (0, 1):  # one package: both files show its one counter
            put(
                tmp_path,
                f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/package_throttle_count",
                10,
            )
    found = watch.conditions
    assert found.cpu_clock_hz is not None
    assert found.cpu_clock_hz.before == 2.4e9  # the slower of 2,400,000 and 2,400,001 kHz
    assert found.n_throttle_events == 3  # 10 - 7
    assert found.gpu_clock_hz is None
    assert found.n_overcurrent_events is None


def test_two_packages_count_both(tmp_path: Path) -> None:
    laptop(tmp_path)
    put(tmp_path, "sys/devices/system/cpu/cpu1/topology/physical_package_id", 1)
    with Watch(tmp_path, (0, 1), LONG_S) as watch:
        for cpu in (0, 1):
            put(
                tmp_path,
                f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/package_throttle_count",
                8,
            )
    assert watch.conditions.n_throttle_events == 2


def test_a_cpu_without_a_clock_makes_the_slowest_unknown(tmp_path: Path) -> None:
    with Watch(laptop(tmp_path), (0, 1, 2), LONG_S) as watch:
        pass
    assert watch.conditions.cpu_clock_hz is None


def test_a_reading_is_few_files(tmp_path: Path) -> None:
    # 3 clusters, GPU, memory, 3 zones, 3 cooling devices: on a board under a millisecond.
    sources = find_sources(create_board(tmp_path), CPUS)
    n_clocks = len(sources.cpu_clocks) + (sources.gpu_clock is not None)
    n_files = n_clocks + (sources.memory_clock is not None)
    n_files += len(sources.thermometers.paths) + len(sources.throttling.alarms)
    assert n_files == 11


def reading(at_s: float, celsius: float | None) -> ConditionsReading:
    return ConditionsReading(
        changes=(),
        engines=None,
        fan_speed_rpm=None,
        fan_drive_share=None,
        monotonic_s=at_s,
        cpu_clock_hz=None,
        gpu_clock_hz=None,
        memory_clock_hz=None,
        temperature_c=celsius,
        limits=(),
    )


def test_the_slope_is_that_of_the_later_half() -> None:
    # 10 °C at once, and from then on 0.25 °C in each half second: 0.5 °C/s
    jump = [reading(0.0, 30.0)]
    readings = jump + [reading(at / 2, 40.0 + 0.25 * at) for at in range(1, 12)]
    assert temperature_slope(readings) == pytest.approx(0.5)


@pytest.mark.parametrize("n_readings", [0, 1, 2, 7])
def test_a_short_trial_has_no_slope(n_readings: int) -> None:
    # of 7 readings the later half are 4: at half a second they span 1.5 s, at a third of one less
    readings = [reading(at / 3, 40.0 + at) for at in range(n_readings)]
    assert temperature_slope(readings) is None


def test_nvmap_lines() -> None:
    text = "CLIENT PROCESS PID SIZE\nuser gnome-shell 1200 10240K\nuser my app 77 1M\ntotal 11264K"
    assert parse_clients(text) == {1200: "gnome-shell", 77: "my app"}


@given(st.text())
def test_nvmap_junk_is_passed_over(text: str) -> None:
    assert all(pid >= 0 and name for pid, name in parse_clients(text).items())


def test_processes_that_we_started_are_ours(tmp_path: Path) -> None:
    create_board(tmp_path)
    put(tmp_path, "sys/kernel/debug/nvmap/iovmm/clients", "user child 50 1K\nuser other 60 1K")
    put(tmp_path, "proc/50/status", f"Name:\tchild\nPPid:\t{os.getpid()}")
    put(tmp_path, "proc/60/status", "Name:\tother\nPPid:\t1")
    assert find_sources(tmp_path, CPUS).processes.find().names == ("other (60)",)


def test_in_a_container_we_know_ourselves_by_when_we_came(tmp_path: Path) -> None:
    # The list has the host's numbers, and /proc is that of the container: it knows neither.
    clients = "sys/kernel/debug/nvmap/iovmm/clients"
    create_board(tmp_path)
    put(tmp_path, clients, "user desktop 900 1K")
    processes = find_sources(tmp_path, CPUS).processes
    with processes.learn_own():
        put(tmp_path, clients, "user desktop 900 1K\nuser python3 4242 1K")
    assert processes.find().names == ("desktop (900)",)
    put(tmp_path, clients, "user python3 4242 1K\nuser python3 5000 1K")
    assert processes.find().names == ("python3 (5000)",)


def test_parents_in_a_circle_end(tmp_path: Path) -> None:
    create_board(tmp_path)
    put(tmp_path, "sys/kernel/debug/nvmap/iovmm/clients", "user odd 50 1K")
    for pid, parent in ((50, 60), (60, 50)):
        put(tmp_path, f"proc/{pid}/status", f"PPid:\t{parent}")
    assert find_sources(tmp_path, CPUS).processes.find().names == ("odd (50)",)


def test_a_folder_never_asks_the_cards_of_this_computer(tmp_path: Path) -> None:
    found = find_sources(tmp_path, (0,)).processes.find()
    assert found.names is None
    assert "not those of a folder" in found.why_not


counts = st.lists(st.integers(0, 10**6), min_size=1, max_size=5)


@given(counts, st.data())
def test_counters_add_up(before: list[int], data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(0, 99), min_size=len(before), max_size=len(before)))
    after = [a + step for a, step in zip(before, steps, strict=True)]
    assert count_increase(before, after) == sum(steps)


def test_a_counter_that_was_reset_and_one_that_is_silent() -> None:
    assert count_increase([9, None, 4], [2, 7, None]) == 2


def test_a_counter_of_junk_still_fits_into_a_record() -> None:
    assert msgspec.json.encode(count_increase([0], [10**24])) == b"9007199254740992"  # 2^53


def test_rises_of_an_alarm() -> None:
    # on, off, (silent), on again: twice; the second one never
    assert count_rises([(1, 0), (0, 0), (None, 0), (2, 0), (3, 0)]) == 2


@settings(max_examples=30)
@given(st.data())
def test_junk_in_every_file_is_no_error(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    root = create_board(tmp_path_factory.mktemp("junk"))
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for path in data.draw(st.lists(st.sampled_from(files), max_size=30)):
        path.write_bytes(data.draw(st.binary(max_size=60)))
    with Watch(root, CPUS, LONG_S) as watch:
        for path in data.draw(st.lists(st.sampled_from(files), max_size=30)):
            path.write_bytes(data.draw(st.binary(max_size=60)))
    found = watch.conditions
    assert found.temperature_c is None or -200 < found.temperature_c.low <= found.temperature_c.high
    assert (found.n_throttle_events or 0) >= 0
    assert (found.n_overcurrent_events or 0) >= 0
    assert all(disturbances(found, mode(gpu_hz=1.3005e9)))


@pytest.mark.parametrize(
    "name",
    [
        "sys/class/thermal",
        "sys/class/thermal/thermal_zone0",
        "sys/class/hwmon",
        "sys/devices/system/cpu",
        "sys/devices/system/cpu/cpu0/cpufreq",
        "sys/kernel/debug/nvmap/iovmm",
        "proc",
    ],
)
def test_a_file_where_a_folder_belongs(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, "in the way")
    with Watch(tmp_path, (0,), LONG_S) as watch:
        pass
    assert watch.conditions.cpu_clock_hz is None
