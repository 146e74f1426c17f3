"""Use, clocks and temperatures of a machine within a window."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.device.conditions import Telemetry, find_sources


def test_least_greatest_and_mean_of_what_can_be_read(tmp_path: Path) -> None:
    stat, zone = tmp_path / "proc/stat", tmp_path / "sys/class/thermal/thermal_zone0"
    clock = tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq"
    load = tmp_path / "sys/devices/gpu.0/load"
    for path in (stat, zone / "temp", clock, load):
        path.parent.mkdir(parents=True, exist_ok=True)
    (zone / "type").write_text("CPU-therm\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 400 kB\n")

    def write(cpu: str, khz: int, per_mille: int, milli_c: int) -> None:
        stat.write_text(f"cpu  1 2 3\ncpu0 {cpu} 0 0 0 0 0\n")
        clock.write_text(f"{khz}\n")
        load.write_text(f"{per_mille}\n")
        (zone / "temp").write_text(f"{milli_c}\n")

    sources = find_sources(tmp_path, (0,))
    write("100 0 100 800", 1_000_000, 200, 40_000)
    with Telemetry(sources, period_s=60.0) as seen:
        # 100 jiffies since: 60 of them at work, 40 idle.
        write("150 0 110 840", 2_000_000, 400, 50_000)
    found = {each.name: (each.low, each.high, each.mean) for each in seen.readings}
    assert found == {
        "cpu0_share": pytest.approx((0.6, 0.6, 0.6)),
        "memory_bytes": (600 * 1024, 600 * 1024, 600 * 1024),
        "cpu0_hz": (1e9, 2e9, 1.5e9),
        "gpu_share": pytest.approx((0.2, 0.4, 0.3)),
        "CPU-therm_temperature_c": (40.0, 50.0, 45.0),
    }
