"""Energy from raw samples, RAPL counters in a made-up sysfs, and the sampler."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import DeviceError, MeasurementError
from mansard.core.records import PowerSample
from mansard.device.meters.energy import window_energy, windows_energy
from mansard.device.meters.meter import find_meters
from mansard.device.meters.rapl import open_rapl
from mansard.device.meters.replay import ReplayMeter
from mansard.device.meters.sampler import Sampler


def power(time_s: float, power_w: float, rail: str = "VDD_IN") -> PowerSample:
    return PowerSample(
        rail=rail,
        monotonic_s=time_s,
        power_w=power_w,
        energy_j=None,
        unknown={"energy_j": "reads power"},
    )


def energy(time_s: float, energy_j: float) -> PowerSample:
    return PowerSample(
        rail="package-0",
        monotonic_s=time_s,
        power_w=None,
        energy_j=energy_j,
        unknown={"power_w": "counts energy"},
    )


def test_trapezoid_with_interpolated_ends() -> None:
    # Power rises 10 W/s from 10 W at 0 s. Window 0.5 s to 1.5 s: 15 W to 25 W,
    # so 20 W on average for 1 s.
    (rail,) = window_energy([power(0, 10), power(1, 20), power(2, 30)], 0.5, 1.5)
    assert rail.energy_j == pytest.approx(20.0)
    assert (rail.rail, rail.window_s, rail.n_samples) == ("VDD_IN", 1.0, 1)


def test_a_counter_is_interpolated_at_both_ends() -> None:
    # 0 J, 10 J, 40 J at 0, 1, 2 s: at 0.5 s 5 J, at 1.5 s 25 J.
    (rail,) = window_energy([energy(0, 0), energy(1, 10), energy(2, 40)], 0.5, 1.5)
    assert rail.energy_j == pytest.approx(20.0)


@pytest.mark.parametrize("window", [(-0.1, 1.0), (0.0, 2.1), (3.0, 4.0)])
def test_samples_that_do_not_cover_the_window_are_an_error(window: tuple[float, float]) -> None:
    with pytest.raises(MeasurementError, match=r"rail VDD_IN: .*do not cover the window"):
        window_energy([power(0, 10), power(2, 10)], *window)


def test_samples_without_a_reading_cover_nothing() -> None:
    # The counter was read from 1 s to 2 s only; the sample at 0 s holds no number.
    silent = PowerSample(
        rail="package-0",
        monotonic_s=0.0,
        power_w=None,
        energy_j=None,
        unknown={"power_w": "no answer", "energy_j": "no answer"},
    )
    with pytest.raises(MeasurementError, match=r"from 1\.000 s to 2\.000 s do not cover"):
        window_energy([silent, energy(1.0, 5.0), energy(2.0, 7.0)], 0.5, 2.0)
    with pytest.raises(MeasurementError, match="readings do not cover"):
        window_energy([silent], 0.0, 0.0001)


def test_an_empty_window_is_an_error() -> None:
    with pytest.raises(MeasurementError, match="is empty"):
        window_energy([power(0, 10), power(2, 10)], 1.0, 1.0)


def test_rails_stay_apart() -> None:
    samples = [power(0, 1, "GPU"), power(0, 5, "CPU"), power(2, 1, "GPU"), power(2, 5, "CPU")]
    # 1 W and 5 W for 2 s
    assert [(r.rail, r.energy_j) for r in window_energy(samples, 0, 2)] == [
        ("GPU", 2.0),
        ("CPU", 10.0),
    ]


@given(
    powers=st.lists(st.floats(0, 100), min_size=3, max_size=20),
    cut=st.floats(0.01, 0.99),
)
def test_windows_add_up(powers: list[float], cut: float) -> None:
    samples = [power(float(i), p) for i, p in enumerate(powers)]
    end_s = len(powers) - 1.0
    middle_s = cut * end_s
    whole = window_energy(samples, 0, end_s)[0].energy_j
    first = window_energy(samples, 0, middle_s)[0].energy_j
    second = window_energy(samples, middle_s, end_s)[0].energy_j
    assert first + second == pytest.approx(whole, rel=1e-9, abs=1e-6)
    assert min(powers) * end_s - 1e-6 <= whole <= max(powers) * end_s + 1e-6


def test_several_windows_add_up() -> None:
    # 10 W for 1 s and 20 W for 0.5 s: 10 J + 10 J in 1.5 s; the pause does not count.
    samples = [power(0, 10), power(1, 10), power(2, 20), power(3, 20)]
    (rail,) = windows_energy(samples, [(0.0, 1.0), (2.0, 2.5)])
    assert (rail.energy_j, rail.window_s) == (20.0, 1.5)
    with pytest.raises(MeasurementError, match="no window"):
        windows_energy(samples, [])


def write_zone(root: Path, zone: str, name: str, energy_uj: int | None) -> Path:
    folder = root / "sys/class/powercap" / zone
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text("1000000\n")
    if energy_uj is not None:
        (folder / "energy_uj").write_text(f"{energy_uj}\n")
    return folder / "energy_uj"


def test_rapl_counts_on_across_the_wrap(tmp_path: Path) -> None:
    counter = write_zone(tmp_path, "intel-rapl:0", "package-0", 400_000)
    write_zone(tmp_path, "intel-rapl:0:0", "core", 999)  # inside the package: not read
    write_zone(tmp_path, "intel-rapl:0:2", "dram", 10)
    write_zone(tmp_path, "intel-rapl-mmio:0", "package-0", 1)  # the same counter again
    write_zone(tmp_path, "intel-rapl:1", "psys", 1)  # contains the package
    meter, _ = open_rapl(tmp_path, clock=map(float, count()).__next__)
    assert meter is not None
    assert meter.rails == ("package-0", "dram-0")
    readings = []
    for counter_uj in (400_000, 900_000, 100_000):
        counter.write_text(str(counter_uj))
        readings.append(meter.read()[0].energy_j)
    # 0, then 500,000 µJ, then up to 1,000,000 and on to 100,000: 200,000 µJ more
    assert readings == pytest.approx([0.0, 0.5, 0.7])


def test_rapl_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    meters = find_meters(tmp_path)
    assert meters.found == ()
    assert "powercap does not exist" in meters.missing["RAPL"]
    (tmp_path / "sys/class/powercap").mkdir(parents=True)
    assert "no package or dram zone" in find_meters(tmp_path).missing["RAPL"]


def test_rapl_that_cannot_be_read_names_the_file(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", None)
    meter, reason = open_rapl(tmp_path)
    assert meter is None
    assert "intel-rapl:0/energy_uj: no such file" in reason
    assert "sudo chmod a+r" in reason


def test_rapl_that_stops_answering_is_an_error(tmp_path: Path) -> None:
    counter = write_zone(tmp_path, "intel-rapl:0", "package-0", 5)
    meter, _ = open_rapl(tmp_path)
    assert meter is not None
    meter.read()
    counter.unlink()
    with pytest.raises(DeviceError, match="stopped answering"):
        meter.read()


def test_the_sampler_keeps_every_reading() -> None:
    recorded = [(power(float(i), 10.0 + i),) for i in range(200)]
    with Sampler((ReplayMeter(recorded),), period_s=0.001) as sampler:
        while len(sampler.samples) < 5:
            pass
    samples = sampler.samples
    assert 6 <= len(samples) <= 200  # one before, at least four in between, one after
    assert list(samples) == [reading[0] for reading in recorded[: len(samples)]]


def test_a_failing_meter_never_becomes_an_energy() -> None:
    with Sampler((ReplayMeter([(power(0.0, 1.0),)]),), period_s=0.001) as sampler:
        pass
    with pytest.raises(DeviceError, match="no more readings"):
        _ = sampler.samples


def test_without_meters_nothing_is_sampled() -> None:
    with Sampler(()) as sampler:
        pass
    assert sampler.samples == ()
