"""What NVML reports about other processes: nvidia-ml-py over a stand-in library."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent / "conditions_stand_in/nvml.c"
BUSY, ORIN, NOBODY = 1, 2, 3
# Its own process: the library is loaded once, and the root is this machine's.
SHOW = """
from mansard.device.conditions.surroundings import GpuProcesses
from mansard.device.system import SYSTEM_ROOT
processes = GpuProcesses(SYSTEM_ROOT)
print(processes.find() == processes.find(), processes.find())
"""
SHOW_MEMORY = """
from mansard.device.conditions.surroundings import find_memory_monitor
from mansard.device.system import SYSTEM_ROOT
found = find_memory_monitor(SYSTEM_ROOT, uses_gpu=True)
print(found.source, found.read_share(None), found.why_not)
print(find_memory_monitor(SYSTEM_ROOT, uses_gpu=False).read_share(None))
"""

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(find_spec("pynvml") is None, reason="needs nvidia-ml-py"),
    pytest.mark.skipif(
        Path("/sys/kernel/debug/nvmap").exists(), reason="a Jetson tells by itself, before NVML"
    ),
]


SHOW_DISTURBANCES = """
import os
from mansard.core.power_mode import core_count_mode
from mansard.device.conditions import Watch, disturbances, find_sources
from mansard.device.system import SYSTEM_ROOT
sources = find_sources(SYSTEM_ROOT, (0,), uses_gpu=True)
with Watch(SYSTEM_ROOT, (0,), 60.0, sources=sources) as watch:
    os.environ["REASONS"] = os.environ["MEANWHILE"]
conditions = watch.conditions
print(conditions.n_throttle_events, conditions.unknown.get("n_throttle_events"))
print([why for why in disturbances(conditions, core_count_mode(1), uses_gpu=True) if "thr" in why])
"""


def look(folder: Path, board: int, show: str = SHOW, **variables: str) -> str:
    library = folder / "libnvidia-ml.so.1"
    build = ["gcc", "-shared", "-fPIC", f"-DBOARD={board}", "-o", str(library), str(SOURCE)]
    subprocess.run(build, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder), **variables}
    command = [sys.executable, "-c", show]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_others_are_named_once_and_we_are_not(tmp_path: Path) -> None:
    # beyond the largest number that Linux gives, 4194304: such a process has no name
    assert (
        look(tmp_path, BUSY) == "True GpuProcessesFound(names=('unknown (4194305)',), why_not='')"
    )


def test_nobody_on_the_cards(tmp_path: Path) -> None:
    assert look(tmp_path, NOBODY) == "True GpuProcessesFound(names=(), why_not='')"


def test_a_board_that_does_not_tell(tmp_path: Path) -> None:
    said = look(tmp_path, ORIN)
    assert said.startswith("True GpuProcessesFound(names=None, ")
    assert "NVML: not supported" in said


def test_a_card_tells_the_share_of_time_its_memory_is_busy_where_the_gpu_is_used(
    tmp_path: Path,
) -> None:
    said = look(tmp_path, BUSY, SHOW_MEMORY).splitlines()
    assert [line.strip() for line in said] == ["NVML, share of time 0.35", "None"]
    told = look(tmp_path, ORIN, SHOW_MEMORY)
    assert "NVML: not supported" in told


@pytest.mark.parametrize("reasons", ["8", "20", "40", "48", "80", "6c"])
def test_a_card_that_heat_or_its_hardware_slows_down_disturbs(tmp_path: Path, reasons: str) -> None:
    # Slowed down at the last reading: once, whatever several bits say of it.
    said = look(tmp_path, BUSY, SHOW_DISTURBANCES, REASONS="0", MEANWHILE=reasons)
    assert said.splitlines() == ["1 None", "['throttled once']"]


@pytest.mark.parametrize("reasons", ["0", "1", "2", "4", "5", "100"])
def test_a_card_at_its_power_limit_or_idle_is_not_disturbed(tmp_path: Path, reasons: str) -> None:
    said = look(tmp_path, BUSY, SHOW_DISTURBANCES, REASONS=reasons, MEANWHILE=reasons)
    assert said.splitlines() == ["0 None", "[]"]


def test_a_card_that_does_not_say_why_its_clocks_are_low(tmp_path: Path) -> None:
    said = look(tmp_path, ORIN, SHOW_DISTURBANCES, REASONS="40", MEANWHILE="40").splitlines()
    assert said[1] == "[]"
    assert said[0].startswith("0 ") or "NVML does not say why the card's clocks are low" in said[0]
