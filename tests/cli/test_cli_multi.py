"""``mansard multi``: tables, JSON, and SIGKILL between mappings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

from mansard.core.jsonl import read_rows
from mansard.core.records import MultiRun
from tests.inference.small_networks import perceptron
from tests.waiting import awaited


def command(folder: Path, *arguments: str) -> list[str]:
    base = [sys.executable, "-m", "mansard.cli", "multi", "--local", "--profile", "brief"]
    return [*base, "--runs", str(folder / "runs"), *arguments]


def test_a_killed_sweep_loses_no_row(tmp_path: Path) -> None:
    perceptron(tmp_path / "a.onnx")
    model = str(tmp_path / "a.onnx")
    mappings = [{f"{model}#{n}": {"0": "cpu"} for n in range(size)} for size in (1, 2, 3)]
    (tmp_path / "mappings.json").write_text(json.dumps(mappings))
    wanted = command(
        tmp_path, "--mapping", str(tmp_path / "mappings.json"), "--seconds", "0.5", "--processes"
    )
    process = subprocess.Popen(wanted, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    # The header and the first row are there: the second mapping runs.
    assert awaited(lambda: any(path.read_bytes().count(b"\n") >= 2 for path in rows(tmp_path)))
    process.send_signal(signal.SIGKILL)
    process.wait()
    (path,) = rows(tmp_path)
    before = read_rows(path, MultiRun, tmp_path / "runs").rows
    done = subprocess.run([*wanted, "--json"], capture_output=True, check=False, text=True)
    assert done.returncode == 0, done.stderr
    found = read_rows(path, MultiRun, tmp_path / "runs").rows
    assert [len(row.networks) for row in found] == [1, 2, 3]
    assert found[: len(before)] == before
    printed = json.loads(done.stdout)["rows"]
    assert [each["row"]["trial_id"] for each in printed] == [row.trial_id for row in found]


def rows(folder: Path) -> list[Path]:
    return list((folder / "runs").glob("*/multi.jsonl"))


def test_networks_and_mappings_are_not_both_named(tmp_path: Path) -> None:
    wanted = command(tmp_path, "a.onnx", "--mapping", "b.json")
    done = subprocess.run(wanted, capture_output=True, check=False, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("mansard: name networks or --mapping FILE, and not both")
