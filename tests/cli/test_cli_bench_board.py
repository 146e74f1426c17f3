"""``mansard bench`` on a simulated AGX Orin: set, measured, killed, restored, resumed.

Everything is real but the board: the command in a process of its own, its kernels on this
machine's CPU, the board's tools as processes, its files as files. The modes that are not measured
here are in a container, in tests/containers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.core.records import Manifest
from mansard.core.storage.documents import read_document
from mansard.simulator import set_fault, snapshot
from tests.cli.bench_process import AGX_ORIN_MODES as MODES
from tests.cli.bench_process import Start, check_read_back, finished_trials, wait_for_trials
from tests.measuring.metered_windows import windows_read

MANSARD = [sys.executable, "-m", "mansard.cli"]
pytestmark = pytest.mark.board(is_small=True)
PATIENCE_S = 900  # a machine with other work needs several times as long


def bench(board: Path, runs: Path, network: Path, modes: str = "all") -> list[str]:
    options = [
        "--board",
        str(board),
        "--runs",
        str(runs),
        "--profile",
        "brief",
        "--local",
        "--no-networks",
    ]
    return [*MANSARD, "bench", *options, "--mode", modes, str(network)]


@pytest.mark.slow
def test_a_mode_with_energy_killed_restored_and_resumed(
    board: Path, tmp_path: Path, network: Path, start: Start
) -> None:
    runs = tmp_path / "runs"
    found = snapshot(board)
    command = bench(board, runs, network, "30W")
    process = start(command)
    wait_for_trials(runs, 3, process)
    assert snapshot(board) != found  # it has set a mode
    os.kill(process.pid, signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    kept = {(trial.run_id, trial.trial_id) for trial in finished_trials(runs)}

    restore = subprocess.run(
        [*MANSARD, "restore", "--board", str(board)], capture_output=True, text=True, check=False
    )
    assert restore.returncode == 0, restore.stderr
    assert snapshot(board) == found

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert "resumed" in done.stderr
    assert "1 mode, " in done.stderr
    assert " trials to measure: up to " in done.stderr
    assert snapshot(board) == found

    manifests = [read_document(path, Manifest) for path in runs.glob("*/manifest.json")]
    check_read_back(manifests, {"30W"})
    for manifest in manifests:
        assert manifest.machine.is_simulated
        assert manifest.total_rails == ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
        assert manifest.idle is not None
    trials = finished_trials(runs)
    assert kept <= {(trial.run_id, trial.trial_id) for trial in trials}
    assert {trial.source for trial in trials} == {"simulated"}
    assert all(trial.energy is not None for trial in trials)
    windows_read(window for manifest in manifests for window in manifest.idle or ())
    for window in windows_read(window for trial in trials for window in trial.energy or ()):
        # The module's rails together: more than nothing, less than its supply can give.
        assert 2 < (window.total_j or 0) / window.window_s < 80


def test_a_dry_run_shows_every_write_and_touches_nothing(board: Path, tmp_path: Path) -> None:
    found = snapshot(board)
    command = bench(board, tmp_path / "runs", tmp_path / "no.onnx")
    done = subprocess.run(
        [*command, "--dry-run", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    (plan,) = json.loads(done.stdout)["boards"]
    assert {each["mode"]["name"] for each in plan["modes"]} == MODES.keys()
    for each in plan["modes"]:
        assert any("max_freq" in step for step in each["steps"])
    assert plan["duration_s"] > 60
    assert snapshot(board) == found
    assert not (tmp_path / "runs").exists()


def test_an_unknown_mode_lists_the_real_ones(board: Path, tmp_path: Path) -> None:
    command = [*MANSARD, "bench", "--board", str(board), "--runs", str(tmp_path / "runs")]
    done = subprocess.run([*command, "--mode", "20W"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "20W" in line
    assert all(name in line for name in MODES)


def test_modes_that_need_a_reboot_are_left_out_beforehand(
    board: Path, tmp_path: Path, network: Path
) -> None:
    # 15W gates five of eight TPCs; this board's GPU has run, so another mask needs a reboot.
    set_fault(board, "reboot_modes", [1])
    found = snapshot(board)
    command = bench(board, tmp_path / "runs", network)
    command[command.index("all")] = "15W"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 1
    left_out, error = done.stderr.splitlines()
    assert left_out.startswith("15W: left out, it needs a reboot: ")
    assert error.startswith("mansard: every mode asked for needs a reboot; ")
    assert snapshot(board) == found
