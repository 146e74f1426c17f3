"""``mansard bench`` on a simulated board whose GPU refuses kernels, miscounts, or is lost."""

from __future__ import annotations

from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mansard.core.records import Trial
from mansard.core.storage.jsonl import read_rows
from mansard.simulator import running, set_fault
from tests.cli.in_process import mansard

pytestmark = [pytest.mark.slow, pytest.mark.board(is_on=False)]


def bench(board: Path, runs: Path, fault: str = "", value: object = None) -> CompletedProcess[str]:
    if fault:
        set_fault(board, fault, value)
    # With a network, or all of the zoo are scored.
    words = ("bench", "squeezenet1_1", "--board", board, "--processor", "gpu", "--mode", "MAXN")
    try:
        with running(board):
            return mansard(*words, "--no-networks", "--profile", "brief", "--runs", runs)
    finally:
        if fault:
            set_fault(board, fault, None)


def rows_of(runs: Path) -> tuple[Trial, ...]:
    (path,) = runs.glob("*/trials.jsonl")
    return tuple(read_rows(path, Trial, runs).rows)


def test_refused_kernels_are_named_and_the_next_bench_tries_them_again(
    board: Path, tmp_path: Path
) -> None:
    done = bench(board, tmp_path / "runs", "gpu_refuses", ["numba-cuda"])
    assert done.returncode == 0
    rows = rows_of(tmp_path / "runs")
    failed = {row.trial_id for row in rows if row.failure is not None}
    assert {row.backend for row in rows if row.trial_id in failed} == {"numba-cuda"}
    (line,) = [line for line in done.stderr.splitlines() if "could not be measured" in line]
    assert line == (
        f"note: MAXN: {len(failed)} of {len(rows)} trials of kernels could not be measured (the "
        "same command tries again): fma fp32, 256 per element, numba-cuda: the stand-in refuses it"
    )
    again = bench(board, tmp_path / "runs")
    assert again.returncode == 0
    assert f"resumed, {len(rows) - len(failed)} trials were already there" in again.stderr
    assert "could not be measured" not in again.stderr
    assert {row.failure for row in rows_of(tmp_path / "runs")} == {None}


def test_a_bench_of_failures_alone_fails(board: Path, tmp_path: Path) -> None:
    done = bench(board, tmp_path / "runs", "gpu_refuses", ["cupy", "cublas", "numba-cuda"])
    assert done.returncode == 1
    n_trials = len(rows_of(tmp_path / "runs"))
    assert f"none of {n_trials} trials of kernels could be measured" in done.stderr
    assert (tmp_path / "runs/report.html").is_file()


def test_a_miscount_is_a_warning(board: Path, tmp_path: Path) -> None:
    done = bench(board, tmp_path / "runs", "gpu_miscounts", value=True)
    assert done.returncode == 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert "ran faster than the hardware can" in line
    assert "a count or a clock of this run is wrong" in line


def test_a_lost_gpu_is_one_line_and_the_same_command_resumes(board: Path, tmp_path: Path) -> None:
    done = bench(board, tmp_path / "runs", "gpu_lost", 1000)
    assert done.returncode == 1
    *_, line = done.stderr.splitlines()
    assert line.startswith(
        "mansard: the GPU does not answer any more, since this: CUDA: an illegal"
    )
    assert line.endswith("the same command resumes in a new process")
    n_rows = len(rows_of(tmp_path / "runs"))
    assert n_rows > 0
    again = bench(board, tmp_path / "runs")
    assert again.returncode == 0
    assert f"resumed, {n_rows} trials were already there" in again.stderr
