"""INA3221 and INA238 chips in a made-up sysfs, by hwmon and by the older iio layout."""

from __future__ import annotations

import os
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.device.meters.finding import find_meters
from mansard.device.meters.ina import open_hwmon, open_iio
from mansard.device.meters.meter import Meters
from mansard.device.meters.sampler import Sampler

DRIVERS = "sys/bus/i2c/drivers"
# label, mV, mA, µΩ
Rail = tuple[str, int, int, int]
ORIN_NX: list[Rail] = [
    ("VDD_IN", 5000, 1200, 5000),
    ("VDD_CPU_GPU_CV", 5000, 300, 5000),
    ("VDD_SOC", 5000, 250, 5000),
]
AGX_ORIN: list[list[Rail]] = [
    [
        ("VDD_GPU_SOC", 20000, 200, 2000),
        ("VDD_CPU_CV", 20000, 100, 2000),
        ("VIN_SYS_5V0", 5000, 800, 2000),
    ],
    [("NC", 5000, 0, 2000), ("VDDQ_VDD2_1V8AO", 5000, 200, 2000), ("NC", 0, 0, 2000)],
]


def write_all(folder: Path, values: dict[str, object]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in values.items():
        (folder / name).write_text(f"{value}\n")
    return folder


def write_chip(root: Path, address: str, rails: list[Rail], number: int = 3) -> Path:
    folder = root / DRIVERS / "ina3221" / address / "hwmon" / f"hwmon{number}"
    for channel, (label, bus_mv, current_ma, shunt_uohm) in enumerate(rails, 1):
        values = {
            f"in{channel}_label": label,
            f"in{channel}_input": bus_mv,
            f"in{channel}_enable": 1,
            f"curr{channel}_input": current_ma,
            f"shunt{channel}_resistor": shunt_uohm,
            f"in{channel + 3}_input": 1600,
        }
        write_all(folder, values)
    write_all(folder, {"in7_label": "sum of shunt voltages", "in7_input": 9, "curr4_input": 9})
    write_all(root / DRIVERS / "ina3221", {"bind": "", "uevent": ""})
    return folder


def make_jetson(root: Path, part_number: str) -> Path:
    tree = root / "proc/device-tree"
    write_all(tree, {"model": "NVIDIA Jetson", "compatible": "nvidia,tegra234"})
    (tree / "chosen").mkdir()
    (tree / "chosen/ids").write_text(f"{part_number[1:]}-500")
    return root


def powers(meters: Meters) -> dict[str, float | None]:
    sampler = Sampler(meters)
    sampler.read()
    return {sample.rail: sample.power_w for sample in sampler.samples}


def test_rails_are_volts_times_amperes(tmp_path: Path) -> None:
    write_chip(tmp_path, "1-0040", ORIN_NX)
    meters = find_meters(make_jetson(tmp_path, "p3767-0000"))
    # 5.000 V x 1.200 A, 0.300 A, 0.250 A
    assert powers(meters) == pytest.approx({"VDD_IN": 6.0, "VDD_CPU_GPU_CV": 1.5, "VDD_SOC": 1.25})
    assert (meters.found[0].name, meters.missing) == ("INA3221", {})
    assert meters.total is not None
    assert meters.total.rails == ("VDD_IN",)
    assert meters.total.parts == ("VDD_CPU_GPU_CV", "VDD_SOC")


def test_two_chips_without_a_rail_for_the_whole_board(tmp_path: Path) -> None:
    write_chip(tmp_path, "1-0040", AGX_ORIN[0], number=4)
    write_chip(tmp_path, "1-0041", AGX_ORIN[1], number=2)  # numbers differ with every boot
    meters = find_meters(make_jetson(tmp_path, "p3701-0005"))
    # 20 V x 0.2 A, 20 V x 0.1 A, 5 V x 0.8 A, 5 V x 0.2 A; NC is not connected
    assert powers(meters) == pytest.approx(
        {"VDD_GPU_SOC": 4.0, "VDD_CPU_CV": 2.0, "VIN_SYS_5V0": 4.0, "VDDQ_VDD2_1V8AO": 1.0}
    )
    assert meters.total is not None
    assert meters.total.rails == ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
    assert "VDDQ_VDD2_1V8AO" in meters.total.rule
    facts = meters.facts(0.01)
    assert facts.sensors["VDD_CPU_CV"] == "INA3221 1-0040"
    assert facts.sensors["VDDQ_VDD2_1V8AO"] == "INA3221 1-0041"


def test_a_chip_that_is_missing_leaves_no_total(tmp_path: Path) -> None:
    write_chip(tmp_path, "1-0040", AGX_ORIN[0][:1] + AGX_ORIN[0][2:])
    meters = find_meters(make_jetson(tmp_path, "p3701-0005"))
    assert meters.total is None
    assert "needs VDD_CPU_CV, which is not among the rails" in meters.why_no_total


def test_the_step_is_40_uv_over_the_shunt(tmp_path: Path) -> None:
    write_chip(tmp_path, "1-0040", ORIN_NX)
    meter, _ = open_hwmon(tmp_path)
    assert meter is not None
    # 40 µV / 5 mΩ = 8 mA; x 5 V = 0.04 W
    assert meter.step_w("VDD_IN") == pytest.approx(0.04)
    assert meter.step_note("VDD_IN") == "40 µV over 5 mΩ at 5 V"


@pytest.mark.parametrize("resistor", ["0", "-5", "junk", ""])
def test_without_a_shunt_the_step_is_not_known(tmp_path: Path, resistor: str) -> None:
    folder = write_chip(tmp_path, "1-0040", ORIN_NX)
    (folder / "shunt1_resistor").write_text(resistor)
    meter, _ = open_hwmon(tmp_path)
    assert meter is not None
    assert meter.step_w("VDD_IN") is None
    assert "shunt1_resistor cannot be read" in meter.step_note("VDD_IN")
    assert meter.step_w("VDD_SOC") == pytest.approx(0.04)


def test_thors_input_is_in_microwatts(tmp_path: Path) -> None:
    rails: list[Rail] = [
        ("VDD_GPU", 19600, 100, 2000),
        ("VDD_CPU_SOC_MSS", 19600, 300, 2000),
        ("VIN_SYS_5V0", 5000, 1000, 2000),
    ]
    write_chip(tmp_path, "2-0040", rails)
    folder = tmp_path / DRIVERS / "ina238/2-0044/hwmon/hwmon5"
    write_all(folder, {"power1_input": 19_780_000, "in1_input": 1, "curr1_input": 1})
    meters = find_meters(make_jetson(tmp_path, "p3834-0008"))
    # 19.6 V x 0.1 A, 19.6 V x 0.3 A, 5 V x 1 A; 19,780,000 µW and not 1 mV x 1 mA
    assert powers(meters) == pytest.approx(
        {"VDD_GPU": 1.96, "VDD_CPU_SOC_MSS": 5.88, "VIN_SYS_5V0": 5.0, "VIN": 19.78}
    )
    assert meters.total is not None
    assert meters.total.rails == ("VIN",)
    # 40 µV / 2 mΩ = 20 mA; x 19.6 V = 0.392 W: the quanta that Thor's lines show
    assert meters.found[0].step_w("VDD_GPU") == pytest.approx(0.392)
    assert meters.found[0].step_w("VIN") is None


def test_the_older_layout_is_in_milliwatts(tmp_path: Path) -> None:
    folder = tmp_path / DRIVERS / "ina3221x/6-0040/iio:device0"
    values = {"rail_name_0": "POM_5V_IN", "in_power0_input": 1997, "in_voltage0_input": 5040}
    write_all(folder, values)
    write_all(folder, {"rail_name_1": "POM_5V_GPU", "in_power1_input": 40})
    write_all(folder, {"rail_name_2": "POM_5V_CPU", "in_power2_input": 203})
    # The other name of the same chip: its rails are the same rails.
    write_all(folder.parent / "iio_device", {"rail_name_0": "POM_5V_IN", "in_power0_input": 1})
    meters = find_meters(make_jetson(tmp_path, "p3448-0000"))
    assert powers(meters) == pytest.approx(
        {"POM_5V_IN": 1.997, "POM_5V_GPU": 0.04, "POM_5V_CPU": 0.203}
    )
    assert meters.total is not None
    assert meters.total.rails == ("POM_5V_IN",)
    assert meters.found[0].step_w("POM_5V_IN") is None


def test_an_unknown_module_is_known_by_its_rails(tmp_path: Path) -> None:
    # TX2's VDD_IN holds six rails, Orin's three: the description that knows more of them.
    for address, labels in (
        ("0-0040", ("VDD_SYS_GPU", "VDD_SYS_SOC", "VDD_4V0_WIFI")),
        ("0-0041", ("VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR")),
    ):
        folder = tmp_path / DRIVERS / "ina3221x" / address / "iio:device0"
        for number, label in enumerate(labels):
            write_all(folder, {f"rail_name_{number}": label, f"in_power{number}_input": 100})
    meters = find_meters(make_jetson(tmp_path, "p9999-0000"))
    assert meters.total is not None
    assert meters.total.rails == ("VDD_IN",)
    assert set(meters.total.parts) == set(meters.found[0].rails) - {"VDD_IN"}


def test_rails_that_nobody_knows_have_no_total(tmp_path: Path) -> None:
    write_chip(tmp_path, "1-0040", [("VDD_FOO", 5000, 100, 5000)])
    meters = find_meters(make_jetson(tmp_path, "p9999-0000"))
    assert meters.found[0].rails == ("VDD_FOO",)
    assert meters.total is None
    assert meters.why_no_total == "no board in the table makes a total of the rails VDD_FOO"


def test_equal_labels_are_kept_apart_by_address(tmp_path: Path) -> None:
    write_chip(tmp_path, "1-0040", [("VDD_IN", 5000, 100, 5000), ("VDD_SOC", 5000, 10, 5000)])
    write_chip(tmp_path, "7-0041", [("VDD_IN", 5000, 300, 5000)])
    meters = find_meters(make_jetson(tmp_path, "p3767-0000"))
    # 5 V x 0.1 A, 5 V x 0.01 A, 5 V x 0.3 A
    assert powers(meters) == pytest.approx(
        {"VDD_IN@1-0040": 0.5, "VDD_SOC": 0.05, "VDD_IN@7-0041": 1.5}
    )
    assert meters.total is None


def test_a_channel_that_is_off_or_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    folder = write_chip(tmp_path, "1-0040", ORIN_NX)
    (folder / "in2_enable").write_text("0\n")
    (folder / "curr3_input").unlink()
    meters = find_meters(make_jetson(tmp_path, "p3767-0000"))
    assert meters.found[0].rails == ("VDD_IN",)
    problem = meters.missing["ina3221 1-0040 VDD_SOC"]
    assert "curr3_input: the sensor does not answer: no such file" in problem


def test_hwmon_wins_over_tegrastats(tmp_path: Path) -> None:
    write_chip(tmp_path, "1-0040", ORIN_NX)
    tool = tmp_path / "usr/bin/tegrastats"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho RAM 1/2MB VDD_IN 9mW/9mW\nsleep 9\n")
    tool.chmod(0o755)
    meters = find_meters(make_jetson(tmp_path, "p3767-0000"))
    assert [meter.name for meter in meters.found] == ["INA3221"]


def test_a_board_without_any_meter_says_what_to_do(tmp_path: Path) -> None:
    meters = find_meters(make_jetson(tmp_path, "p3767-0000"))
    assert meters.found == ()
    assert set(meters.missing) == {"INA3221", "tegrastats", "NVML"}
    assert "sudo modprobe ina3221" in meters.missing["INA3221"]


def test_a_sensor_that_stops_answering_keeps_its_reason(tmp_path: Path) -> None:
    folder = write_chip(tmp_path, "1-0040", ORIN_NX)
    meter, _ = open_hwmon(tmp_path, clock=map(float, count()).__next__)
    assert meter is not None
    (folder / "curr1_input").write_text("not a number\n")
    silent, other, _ = meter.read()
    assert silent.power_w is None
    assert "curr1_input" in silent.unknown["power_w"]
    assert other.power_w == pytest.approx(1.5)
    # It answers again once the file does.
    (folder / "curr1_input").write_text("1000\n")
    assert meter.read()[0].power_w == pytest.approx(5.0)


def test_a_file_put_in_a_sensors_place_is_seen_before_long(tmp_path: Path) -> None:
    folder = write_chip(tmp_path, "1-0040", ORIN_NX)
    meter, _ = open_hwmon(tmp_path)
    assert meter is not None
    assert meter.read()[0].power_w == pytest.approx(6.0)
    replacement = folder / "new"
    replacement.write_text("2000\n")
    replacement.replace(folder / "curr1_input")
    readings_w = [meter.read()[0].power_w for _ in range(10)]
    # 5 V x 2 A; the old file's 1.2 A at most for some readings
    assert readings_w[-1] == pytest.approx(10.0)


def test_stamps_lie_in_the_middle_of_a_rails_reading(tmp_path: Path) -> None:
    write_chip(tmp_path, "1-0040", ORIN_NX)
    meter, _ = open_hwmon(tmp_path, clock=map(float, count()).__next__)
    assert meter is not None
    # The clock ticks at 0, 1, 2, 3 s: before, between and after the three rails.
    assert [sample.monotonic_s for sample in meter.read()] == [0.5, 1.5, 2.5]


@given(content=st.binary(max_size=80), name=st.sampled_from(["in1_input", "in1_label"]))
def test_whatever_a_sensor_file_holds(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, name: str
) -> None:
    root = tmp_path_factory.mktemp("board")
    folder = write_chip(root, "1-0040", ORIN_NX)
    (folder / name).write_bytes(content)
    meter, problems = open_hwmon(root)
    assert meter is not None
    assert len(meter.rails) + len(problems) in {2, 3}  # a label may say NC
    meter.read()


def test_a_pipe_or_a_folder_in_a_sensors_place_does_not_stop_us(tmp_path: Path) -> None:
    folder = write_chip(tmp_path, "1-0040", ORIN_NX)
    (folder / "in1_input").unlink()
    os.mkfifo(folder / "in1_input")
    (folder / "in2_input").unlink()
    (folder / "in2_input").mkdir()
    meter, problems = open_hwmon(tmp_path)
    assert meter is not None
    assert meter.rails == ("VDD_SOC",)
    assert len(problems) == 2


def test_without_chips_there_is_no_meter(tmp_path: Path) -> None:
    assert open_hwmon(tmp_path) == (None, {})
    assert open_iio(tmp_path) == (None, {})
