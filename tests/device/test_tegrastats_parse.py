"""Lines of tegrastats: what each field means, and that no field is lost."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from mansard.core.errors import InputError
from mansard.device.tegrastats import Cpu, EngineLoad, FreeBlocks, Parser, Rail, parse_line
from mansard.device.tegrastats.sample import NOT_PRINTED, OFFLINE
from tests.device.tegrastats_lines import LINES
from tests.device.tegrastats_render import render

MIB = 1 << 20


@pytest.mark.parametrize("family", LINES)
def test_a_line_comes_back_from_its_numbers(family: str) -> None:
    sample = parse_line(LINES[family])
    assert render(sample) == LINES[family]
    assert sample.unparsed == ()


def test_memory_is_in_bytes() -> None:
    sample = parse_line(LINES["Nano r32"])
    assert sample.ram is not None
    assert (sample.ram.used_bytes, sample.ram.total_bytes) == (1700 * MIB, 3956 * MIB)
    assert sample.ram_free == FreeBlocks(100, 4 * MIB, "MB")
    assert sample.swap is not None
    assert sample.iram_free == FreeBlocks(None, 252 * 1024, "kB")
    assert parse_line(LINES["TX2 r32"]).ram_free == FreeBlocks(1, 512 * 1024, "kB")
    assert parse_line(LINES["Thor r38"]).swap is None


def test_cores_have_load_and_clock_or_are_off() -> None:
    orin = parse_line(LINES["AGX Orin r35"])
    assert orin.cpus[0] == Cpu("on", 90.0, 2_201_000_000)
    assert orin.cpus[2] == Cpu("off", None, None)
    thor = parse_line(LINES["Thor r39"])
    assert thor.cpus == (
        Cpu("on", 0.0, 2_601_000_000),
        Cpu("on", 5.0, 2_601_000_000),
        Cpu("off", None, None),
    )
    assert thor.shared_clock_hz == 2_601_000_000
    assert parse_line(LINES["DRIVE Orin"]).cpus[1] == Cpu("elided", None, None)


@pytest.mark.parametrize(
    ("family", "names", "engine"),
    [
        ("Nano r32", ("EMC_FREQ",), EngineLoad("EMC_FREQ", True, 0.0, (), "")),
        ("TX1 r28", ("EMC",), EngineLoad("EMC", True, 3.0, (1_600_000_000,), "@")),
        ("Thor r39", ("EMC_FREQ",), EngineLoad("EMC_FREQ", True, None, (4_266_000_000,), "@")),
        (
            "AGX Orin r35",
            ("GR3D_FREQ",),
            EngineLoad("GR3D_FREQ", True, 14.0, (407_000_000, 408_000_000), "@["),
        ),
        ("AGX Orin r35", ("GR3D2_FREQ",), EngineLoad("GR3D2_FREQ", True, 34.0, (0,), "@")),
        ("TX1 r28", ("MSENC",), EngineLoad("MSENC", True, None, (716_000_000,), "")),
        ("Thor r38", ("PVA0_FREQ",), EngineLoad("PVA0_FREQ", False, None, (), "")),
        ("Xavier NX r32", ("VIC_FREQ",), EngineLoad("VIC_FREQ", True, 0.0, (115_000_000,), "@")),
    ],
)
def test_engines_in_every_spelling(family: str, names: tuple[str, ...], engine: EngineLoad) -> None:
    assert parse_line(LINES[family]).engine(*names) == engine


def test_the_gpu_and_the_memory_controller_have_names_of_their_own() -> None:
    thor = parse_line(LINES["Thor r38"])
    assert thor.gpu is not None
    assert thor.gpu.clock_hz == 315_000_000  # the fastest of @[314,314,315]
    assert thor.gpu.load_percent is None
    assert thor.emc is not None
    assert thor.emc.clock_hz == 2_750_000_000
    assert parse_line(LINES["Thor r38"]).rail("VDD_GPU") == Rail("VDD_GPU", -0.392, -0.012, None)


def test_translation_of_the_denver_cores() -> None:
    sample = parse_line(LINES["TX2 r32"])
    assert (sample.mts_foreground_percent, sample.mts_background_percent) == (0.0, 9.0)


def test_temperatures_and_their_maximum() -> None:
    orin = {each.name: each for each in parse_line(LINES["AGX Orin r35"]).temperatures}
    assert orin["CPU"].celsius == 77.281
    assert orin["CPU"].unknown == {"maximum_celsius": NOT_PRINTED}
    assert orin["CV0"].celsius is None
    assert orin["CV0"].unknown["celsius"] == OFFLINE
    thor = {each.name: each for each in parse_line(LINES["Thor r39"]).temperatures}
    assert (thor["cpu"].celsius, thor["cpu"].maximum_celsius) == (49.75, 50.5)
    assert (thor["gpu"].celsius, thor["gpu"].maximum_celsius) == (None, 61.0)


def test_rails_are_in_watts_and_keep_their_labels() -> None:
    assert parse_line(LINES["Thor r39"]).rails[0] == Rail("VDD_GPU", 6.33, 6.331, 6.332)
    xavier = parse_line(LINES["AGX Xavier r32"])
    assert [rail.name for rail in xavier.rails] == ["GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"]
    assert xavier.rails[1] == Rail("CPU", 0.468, 0.45, None)  # and no list of cores
    orin = parse_line(LINES["AGX Orin r35"]).rails
    assert [rail.power_w for rail in orin if rail.name == "NC"] == [0.0, 0.001]  # both of them


@pytest.mark.parametrize(
    ("text", "rail"),
    [
        ("RAM 1/2MB VDD_IN 5000mW", Rail("VDD_IN", 5.0, None, None)),
        ("RAM 1/2MB VDD_IN 4500 APE 25", Rail("VDD_IN", 4.5, None, None)),
        ("RAM 1/2MB VIN 12.5W/13W", Rail("VIN", 12.5, 13.0, None)),
        ("RAM 1/2MB VDD_GPU 1mW/2mW VIN 3mW/4mW/5mW", Rail("VIN", 0.003, 0.004, 0.005)),
    ],
)
def test_other_spellings_of_rails(text: str, rail: Rail) -> None:
    sample = parse_line(text)
    assert rail in sample.rails
    assert render(sample) == text


def test_a_field_of_the_future_is_kept() -> None:
    line = LINES["Thor r39"] + " FUTURE_TOKEN value NPU0_FREQ 3%@900 lone 1.2V"
    sample = parse_line(line)
    assert sample.unparsed == ("FUTURE_TOKEN", "value", "lone", "1.2V")
    assert sample.engine("NPU0_FREQ") == EngineLoad("NPU0_FREQ", True, 3.0, (900_000_000,), "@")
    assert render(sample) == line


def test_spaces_behind_commas_are_read_as_in_the_guide() -> None:
    sample = parse_line("RAM 1/2MB CPU [5%@102, off] GR3D_FREQ 7%@[1300, 1301]")
    assert len(sample.cpus) == 2
    assert sample.gpu == EngineLoad("GR3D_FREQ", True, 7.0, (1_300_000_000, 1_301_000_000), "@[")


@pytest.mark.parametrize("n_characters", range(len(LINES["Thor r39"])))
def test_half_a_line_has_only_what_the_whole_has(n_characters: int) -> None:
    whole, text = parse_line(LINES["Thor r39"]), LINES["Thor r39"][:n_characters]
    sample = Parser().read(text)
    if sample is None:
        assert len(re.findall("/|%", text)) < 2
        return
    assert render(sample) == text.rstrip()  # what is not a field is kept
    degrees = {each.name: each.celsius for each in whole.temperatures}
    assert all(degrees[each.name] == each.celsius for each in sample.temperatures)
    watts = {rail.name: rail.power_w for rail in whole.rails}
    assert all(watts[rail.name] == rail.power_w for rail in sample.rails)
    loads = [cpu.load_percent for cpu in sample.cpus]  # their clock, last in the token, can be cut
    assert loads in ([], [cpu.load_percent for cpu in whole.cpus])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "# Jetson TX1",
        "# RAM 1500/3995MB (lfb 12x4MB) CPU [5%@102]",
        "GPU frequency 114750000 start, time:1739645862.4931552",
        "Sat May  9 10:11:12 UTC 2026",
        "05-13-2026 12:53:34",
        "2",
        "RAM",
        "RAM a/bMB",
        "NV Power Mode: MAXN",
        "\0\x1b[2J\udcff",
    ],
)
def test_what_is_no_line_of_tegrastats(text: str) -> None:
    assert Parser().read(text) is None
    with pytest.raises(InputError, match="not a line of tegrastats"):
        parse_line(text)


def test_of_two_lines_run_together_the_second_is_kept_as_text() -> None:
    text = "RAM 1/2MB cpu [5%@102] RAM 3/4MB CPU [6%@102] MTS fg 1% bg 2% MTS fg 3% bg 4%"
    sample = parse_line(text)
    assert [cpu.load_percent for cpu in sample.cpus] == [5.0]
    assert sample.unparsed[:4] == ("RAM", "3/4MB", "CPU", "[6%@102]")
    assert render(sample) == text


def test_numbers_too_long_to_be_true_are_kept_as_text() -> None:
    text = f"RAM 1/2MB VDD_IN {'9' * 40}mW/1mW tj@{'9' * 400}C CPU [1%@{'9' * 30}]"
    sample = parse_line(text)
    assert not sample.rails
    assert not sample.temperatures
    assert not sample.cpus
    assert render(sample) == text


@pytest.mark.shared_data
def test_every_recorded_line_comes_back(shared_data: Path) -> None:
    folder = shared_data / "tegrastats"
    with (folder / "fixture_lines.tsv").open(encoding="utf-8", newline="") as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        lines = [row["line"] for row in rows]
    assert len(lines) > 20
    for path in sorted([*folder.glob("*.log"), *folder.glob("*.txt")]):
        lines += path.read_text(encoding="utf-8").splitlines()
    parser = Parser()
    n_samples = 0
    for line in lines:
        sample = parser.read(line)
        if sample is None:
            assert "RAM" not in line
            continue
        n_samples += 1
        assert render(sample) == line.strip()
        assert sample.unparsed in {(), ("FUTURE_TOKEN", "value")}  # the one that is made up
        assert sample.ram is not None
        assert sample.cpus
    assert n_samples > 14_000
