"""What a look at a board says: shares, clocks, energy, and why it is slow."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.core.clock import VirtualClock
from mansard.core.records import BoardSample, Limit, PowerSample
from mansard.device.meters.meter import Meter, Meters, power_sample
from mansard.device.totals import Total
from mansard.device.watching import BoardWatch, samples
from mansard.device.watching.readers import RunningEnergy
from mansard.simulator import create_board
from tests.device.conditions_machine import GPU, INA, OC, put
from tests.device.conditions_machine import create_board as board_of_files

BOARDS = ("agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor")


def limit(sample: BoardSample, cause: str) -> Limit:
    (found,) = [one for one in sample.limits if one.cause == cause]
    return found


def set_stat(root: Path, *cpus: tuple[int, int]) -> None:
    lines = [f"cpu{at} {busy} 0 0 {idle} 0 0 0 0 0 0" for at, (busy, idle) in enumerate(cpus)]
    put(root, "proc/stat", "\n".join(lines))


def test_shares_are_of_the_time_since_the_last_look(tmp_path: Path) -> None:
    root = board_of_files(tmp_path)
    put(root, "sys/devices/platform/17000000.gpu/load", 750)
    put(root, "sys/kernel/debug/cactmon/mc_all", 799_750)
    put(root, "proc/meminfo", "MemTotal: 8000 kB\nMemAvailable: 6000 kB\nSwapTotal: 100 kB")
    watch = BoardWatch(root, "bench", wall=lambda: 5.0)
    set_stat(root, (100, 900), (0, 500))
    first = watch.read()
    assert first.cpus[0].busy_share is None
    assert first.cpus[0].unknown["busy_share"] == "it needs two samples"
    set_stat(root, (130, 970), (0, 600))
    second = watch.read()
    # 30 of 100 jiffies; none of 100; the other ten are not in /proc/stat.
    assert [cpu.busy_share for cpu in second.cpus[:3]] == [0.3, 0.0, None]
    assert (second.board, second.time_s, second.source) == ("bench", 5.0, "measured")
    assert (second.gpus[0].busy_share, second.gpus[0].clock_hz) == (0.75, 1.3005e9)
    # 799,750 kHz of activity at 3199 MHz is a quarter.
    assert second.memory_busy_share == 0.25
    assert (second.memory_used_bytes, second.memory_total_bytes) == (2000 * 1024, 8000 * 1024)
    assert second.swap_used_bytes is None
    assert second.unknown["swap_used_bytes"] == "/proc/meminfo does not say"
    assert second.fan_drive_share == 0.3333  # 85 of 255
    assert second.gpu_processes == ()


def test_a_hot_board_says_which_sensor_and_what_it_slows_down(tmp_path: Path) -> None:
    root = board_of_files(tmp_path)
    for name, value in (("temp", 96_000), ("trip_point_0_temp", 95_000)):
        put(root, f"sys/class/thermal/thermal_zone0/{name}", value)
    put(root, "sys/class/thermal/thermal_zone0/trip_point_0_type", "passive")
    put(root, "sys/devices/platform/17000000.gpu/load", 900)
    watch = BoardWatch(root)
    calm = watch.read()
    assert not calm.is_throttling
    put(root, "sys/class/thermal/cooling_device1/cur_state", 1)
    put(root, f"{GPU}/cur_freq", 650_000_000)
    hot = watch.read()
    assert limit(hot, "thermal").why == (
        "too hot: cpu-thermal is at 96.0 °C, slows down from 95 °C; on: cpu-throttle-alert; "
        "GPU at 650 of 1300 MHz"
    )
    assert limit(hot, "thermal").parts == ("CPU",)
    assert hot.n_throttle_events == 1
    assert watch.read().n_throttle_events == 1  # it is still on: no new event
    put(root, "sys/class/thermal/cooling_device1/cur_state", 0)
    put(root, f"{GPU}/cur_freq", 1_300_500_000)
    assert not watch.read().is_throttling
    (zone,) = [zone for zone in hot.zones if zone.zone == "gpu-thermal"]
    assert zone.temperature_c is None  # -256 °C
    assert zone.unknown["temperature_c"] == "the sensor is off"


def test_too_much_current_names_the_kind_and_the_rails(tmp_path: Path) -> None:
    root = board_of_files(tmp_path)
    watch = BoardWatch(root)
    assert watch.read().n_overcurrent_events == 0  # five before the watching are not ours
    put(root, f"{OC}/oc3_event_cnt", 8)
    put(root, f"{INA}/curr2_crit_alarm", 1)
    seen = watch.read()
    assert limit(seen, "over-current").why == (
        "too much current: 3 more events counted (momentary over-current); over its current "
        "limit now: VDD_CPU_CV"
    )
    assert seen.n_overcurrent_events == 3
    put(root, f"{INA}/curr2_crit_alarm", 0)
    after = watch.read()
    assert (after.is_throttling, after.n_overcurrent_events) == (False, 3)


def test_a_busy_part_that_stays_slow_is_told_after_two_looks(tmp_path: Path) -> None:
    root = board_of_files(tmp_path)
    put(root, "sys/devices/platform/17000000.gpu/load", 1000)
    put(root, f"{GPU}/cur_freq", 650_000_000)
    watch = BoardWatch(root)
    assert watch.read().limits == ()  # a governor may not have followed yet
    assert "GPU at 650 of 1300 MHz" in limit(watch.read(), "unknown").why


def test_the_mode_and_a_cap_below_it(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    watch = BoardWatch(root)
    first = watch.read()
    assert first.mode == "30W"
    assert not first.is_throttling
    assert limit(first, "mode").why == (
        "mode 30W allows CPU 0-3 1728 of 2202 MHz, CPU 4-7 1728 of 2202 MHz, GPU 612 of 1300 MHz"
    )
    put(root, "sys/class/devfreq/17000000.gpu/max_freq", 408_000_000)
    capped = limit(watch.read(), "cap")
    assert capped.parts == ("GPU",)
    assert "GPU may rise to 408 MHz, mode 30W allows 612" in capped.why
    assert "another program set it" in capped.why


@pytest.mark.parametrize("name", BOARDS)
def test_every_simulated_board_is_read_whole(name: str, tmp_path: Path) -> None:
    watch = BoardWatch(create_board(name, tmp_path))
    watch.read()
    sample = watch.read()
    assert sample.unknown == {}
    assert sample.source == "simulated"
    assert sample.rails
    assert all(rail.power_w is not None for rail in sample.rails)
    assert all(zone.temperature_c is not None for zone in sample.zones)
    assert sample.gpus[0].clock_hz
    assert sample.gpus[0].busy_share is not None


def test_a_board_whose_cores_change_is_read_anew(tmp_path: Path) -> None:
    root = create_board("agx-orin", tmp_path)
    watch = BoardWatch(root)
    assert len(watch.read().cpus) == 8
    for cpu in range(4, 8):
        put(root, f"sys/devices/system/cpu/cpu{cpu}/online", 0)
    put(root, "sys/devices/system/cpu/online", "0-3")
    assert [cpu.cpu for cpu in watch.read().cpus] == [0, 1, 2, 3]


def test_a_folder_with_nothing_in_it_has_a_reason_for_everything(tmp_path: Path) -> None:
    sample = BoardWatch(tmp_path, "empty").read()
    found = (sample.cpus, sample.gpus, sample.zones, sample.rails, sample.limits)
    assert found == ((), (), (), (), ())
    assert sample.unknown["memory_clock_hz"] == "this machine shows no clock of its memory"
    assert sample.unknown["mode"] == "it is not a Jetson: it has no power modes"
    assert "powercap does not exist" in sample.unknown["power_w"]


class MadeUpMeter:
    """Says what it is given, one reading after the other."""

    name, total_rule, boundary, period_s, pace_s = "made up", None, None, 0.1, None

    def __init__(self, *readings: PowerSample) -> None:
        self._readings = iter(readings)
        self.rails = ("VDD_IN",)

    def read(self) -> tuple[PowerSample, ...]:
        return (next(self._readings),)

    def step_w(self, rail: str) -> float | None:
        return None

    def step_note(self, rail: str) -> str:
        return ""

    def sensor(self, rail: str) -> str:
        return rail


def counted(at_s: float, energy_j: float) -> PowerSample:
    unknown = {"power_w": "it counts energy"}
    return PowerSample(
        rail="VDD_IN", monotonic_s=at_s, power_w=None, energy_j=energy_j, unknown=unknown
    )


def running(meter: Meter) -> RunningEnergy:
    return RunningEnergy(Meters((meter,), {}, Total(("VDD_IN",), "VDD_IN", "the board"), ""))


def test_energy_is_a_trapezoid_that_leaves_pauses_out() -> None:
    watts = ((0.0, 4.0), (1.0, 6.0), (2.0, 6.0), (102.0, 6.0), (103.0, 8.0))
    energy = running(MadeUpMeter(*(power_sample("VDD_IN", at_s, w) for at_s, w in watts)))
    found = [energy.read(at_s) for at_s, _ in watts]
    # 0; (4 + 6)/2 · 1 s = 5; + 6; nothing over 100 s without a reading; + 7
    assert [one.energy_j for one in found] == [0.0, 5.0, 11.0, 11.0, 18.0]
    assert [one.unmetered_s for one in found] == [0.0, 0.0, 0.0, 100.0, 100.0]
    assert [one.power_w for one in found] == [4.0, 6.0, 6.0, 6.0, 8.0]


def test_looks_that_are_far_apart_have_a_trapezoid_where_they_are_meant_to_be() -> None:
    watts = ((0.0, 4.0), (100.0, 6.0))
    meter = MadeUpMeter(*(power_sample("VDD_IN", at_s, w) for at_s, w in watts))
    energy = RunningEnergy(Meters((meter,), {}, Total(("VDD_IN",), "VDD_IN", "it"), ""), 300.0)
    # (4 + 6)/2 · 100 s
    assert [energy.read(at_s).energy_j for at_s, _ in watts] == [0.0, 500.0]


def test_a_counter_gives_the_mean_power_since_the_last_look_and_goes_on_over_pauses() -> None:
    readings = ((0.0, 100.0), (2.0, 110.0), (102.0, 610.0), (104.0, 4.0), (105.0, 7.0))
    energy = running(MadeUpMeter(*(counted(at_s, joules) for at_s, joules in readings)))
    found = [energy.read(at_s) for at_s, _ in readings]
    # 10 J in 2 s; 500 J in 100 s; the counter began anew: unknown; 3 J in 1 s
    assert [one.power_w for one in found] == [None, 5.0, 5.0, None, 3.0]
    assert [one.rails[0].energy_j for one in found] == [0.0, 10.0, 510.0, 510.0, 513.0]
    assert found[-1].unmetered_s == 2.0
    assert found[0].rails[0].unknown == {"power_w": "the meter counts energy: it needs two samples"}


def looks(costs_s: dict[int, float], **until: float) -> list[float]:
    """When looks were taken, some of which take long."""
    time, n_taken = VirtualClock(0.0), 0

    def look() -> float:
        nonlocal n_taken
        at_s = time.now_s()
        time.sleep(costs_s.get(n_taken, 0.0))
        n_taken += 1
        return at_s

    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return False

    return list(samples(look, interval_s=1.0, clock=time.now_s, wait=wait, **until))  # type: ignore[arg-type]


def test_looks_keep_to_a_schedule_and_leave_out_what_they_missed() -> None:
    # The one at 1 s takes 2.5 s: those due at 2 s and 3 s are left out.
    assert looks({2: 2.5}, duration_s=6.0) == [0.5, 1.0, 4.0, 5.0, 6.0]
    assert looks({}, n_samples=2) == [0.5, 1.0]


def test_waiting_ends_the_looks() -> None:
    assert list(samples(lambda: 1, interval_s=1.0, wait=lambda seconds: True)) == []
