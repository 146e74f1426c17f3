"""``mansard bench`` in a container that is disturbed: nothing lives on, nothing is lost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mansard.simulator import snapshot
from tests.cli.bench_process import Start, finished_trials, wait_for_trials
from tests.containers.launching import all_containers

pytestmark = [
    pytest.mark.docker,
    pytest.mark.slow,
    pytest.mark.board(is_small=True),
    pytest.mark.usefixtures("as_in_a_terminal"),
]
MANSARD = [sys.executable, "-m", "mansard.cli"]
PATIENCE_S = 600  # a machine with other work needs several times as long
KEPT = "finished work is kept: the same command resumes"


@pytest.fixture
def begin(board: Path, tmp_path: Path, begin_bench: Start) -> Start:
    """Begins a bench of one mode."""
    runs = str(tmp_path / "runs")
    return partial(begin_bench, "--board", str(board), "--runs", runs, "--mode", "15W")


def last_line(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in errors
    return errors.splitlines()[-1]


def test_killed_container_two_signals_and_a_full_disk(
    begin: Start, board: Path, tmp_path: Path, docker_client: Any
) -> None:
    runs, found = tmp_path / "runs", snapshot(board)

    # The container is killed. Standard input is closed from the start: it asks nothing.
    process = begin(preexec_fn=lambda: os.close(0))
    wait_for_trials(runs, 1, process)
    (container,) = docker_client.containers.list()
    container.kill()
    line = last_line(process)
    assert process.returncode == 1
    assert "the container was killed" in line
    assert line.endswith("the same command resumes")
    assert snapshot(board) == found
    n_kept = len(finished_trials(runs))

    # It hangs, and the second Ctrl-C comes while it is being ended.
    process = begin()
    wait_for_trials(runs, n_kept + 1, process)
    (container,) = docker_client.containers.list()
    container.pause()
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert last_line(process) == f"mansard: interrupted; {KEPT}"
    assert process.returncode == 130
    assert all_containers(docker_client) == []
    assert snapshot(board) == found
    n_kept = len(finished_trials(runs))

    # Nothing more can be written: a limit on the length of files does what a full disk does.
    limit = max(path.stat().st_size for path in runs.rglob("*.jsonl")) + 4096
    limits = (resource.RLIMIT_FSIZE, (limit, limit))
    process = begin("--no-networks", preexec_fn=lambda: resource.setrlimit(*limits))
    line = last_line(process)
    assert process.returncode == 1
    assert line.startswith(f"mansard: {runs}")
    assert "File too large" in line
    assert all_containers(docker_client) == []
    assert snapshot(board) == found
    assert len(finished_trials(runs)) >= n_kept
    # Whole files, or none: no temporary one is left.
    assert not [path for path in runs.rglob(".*") if path.is_file()]


def test_a_second_bench_of_the_same_board_is_told_who_has_it(
    begin: Start, board: Path, tmp_path: Path, docker_client: Any
) -> None:
    first = begin()
    wait_for_trials(tmp_path / "runs", 1, first)
    second = begin()
    line = last_line(second)
    assert second.returncode == 1
    assert f"this machine is in use by another sweep, process {first.pid} since" in line
    assert len(docker_client.containers.list()) == 1  # the first one's goes on
    first.send_signal(signal.SIGTERM)
    assert last_line(first) == f"mansard: interrupted; {KEPT}"
    assert first.returncode == 130
    assert all_containers(docker_client) == []
