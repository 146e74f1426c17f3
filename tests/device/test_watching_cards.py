"""A graphics card that is watched: nvidia-ml-py over a stand-in library, in its own process."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pytest

from mansard.core.records import BoardSample

SOURCE = Path(__file__).parent / "watching_stand_in/nvml.c"
HOT, SILENT, COOL = 1, 2, 3
LOOK = """
import sys
import msgspec
from mansard.device.watching import BoardWatch
watch = BoardWatch()
watch.read()
sys.stdout.buffer.write(msgspec.json.encode(watch.read()))
"""

pytestmark = [
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(find_spec("pynvml") is None, reason="needs nvidia-ml-py"),
    pytest.mark.skipif(Path("/sys/kernel/debug/nvmap").exists(), reason="a Jetson has no cards"),
]


def look(folder: Path, card: int) -> BoardSample:
    library = folder / "libnvidia-ml.so.1"
    build = ["gcc", "-shared", "-fPIC", "-w", f"-DCARD={card}", "-o", str(library), str(SOURCE)]
    subprocess.run(build, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", LOOK], env=environment, capture_output=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout, type=BoardSample)


def test_a_card_with_its_limits(tmp_path: Path) -> None:
    sample = look(tmp_path, HOT)
    (gpu,) = sample.gpus
    assert (gpu.gpu, gpu.name, gpu.busy_share) == ("gpu0", "Made-up card", 0.97)
    assert (gpu.clock_hz, gpu.cap_hz) == (1.2e9, 1.8e9)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (3 << 30, 8 << 30)
    limits = [
        (one.cause, one.is_throttling, one.why) for one in sample.limits if "gpu0" in one.parts
    ]
    # The power limit is the mode's: at it a card does what its mode allows.
    assert limits == [
        ("thermal", True, "its driver slows it down: too hot (91 °C)"),
        ("power", False, "it is at its power limit"),
    ]
    assert [(z.zone, z.temperature_c, z.trip_c) for z in sample.zones][-1] == ("gpu0", 91.0, 90.0)
    assert "gpu0" in [rail.rail for rail in sample.rails if rail.power_w == 250.0]
    assert sample.fan_drive_share is not None
    assert sample.gpu_processes == ()


def test_a_card_that_is_slowed_down_while_its_gpu_is_cool(tmp_path: Path) -> None:
    (limit,) = look(tmp_path, COOL).limits
    assert (limit.cause, limit.is_throttling) == ("thermal", True)
    assert limit.why == (
        "its driver slows it down: too hot (the GPU has 66 of 89 °C; its memory may be hotter)"
    )


def test_a_card_that_tells_its_name_alone(tmp_path: Path) -> None:
    sample = look(tmp_path, SILENT)
    (gpu,) = sample.gpus
    assert gpu.name == "Made-up card"
    assert gpu.busy_share is None
    assert gpu.unknown["busy_share"] == "NVML: not supported"
    # Its driver is older than the function that lists processes.
    assert sample.gpu_processes is None
    assert "NVML" in sample.unknown["gpu_processes"]
