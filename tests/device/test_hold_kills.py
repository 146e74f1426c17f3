"""A power cut at every step of set, measure, restore; then the board is byte for byte as it was."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.simulator.faults import set_fault
from tests.waiting import awaited

PROGRAM = Path(__file__).with_name("kill_at_every_step.py")


# A sweep of one board mode and one own has some 50 steps, most of them writes; nvpmodel makes 29
# writes. A kill within a write leaves what one before it does, but for the torn file: every second
# write is torn. The shares let several workers do them at once.
@pytest.mark.parametrize(
    ("kind", "first", "stride", "n_least"),
    [
        ("before", 1, 2, 18),
        ("before", 2, 2, 18),
        ("torn", 2, 2, 16),
        ("during", 1, 1, 4),
        ("tool", 1, 1, 25),
    ],
)
@pytest.mark.slow
def test_a_kill_at_every_step_is_restored(
    agx_orin: Path, kind: str, first: int, stride: int, n_least: int
) -> None:
    assert kill(agx_orin, kind, first, stride) >= n_least


@pytest.mark.slow
def test_on_a_running_board_whose_clocks_vanish_with_their_cores(running_agx_orin: Path) -> None:
    set_fault(running_agx_orin, "cpufreq_gone", True)
    cpus = running_agx_orin / "sys/devices/system/cpu"
    # The simulated kernel takes a moment: the folders of the cores that are off go one by one.
    assert awaited(lambda: not any((cpus / f"cpu{n}/cpufreq").is_symlink() for n in range(8, 12)))
    assert kill(running_agx_orin, "before", 1, 4) >= 10
    limits = cpus / "cpufreq/policy8"  # off, and no reading
    assert (limits / "scaling_min_freq").read_text().strip() == "729600"


def kill(board: Path, kind: str, first: int, stride: int) -> int:
    """How many kills there were; fails if one of them was not restored."""
    command = [sys.executable, str(PROGRAM), str(board), kind, str(first), str(stride)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.fullmatch(r"([0-9]+) kills, 0 wrong\n", done.stdout)
    assert counts is not None, done.stdout
    return int(counts[1])
