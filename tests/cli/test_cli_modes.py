"""``mansard board modes`` on a board in a folder, on a configuration file, and on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cli.cells import row
from tests.cli.in_process import mansard
from tests.device.nvpmodel_files import CONFIG, make_board, write


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def modes(*arguments: str | Path) -> CompletedProcess[str]:
    return mansard("modes", *arguments)


def test_the_table_has_clocks_marks_and_peaks(tmp_path: Path) -> None:
    write(tmp_path, "proc/device-tree/compatible", "nvidia,p3701-0005\0nvidia,tegra234\0")
    result = modes("--board", make_board(tmp_path, present=0))
    assert result.returncode == 0, result.stderr
    # 6 SMs × 128 × 2 × 408 MHz = 0.627 TFLOP/s; 6 × 2048 × 408 MHz = 5.01 TFLOP/s;
    # 3199 MHz × 2 × 32 bytes = 204.7 GB/s, of which 204.5 bytes × 408 MHz = 83.4 GB/s
    assert row(result.stdout, "15W") == [
        *("15W", "default, reboot?", "3", "1113.6", "408", "3199", "614.4"),
        *("6", "768", "0.627", "5.01", "83.4", "7"),
    ]
    assert "all DRAM GB/s 205" in result.stdout
    uncapped = row(result.stdout, "MAXN")
    assert uncapped[1] == "present"
    assert uncapped[4] == "≤ 1300.5"  # the mode sets no cap: the highest of the module
    assert "modelled" in result.stderr
    assert "15W may need a reboot: changes the GPU's gating: TPC_PG_MASK 0 → 248" in result.stderr


def test_json_has_the_caps_and_the_numbers_with_their_sources(tmp_path: Path) -> None:
    result = modes("--json", "--board", make_board(tmp_path))
    listing = json.loads(result.stdout)
    assert (listing["default"], listing["present"], listing["soc"]) == ("15W", "15W", "tegra234")
    by_name = {one["mode"]["name"]: one for one in listing["modes"]}
    assert by_name["MAXN"]["mode"]["gpu_hz"] is None
    assert by_name["MAXN"]["mode"]["unknown"]["gpu_hz"] == "uncapped"
    assert by_name["15W"]["modelled"]["cuda_cores"] == 768
    assert by_name["15W"]["modelled"]["memory_bytes_per_s"] is None  # the module is not known
    assert by_name["15W"]["id"] == 7
    assert by_name["15W"]["is_present"] is True


def test_a_configuration_file_alone(tmp_path: Path) -> None:
    junk = CONFIG + "what is this\n"
    result = modes("--config", write(tmp_path, "nvpmodel_p3701_0005.conf", junk))
    assert result.returncode == 0, result.stderr
    assert row(result.stdout, "15W")[1] == "default"
    assert "Jetson AGX Orin 64GB" in result.stdout
    assert "ignored line" in result.stderr
    assert "what is this" in result.stderr


def test_a_machine_that_is_no_jetson_has_its_core_counts() -> None:
    if Path("/etc/nvpmodel.conf").exists() or Path("/proc/driver/nvidia/gpus").exists():
        pytest.skip("this is a Jetson, or a machine with a graphics card")
    result = modes("--json")
    assert result.returncode == 0, result.stderr
    names = [one["mode"]["name"] for one in json.loads(result.stdout)["modes"]]
    assert names == [f"{count}c" for count in range(1, len(names) + 1)]
    assert names
    assert row(modes().stdout, "1c")[1] == "1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "no such file"),
        ("no modes here\n", "holds no power mode"),
        ("\0\0\0", "binary"),
        ("< POWER_MODEL ID=0 NAME=A >\n< POWER_MODEL ID=0 NAME=B >\n", "two modes"),
    ],
)
@pytest.mark.parametrize("option", ["--board", "--config"])
def test_a_bad_configuration_is_one_line(
    tmp_path: Path, text: str | None, words: str, option: str
) -> None:
    file = tmp_path / "etc/nvpmodel.conf"
    if text is not None:
        write(tmp_path, "etc/nvpmodel.conf", text)
    result = modes(option, tmp_path if option == "--board" else file)
    assert result.returncode == 1
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("mansard: ")
    assert words in line


def test_a_board_and_a_file_at_once_is_wrong_usage(tmp_path: Path) -> None:
    result = modes("--board", tmp_path, "--config", tmp_path / "x.conf")
    assert result.returncode == 2
    assert "exclude each other" in result.stderr
