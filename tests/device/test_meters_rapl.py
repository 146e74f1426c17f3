"""RAPL counters in a made-up sysfs."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.device.meters.finding import find_meters
from mansard.device.meters.processors import open_rapl


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


def test_a_processor_with_rapl_has_a_total(tmp_path: Path) -> None:
    write_zone(tmp_path, "intel-rapl:0", "package-0", 1)
    write_zone(tmp_path, "intel-rapl:0:2", "dram", 1)
    meters = find_meters(tmp_path)
    assert [meter.name for meter in meters.found] == ["RAPL"]
    assert meters.total is not None
    assert meters.total.rails == ("package-0", "dram-0")
    assert "this machine" in meters.missing["NVML"]  # the library is not the folder's


def test_rapl_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    meters = find_meters(tmp_path)
    assert meters.found == ()
    assert meters.total is None
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
