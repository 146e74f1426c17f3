"""``mansard bench`` as a user runs it: interrupted three ways, resumed, finished, repeated.

One sweep of the brief profile is measured in all: each interruption stops it in
the middle and the next start goes on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.measuring.attempts import MOST_ATTEMPTS
from tests.cli.bench_process import Start, finished_trials, wait_for_trials

COMMAND = [sys.executable, "-m", "mansard.cli", "bench", "--mode", "1c", "--profile", "brief"]
FEW = 2  # finished trials before an interruption; the brief profile has 14
PATIENCE_S = 600  # a machine with other work needs several times as long


@pytest.fixture
def begin(start: Start, tmp_path: Path) -> Start:
    """Begins the bench of these models, in a session of its own."""

    def begin_one(models: list[Path], *options: str) -> subprocess.Popen[str]:
        command = [*COMMAND, *options, "--runs", str(tmp_path / "runs"), *map(str, models)]
        return start(command, start_new_session=True)

    return begin_one


def finished_ids(runs: Path) -> list[str]:
    return [trial.trial_id for trial in finished_trials(runs)]


@pytest.fixture(scope="module")
def models(network: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    hostile = tmp_path_factory.mktemp("models") / "<img src=x onerror=alert(1)>.onnx"
    hostile.write_bytes(network.read_bytes())
    return [network, hostile]


@pytest.mark.slow
@pytest.mark.usefixtures("as_in_a_terminal")
def test_interrupted_resumed_finished_and_repeated(
    begin: Start, tmp_path: Path, models: list[Path]
) -> None:
    runs = tmp_path / "runs"
    kept: list[str] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL):
        process = begin(models, "--no-networks")  # those are run after the kernels
        wait_for_trials(runs, len(kept) + FEW, process)
        os.kill(process.pid, number)
        _, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == (-9 if number == signal.SIGKILL else 130)
        if number != signal.SIGKILL:
            assert stderr.splitlines()[-1] == (
                "mansard: interrupted; finished work is kept: the same command resumes"
            )
        assert "Traceback" not in stderr
        now = finished_ids(runs)
        assert now[: len(kept)] == kept
        assert len(now) >= len(kept) + FEW
        kept = now

    process = begin(models)
    stdout, stderr = process.communicate(timeout=600)
    assert process.returncode == 0, stderr
    assert "resumed" in stderr
    assert "left" in stderr  # progress with the time left
    report = runs / "report.html"
    assert stdout.splitlines()[-2] == f"report: {report}"
    trials = finished_ids(runs)
    assert trials[: len(kept)] == kept
    assert len(trials) == len(set(trials))
    page = report.read_text(encoding="utf-8")
    assert "<img src=x" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page

    (rows_file,) = runs.glob("*/trials.jsonl")
    # A busy machine leaves rows that are imprecise: they are measured again, at most twice.
    for _ in range(MOST_ATTEMPTS):
        before = rows_file.read_bytes()
        again = subprocess.run(
            [*COMMAND, "--runs", str(runs), *map(str, models), "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert again.returncode == 0, again.stderr
        if "measured again: " not in again.stderr:
            break
    assert "already measured" in again.stderr
    assert rows_file.read_bytes() == before
    assert json.loads(again.stdout)["report"] == str(report)


def test_a_broken_model_is_found_before_anything_is_measured(begin: Start, tmp_path: Path) -> None:
    model = tmp_path / "broken.onnx"
    model.write_bytes(b"broken")
    runs = tmp_path / "runs"
    process = begin([model])
    stdout, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert stdout == ""
    assert stderr.splitlines()[-1].startswith("mansard: ")
    assert "broken.onnx" in stderr
    assert not runs.exists()


def test_a_runs_folder_that_is_a_file(begin: Start, tmp_path: Path, models: list[Path]) -> None:
    runs = tmp_path / "runs"
    runs.write_text("mine")
    process = begin(models[:1])
    _, stderr = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "a file stands where a folder is needed" in stderr.splitlines()[-1]
    assert runs.read_text() == "mine"
