"""Recordings played back as meters."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import DeviceError, InputError, MansardError
from mansard.core.records import PowerSample
from mansard.device.meters.energy import window_energy
from mansard.device.meters.meter import Meters
from mansard.device.meters.sampler import Sampler
from tests.device.replay_meters import TraceMeter, replay_csv, replay_log


def read_all(path: Path, n_readings: int) -> Sampler:
    sampler = Sampler(Meters((replay_csv(path),), {}), period_s=1.0)
    for _ in range(n_readings):
        sampler.read()
    return sampler


def test_a_csv_of_watts_and_joules(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("monotonic_s,VDD_IN_w,package-0_j\n0,4,100\n1,6,105\n2,5,109\n")
    window = read_all(path, 3).window(0.0, 2.0, n_changed_min=2)
    # (4 + 6) / 2 + (6 + 5) / 2 = 10.5 J; 109 - 100 = 9 J
    assert [(rail.rail, rail.energy_j) for rail in window.rails] == [
        ("VDD_IN", 10.5),
        ("package-0", 9.0),
    ]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no column monotonic_s"),
        ("time,VDD_IN_w\n", "no column monotonic_s"),
        ("monotonic_s\n0\n", "no column monotonic_s"),
        ("monotonic_s,VDD_IN_w\n", "has no readings"),
        ("monotonic_s,VDD_IN\n", "'VDD_IN' does not end in _w or _j"),
        ("monotonic_s,VDD_IN_w\n0,1\n1\n", "line 3 is not 2 numbers"),
        ("monotonic_s,VDD_IN_w\n0,nan\n", "line 2 is not 2 numbers"),
        ("monotonic_s,VDD_IN_w\n0,x\n", "line 2 is not 2 numbers"),
        ("monotonic_s,VDD_IN_w\n1,1\n0,1\n", "line 3 goes back in time"),
    ],
)
def test_a_csv_that_is_none_names_the_line(tmp_path: Path, text: str, what: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=what):
        replay_csv(path)


@given(content=st.binary(max_size=200))
def test_whatever_a_recording_holds(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.mktemp("recordings") / "log"
    path.write_bytes(b"monotonic_s,A_w\n" + content)
    for replay in (replay_csv, replay_log):
        with contextlib.suppress(MansardError):  # nothing else
            assert replay(path).rails


def test_a_log_of_tegrastats_by_its_dates(tmp_path: Path) -> None:
    path = tmp_path / "tegrastats.log"
    path.write_text(
        "05-13-2026 12:04:03 RAM 1/2MB CPU [1%@1] VDD_IN 4000mW/1mW VDD_SOC 1000mW/1mW\n"
        "nonsense in between\n"
        "05-13-2026 12:04:04 RAM 1/2MB CPU [1%@1] VDD_IN 6000mW/1mW VDD_SOC 1000mW/1mW\n"
        "05-13-2026 12:04:05 RAM 1/2MB CPU [1%@1] VDD_IN 5000mW/1mW VDD_SOC 1000mW/1mW\n"
    )
    meter = replay_log(path)
    sampler = Sampler(Meters((meter,), {}), period_s=1.0)
    for _ in range(3):
        sampler.read()
    start_s = sampler.samples[0].monotonic_s
    window = sampler.window(start_s, start_s + 2, n_changed_min=0)
    # (4 + 6) / 2 + (6 + 5) / 2 = 10.5 J, and 1 W for 2 s
    assert [rail.energy_j for rail in window.rails] == pytest.approx([10.5, 2.0])
    with pytest.raises(DeviceError, match="no more readings"):
        meter.read()


def test_a_log_without_dates_needs_its_interval(tmp_path: Path) -> None:
    path = tmp_path / "tegrastats.log"
    path.write_text("RAM 1/2MB CPU [1%@1] VDD_IN 4000/1\nRAM 1/2MB CPU [1%@1] VDD_IN 6000/1\n")
    with pytest.raises(InputError, match="no times"):
        replay_log(path)
    meter = replay_log(path, interval_s=0.5)
    samples = [*meter.read(), *meter.read()]
    assert [(sample.monotonic_s, sample.power_w) for sample in samples] == [(0.0, 4.0), (0.5, 6.0)]


def test_a_trace_is_read_at_the_clocks_pace() -> None:
    now = [100.0]
    meter = TraceMeter({"GPU": [(0, 10), (2, 30), (2, 50), (4, 50)]}, clock=lambda: now[0])
    readings: list[PowerSample] = []
    # 10 W at 0 s to 30 W at 2 s; then 50 W
    for now[0] in (100.0, 101.0, 101.5, 102.0, 103.0):
        readings.extend(meter.read())
    assert [sample.power_w for sample in readings] == [10.0, 20.0, 25.0, 50.0, 50.0]
    facts = Meters((meter,), {}).facts(1.0)
    # (10 + 20) / 2 * 1 s
    assert window_energy(readings, 100, 101, facts, n_changed_min=0).rails[0].energy_j == 15.0
    now[0] = 104.0
    with pytest.raises(DeviceError, match="the trace has ended"):
        meter.read()


@pytest.mark.shared_data
def test_recorded_logs_give_energies(shared_data: Path) -> None:
    folder = shared_data / "tegrastats"
    log = folder / "gwonxhj__orin_nano__tegrastats_multi_workload_20260517_221116.log"
    meter = replay_log(log)
    assert meter.rails == ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC")
    samples: list[PowerSample] = []
    with contextlib.suppress(DeviceError):  # it has no more readings
        while True:
            samples.extend(meter.read())
    start_s, end_s = samples[0].monotonic_s, samples[-1].monotonic_s
    assert end_s - start_s > 60
    vdd_in, *parts = window_energy(
        samples, start_s, end_s, Meters((meter,), {}).facts(1.0), n_changed_min=20
    ).rails
    powers_w = [sample.power_w for sample in samples if sample.rail == "VDD_IN"]
    assert vdd_in.energy_j is not None
    # The energy lies between that of the least and the greatest power of the log.
    known_w = [power_w for power_w in powers_w if power_w is not None]
    assert min(known_w) < vdd_in.energy_j / (end_s - start_s) < max(known_w)
    assert sum(part.energy_j or 0 for part in parts) < vdd_in.energy_j
