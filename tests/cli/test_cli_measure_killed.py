"""SIGKILL inside a network: no row is lost, and the same command measures the rest."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from mansard.core.records import CHAIN_LENGTHS, Measurement, chain_name
from mansard.core.storage.jsonl import read_rows
from tests.waiting import awaited

NAMES = ("squeezenet1_1", "mobilenet_v3_small", "shufflenet_v2_x1_0")


def test_a_killed_sweep_of_networks_loses_no_row(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = [sys.executable, "-m", "mansard.cli", "measure", *NAMES, "--local"]
    command += ["--runs", str(runs), "--profile", "brief"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # The header and the first row are there: the second network is loaded or measured.
    assert awaited(lambda: any(path.read_bytes().count(b"\n") >= 2 for path in _rows(runs)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    (path,) = _rows(runs)
    before = read_rows(path, Measurement, runs).rows  # without a line that was being written
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    found = read_rows(path, Measurement, runs).rows
    # Where other programs took the CPUs, a row has no time, and its network is measured again.
    assert all(row in found for row in before if row.seconds_s)
    # and the chains of tiny nodes, which every run has on a CPU
    assert sorted(row.model for row in found) == sorted([*NAMES, *map(chain_name, CHAIN_LENGTHS)])


def _rows(runs: Path) -> list[Path]:
    return list(runs.glob("*/measurements.jsonl"))
