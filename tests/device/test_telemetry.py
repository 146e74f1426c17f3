"""Use, clocks and temperatures of a machine within a window."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mansard.device.conditions import OtherWork, Telemetry, Watch, find_sources


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


def test_what_other_programs_had_of_the_cpus(tmp_path: Path) -> None:
    def write(cpu0: int, cpu1: int, own: int, other: int) -> None:
        lines = [f"cpu{n} {work} 0 0 5000 0 0 0 0 0 0" for n, work in enumerate((cpu0, cpu1, 900))]
        before = " ".join(["0"] * 10)  # from the parent's id to faults of children
        for pid, name, n_jiffies in ((7, "a) b", own), (12345678, "a (b) c", other)):
            folder = tmp_path / f"proc/{pid}"
            folder.mkdir(parents=True, exist_ok=True)
            ran = f"{n_jiffies // 2} {n_jiffies - n_jiffies // 2}"
            (folder / "stat").write_text(f"{pid} ({name}) S {before} {ran} 0\n")
        (tmp_path / "proc/stat").write_text("\n".join(lines) + "\n")

    times = iter([0.0, 2.0, 2.0, 4.0, 4.0, 6.0])
    write(100, 200, 50, 3)
    others = OtherWork((0, 1), (7,), tmp_path, times.__next__)
    with others:
        # In 2 s 400 jiffies at work on both CPUs, 150 of them our own; 2 on each may be miscounted:
        # 246 of 2 · 200 are left.
        write(300, 400, 200, 30)
    per_s = os.sysconf("SC_CLK_TCK")
    assert others.share == pytest.approx(246 / (4 * per_s))
    assert others.busiest == "a (b) c"
    with others:
        write(500, 500, 497, 33)  # 300 on both, 297 our own: what is left may be miscounted
    assert others.share == 0
    with OtherWork((0, 5), (7,), tmp_path, times.__next__) as unknown:
        pass
    assert unknown.share is None
    assert not unknown.busiest


def test_what_was_seen_before_a_restart_does_not_count(tmp_path: Path) -> None:
    vmstat = tmp_path / "proc/vmstat"
    vmstat.parent.mkdir()
    vmstat.write_text("pswpin 0\npswpout 0\n")
    with Watch(tmp_path, (0,)) as watch:
        vmstat.write_text("pswpin 1000\npswpout 0\n")
        watch.restart()
        vmstat.write_text("pswpin 1001\npswpout 0\n")
    assert watch.conditions.swapped_bytes == os.sysconf("SC_PAGE_SIZE")
