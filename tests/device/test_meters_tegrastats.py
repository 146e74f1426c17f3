"""The meter on tegrastats' lines, with a small tool that prints some in its place."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mansard.core.errors import DeviceError
from mansard.device.meters.finding import find_meters
from mansard.device.meters.sampler import Sampler
from mansard.device.meters.tegrastats import TegrastatsMeter, open_tegrastats
from tests.waiting import awaited

# VDD_IN goes up by 10 mW with each line; the parts stay.
COUNTING = """
import itertools, sys, time
for n in itertools.count():
    print(f"RAM 1/2MB CPU [1%@1] VDD_IN {5000 + 10 * n}/1 VDD_SOC 1000/1", flush=True)
    time.sleep(0.005)
"""


def install(root: Path, script: str) -> Path:
    tool = root / "usr/bin/tegrastats"
    tool.parent.mkdir(parents=True, exist_ok=True)
    tool.write_text(f"#!{sys.executable}\n{script}")
    tool.chmod(0o755)
    return root


def make_jetson(root: Path) -> Path:
    tree = root / "proc/device-tree/chosen"
    tree.mkdir(parents=True)
    (tree.parent / "model").write_text("NVIDIA Jetson Xavier NX")
    (tree / "ids").write_text("3668-0000-200")
    return root


def has_changed(sampler: Sampler, since: int) -> Callable[[], bool]:
    """Whether there were 15 different powers since that many readings."""
    return lambda: len({sample.power_w for sample in sampler.samples[since:]}) >= 15


def test_a_board_whose_chips_are_hidden_is_read_through_tegrastats(tmp_path: Path) -> None:
    meters = find_meters(install(make_jetson(tmp_path), COUNTING))
    assert [meter.name for meter in meters.found] == ["tegrastats"]
    assert "INA3221" in meters.missing
    assert meters.total is not None
    assert meters.total.rails == ("VDD_IN",)
    with Sampler(meters, period_s=0.005) as sampler:
        for _ in range(40):  # a busy machine may not let it read throughout
            start_s, n_before = time.monotonic(), len(sampler.samples)
            assert awaited(has_changed(sampler, n_before))
            end_s = time.monotonic()
            sampler.read()  # so that the samples reach over the end
            window = sampler.window(start_s, end_s, n_changed_min=5)
            if window.total_j is not None:
                break
    vdd_in, vdd_soc = window.rails
    # VDD_IN rises from 5 W by 10 mW a line and is read for some lines; VDD_SOC is 1 W.
    assert vdd_in.energy_j is not None
    read_w = [s.power_w or 0.0 for s in sampler.samples[n_before:] if s.rail == "VDD_IN"]
    assert 4.9 <= min(read_w) - 0.1 < vdd_in.energy_j / window.window_s <= max(read_w)
    assert vdd_in.step_w is not None
    assert vdd_in.step_w * 100 == pytest.approx(round(vdd_in.step_w * 100))  # whole lines
    # It stays the same while the lines of its sensor change.
    assert vdd_soc.energy_j == pytest.approx(window.window_s)
    assert window.total_j == vdd_in.energy_j


def test_readings_between_two_lines_repeat_the_last(tmp_path: Path) -> None:
    script = "import time\nprint('RAM 1/2MB CPU [1%@1] VDD_IN 5000/1', flush=True)\ntime.sleep(60)"
    ticks = itertools.count()  # each look at the clock finds a millisecond gone
    meter = TegrastatsMeter(install(tmp_path, script), clock=lambda: next(ticks) / 1000)
    (first,), (second,) = meter.read(), meter.read()
    assert (first.power_w, second.power_w) == (5.0, 5.0)
    assert second.monotonic_s >= first.monotonic_s


def test_a_tool_that_falls_silent_is_no_reading(tmp_path: Path) -> None:
    script = "import time\nprint('RAM 1/2MB CPU [1%@1] VDD_IN 5000/1', flush=True)\ntime.sleep(60)"
    now_s = [0.0]
    meter = TegrastatsMeter(install(tmp_path, script), clock=lambda: now_s[0])
    now_s[0] = 0.9  # the line may be a little old
    assert meter.read()[0].power_w == 5.0
    now_s[0] = 1.1
    with pytest.raises(DeviceError, match="prints no lines: none came for a while"):
        meter.read()


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("import sys\nsys.exit('Sensors: no permission')", "no permission"),
        ("print('RAM 1/2MB CPU [1%@1] GR3D_FREQ 0%', flush=True)\ninput()", "no power rails"),
        ("print('RAM 1/2MB CPU [1%@1] GR3D_FREQ 0%')", "no power rails"),
        ("print('\\\\0\\\\xff' * 10000)", "ended by itself"),
    ],
)
def test_a_tool_of_no_use_gives_its_reason(tmp_path: Path, script: str, reason: str) -> None:
    meter, why = open_tegrastats(install(tmp_path, script))
    assert meter is None
    assert reason in why


def test_without_the_tool_there_is_no_meter(tmp_path: Path) -> None:
    meter, why = open_tegrastats(tmp_path)
    assert meter is None
    assert "no tegrastats" in why


# A lost slash in every third line: 5000/5000 becomes 50005000, 50 kW.
DAMAGED = """
import itertools, time
for n in itertools.count():
    power = "50005000" if n % 3 == 2 else f"{5000 + n}/5000"
    print(f"RAM 1/2MB CPU [1%@1] VDD_IN {power} VDD_SOC {1000 + n}/1", flush=True)
    time.sleep(0.005)
"""


def test_a_printed_power_that_cannot_be_true_is_no_reading(tmp_path: Path) -> None:
    meters = find_meters(install(make_jetson(tmp_path), DAMAGED))
    with Sampler(meters, period_s=0.002) as sampler:
        start_s = time.monotonic()
        assert awaited(lambda: sum(sample.power_w is None for sample in sampler.samples) >= 3)
        end_s = time.monotonic()
    powers_w = [s.power_w for s in sampler.samples if s.rail == "VDD_IN" and s.power_w is not None]
    assert max(powers_w, default=0) < 10
    window = sampler.window(start_s, end_s, n_changed_min=1)
    reason = window.unknown["total_j"]
    assert "tegrastats printed VDD_IN 50005000 (50005 W cannot be a power of a rail" in reason
