"""NVIDIA's own nvidia-ml-py over a stand-in library, in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mansard.device.meters.processors import open_nvml_meter

SOURCE = Path(__file__).parent / "meters_stand_in/nvml.c"
CARD, ORIN, THOR, NO_CARD, NO_DRIVER, ZERO, LOST = range(1, 8)

SHOW_CARD = """
import msgspec
from mansard.device.cards import load_nvml
from mansard.device.meters.processors import read_cards
print(msgspec.json.encode(read_cards(load_nvml())).decode())
"""
SHOW_METER = """
from mansard.device.meters.processors import open_nvml_meter
meter, reason = open_nvml_meter()
print(meter.rails if meter else reason)
"""
MEASURE = """
import time
from mansard.device.meters.meter import Meters
from mansard.device.meters.processors import open_nvml_meter
from mansard.device.meters.sampler import Sampler
meter, reason = open_nvml_meter()
with Sampler(Meters((meter,), {}), period_s=0.005) as sampler:
    start_s = time.monotonic()
    time.sleep(0.5)
    end_s = time.monotonic()
window = sampler.window(start_s, end_s)
print(window.rails[0].energy_j / window.window_s)
"""
LOSE = """
from mansard.device.meters.meter import Meters
from mansard.device.meters.processors import open_nvml_meter
from mansard.device.meters.sampler import Sampler
meter, reason = open_nvml_meter()
sampler = Sampler(Meters((meter,), {}))
for _ in range(3):
    sampler.read()
print(sampler.samples[1].power_w, sampler.samples[2].unknown["power_w"])
"""


def run_on(folder: Path, board: int, script: str) -> str:
    """What ``script`` prints where the stand-in is the board's library."""
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc")
    library = folder / "libnvidia-ml.so.1"
    command = [compiler, "-shared", "-fPIC", "-w", f"-DCARDS={board}", "-o", str(library)]
    subprocess.run([*command, str(SOURCE)], check=True)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "LD_LIBRARY_PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def show_card(folder: Path, board: int) -> dict[str, object]:
    (card,) = msgspec.json.decode(run_on(folder, board, SHOW_CARD))
    assert isinstance(card, dict)
    return card


def test_a_card_that_answers_everything(tmp_path: Path) -> None:
    card = show_card(tmp_path, CARD)
    assert card["unknown"] == {}
    assert (card["power_w"], card["temperature_c"]) == (100.0, 36.0)
    assert (card["gpu_clock_hz"], card["memory_clock_hz"]) == (1.98e9, 3.201e9)
    assert card["name"] == "Some\\x1bCard"  # nothing a terminal would obey


def test_orin_has_nothing_but_its_name(tmp_path: Path) -> None:
    card = show_card(tmp_path, ORIN)
    assert card["name"] == "Orin (nvgpu)"
    assert card["unknown"] == dict.fromkeys(
        ("power_w", "energy_j", "temperature_c", "gpu_clock_hz", "memory_clock_hz"),
        "Not Supported",
    )
    assert run_on(tmp_path, ORIN, SHOW_METER) == (
        "no card tells its power (Orin (nvgpu): Not Supported)"
    )


def test_thor_has_power_and_temperature_alone(tmp_path: Path) -> None:
    card = show_card(tmp_path, THOR)
    assert (card["power_w"], card["temperature_c"]) == (1.965, 36.0)
    assert set(card["unknown"]) == {"energy_j", "gpu_clock_hz", "memory_clock_hz"}  # type: ignore[call-overload]
    assert run_on(tmp_path, THOR, SHOW_METER) == "('gpu0',)"


def test_the_energy_of_a_window_is_the_counter_s(tmp_path: Path) -> None:
    power_w = float(run_on(tmp_path, CARD, MEASURE))
    # The counter has whole milliseconds: 1 of 500 at each end.
    assert power_w == pytest.approx(100.0, rel=0.01)


def test_a_card_that_says_zero_is_not_believed(tmp_path: Path) -> None:
    assert run_on(tmp_path, ZERO, SHOW_METER) == (
        "no card tells its power (Some\\x1bCard: NVML says 0, which cannot be)"
    )


def test_a_card_that_is_lost_leaves_its_reason(tmp_path: Path) -> None:
    # One reading was spent on the trial.
    assert run_on(tmp_path, LOST, LOSE) == "100.0 NVML: GPU is lost"


def test_without_a_card_or_a_driver_the_reason_says_what_to_do(tmp_path: Path) -> None:
    assert "shows no card" in run_on(tmp_path, NO_CARD, SHOW_METER)
    assert "install NVIDIA's driver" in run_on(tmp_path, NO_DRIVER, SHOW_METER)


def test_another_machines_folder_has_no_library(tmp_path: Path) -> None:
    meter, reason = open_nvml_meter(tmp_path)
    assert meter is None
    assert str(tmp_path) in reason
