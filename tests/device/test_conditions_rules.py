"""Which conditions disturb a trial: the limits, and where they hold."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.records import CpuCluster, Spread
from mansard.device.conditions import OtherWork, disturbances
from tests.device.conditions_machine import conditions, mode, steady

LOCKING = ("nvpmodel", "clocks", "card")
GOVERNED = ("cores", "present")


@pytest.mark.parametrize(("low", "is_disturbed"), [(0.9901e9, False), (0.9899e9, True)])
def test_one_percent_of_drift_where_the_mode_locks(low: float, is_disturbed: bool) -> None:
    found = conditions(gpu_clock_hz=Spread(before=1e9, low=low, high=1e9, after=1e9))
    assert bool(disturbances(found, mode(gpu_hz=1e9), uses_gpu=True)) == is_disturbed
    # A kernel on the CPU lets the GPU sleep, whatever its clock is locked at.
    assert disturbances(found, mode(gpu_hz=1e9)) == ()


def test_a_locked_clock_that_never_was_there() -> None:
    found = conditions(cpu_clock_hz=steady(1.728e9))
    assert disturbances(found, mode(cpu_hz=2.2016e9)) == (
        "the CPU clock was at 1728 MHz instead of 2201.6 MHz",
    )


def test_the_memory_clock_of_a_locked_mode() -> None:
    found = conditions(memory_clock_hz=Spread(before=3.199e9, low=2.133e9, high=3.199e9, after=3e9))
    assert disturbances(found, mode(memory_hz=3.199e9)) == (
        "the memory clock fell to 2133 MHz from 3199 MHz",
    )


@pytest.mark.parametrize(("high", "is_disturbed"), [(1.0099e9, False), (1.0101e9, True)])
@pytest.mark.parametrize("kind", [*LOCKING, "present"])
def test_a_clock_above_its_cap(kind: str, high: float, is_disturbed: bool) -> None:
    found = conditions(gpu_clock_hz=Spread(before=1e9, low=1e9, high=high, after=1e9))
    said = disturbances(found, mode(kind, gpu_hz=1e9), uses_gpu=True)
    sentence = "the GPU clock was at 1010.1 MHz, above its cap of 1000 MHz"
    assert said == ((sentence,) if is_disturbed else ())
    # A kernel on the CPU lets the GPU be.
    assert disturbances(found, mode(kind, gpu_hz=1e9)) == ()


def test_a_board_that_was_set_to_a_faster_mode_all_along() -> None:
    # 15W of AGX Orin, and MAXN instead
    found = conditions(cpu_clock_hz=steady(2.2016e9), memory_clock_hz=steady(3.199e9))
    assert disturbances(found, mode(cpu_hz=1.1136e9, memory_hz=2.133e9)) == (
        "the CPU clock was at 2201.6 MHz, above its cap of 1113.6 MHz",
        "the memory clock was at 3199 MHz, above its cap of 2133 MHz",
    )


def test_a_turbo_beyond_the_highest_step_of_a_plain_machine_is_none() -> None:
    found = conditions(cpu_clock_hz=steady(4.2e9))
    assert disturbances(found, mode("cores", cpu_hz=3.4e9)) == ()


def test_the_caps_of_the_clusters_in_use_count() -> None:
    fast, slow = (CpuCluster(cpus=cpus, max_hz=hz) for cpus, hz in (((0,), 2e9), ((1,), 1e9)))
    two = msgspec.structs.replace(mode(cpu_hz=2e9), clusters=(fast, slow))
    assert disturbances(conditions(cpu_clock_hz=steady(2e9)), two, cpus=(0,)) == ()
    assert disturbances(conditions(cpu_clock_hz=steady(1e9)), two, cpus=(0, 1)) == ()
    assert len(disturbances(conditions(cpu_clock_hz=steady(2e9)), two, cpus=(0, 1))) == 1


@pytest.mark.parametrize("kind", [*LOCKING, *GOVERNED])
def test_settings_that_were_otherwise_disturb_in_every_mode(kind: str) -> None:
    lines = ("core 3 was switched off", "another governor: x is powersave, it was performance")
    assert disturbances(conditions(settings_changed=lines), mode(kind)) == lines
    assert disturbances(conditions(settings_changed=()), mode(kind)) == ()


def test_what_draws_power_for_others_and_what_only_cools() -> None:
    found = conditions(engines=("DLA0", "NVENC"), fan_speed_rpm=steady(3200))
    assert disturbances(found, mode()) == ("also running: DLA0 and NVENC",)
    assert disturbances(found, mode(), own_engines={"DLA0"}) == ("also running: NVENC",)
    others = OtherWork((0,), ())
    assert disturbances(conditions(), mode(), other_work=others) == ()  # it is not known
    others.share = 0.05
    assert disturbances(conditions(), mode(), other_work=others) == ()
    others.share, others.busiest = 0.123, "a program"
    (line,) = disturbances(conditions(), mode(), other_work=others)
    assert line == "other programs used 12 % of the CPUs' time, mostly a program"
    cooled = conditions(engines=(), fan_speed_rpm=steady(5000), fan_drive_share=steady(1.0))
    assert disturbances(cooled, mode()) == ()
    # 1 MiB is 1048576 bytes
    assert disturbances(conditions(swapped_bytes=1_048_576), mode()) == ()
    assert disturbances(conditions(swapped_bytes=5_000_000), mode()) == ("5 MB were swapped",)


@pytest.mark.parametrize("kind", GOVERNED)
def test_a_governed_clock_may_change(kind: str) -> None:
    # Idle before and after at a third of the cap, and up to it under load: as it should be.
    found = conditions(cpu_clock_hz=Spread(before=0.8e9, low=0.8e9, high=2.4e9, after=0.8e9))
    assert disturbances(found, mode(kind, cpu_hz=2.4e9)) == ()
    assert disturbances(found, mode(kind)) == ()


def test_a_governed_clock_that_never_came_near_its_cap() -> None:
    # 75 % of 2400 MHz are 1800 MHz
    enough = conditions(cpu_clock_hz=Spread(before=0.8e9, low=0.8e9, high=1.8e9, after=0.8e9))
    assert disturbances(enough, mode("present", cpu_hz=2.4e9)) == ()
    found = conditions(cpu_clock_hz=Spread(before=0.8e9, low=0.8e9, high=1.7e9, after=0.8e9))
    assert disturbances(found, mode("present", cpu_hz=2.4e9)) == (
        "the CPU clock stayed at 1700 MHz or below, under 75 % of its cap of 2400 MHz",
    )


def test_an_idle_gpu_does_not_disturb_the_cpu() -> None:
    found = conditions(gpu_clock_hz=steady(306e6))
    present = mode("present", gpu_hz=1.3e9)
    assert disturbances(found, present) == ()
    assert len(disturbances(found, present, uses_gpu=True)) == 1


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ({"n_throttle_events": 1}, "throttled once"),
        ({"n_throttle_events": 3}, "throttled 3 times"),
        ({"n_overcurrent_events": 1}, "over-current event"),
        ({"n_overcurrent_events": 4}, "4 over-current events"),
    ],
)
@pytest.mark.parametrize("kind", [*LOCKING, *GOVERNED])
def test_events_disturb_in_every_mode(kind: str, known: dict[str, int], sentence: str) -> None:
    assert disturbances(conditions(**known), mode(kind)) == (sentence,)


@pytest.mark.parametrize("kind", ["nvpmodel", "clocks"])
def test_a_temperature_that_has_not_settled(kind: str) -> None:
    rising, falling = (conditions(temperature_slope_c_per_s=at) for at in (0.84, -0.61))
    assert disturbances(rising, mode(kind)) == ("temperature rose by 0.8 °C/s",)
    assert disturbances(falling, mode(kind)) == ("temperature fell by 0.6 °C/s",)
    assert disturbances(conditions(temperature_slope_c_per_s=0.5), mode(kind)) == ()


@pytest.mark.parametrize("kind", [*GOVERNED, "card"])
def test_temperature_follows_the_governor_or_is_that_of_the_cpu_beside_a_card(kind: str) -> None:
    assert disturbances(conditions(temperature_slope_c_per_s=9.0), mode(kind)) == ()


def test_processes_on_the_gpu() -> None:
    found = conditions(gpu_processes=("Xorg (900)", "gnome-shell (1200)", "python3 (1234)"))
    sentence = ("another process on the GPU: python3 (1234)",)
    assert disturbances(found, mode("nvpmodel")) == sentence
    assert disturbances(found, mode("cores")) == ()  # a card beside the CPU
    assert disturbances(found, mode("cores"), uses_gpu=True) == sentence


clocks = st.floats(min_value=1e6, max_value=1e10)


@given(clocks, st.floats(min_value=0.0, max_value=0.009), st.sampled_from(LOCKING))
def test_less_drift_than_the_limit_is_calm_at_any_clock(hz: float, drift: float, kind: str) -> None:
    found = conditions(gpu_clock_hz=Spread(before=hz, low=hz * (1 - drift), high=hz, after=hz))
    assert disturbances(found, mode(kind, gpu_hz=hz), uses_gpu=True) == ()


@given(clocks, st.floats(min_value=0.0, max_value=0.98), st.sampled_from(LOCKING))
def test_more_drift_than_the_limit_is_said_once(hz: float, share: float, kind: str) -> None:
    found = conditions(gpu_clock_hz=Spread(before=hz, low=hz * share, high=hz, after=hz))
    assert len(disturbances(found, mode(kind, gpu_hz=hz), uses_gpu=True)) == 1
