"""``mansard multi run``: tables, JSON, and SIGKILL between mappings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mansard.api.measurements import MeasuredMulti
from mansard.cli.measuring.multi import print_mappings
from mansard.core.records import MultiRun
from mansard.core.storage.jsonl import read_rows
from tests.analytics.test_concurrent_rows import RUN
from tests.cli.cells import cells, row
from tests.inference.small_networks import perceptron
from tests.inference.test_cutting import residual
from tests.waiting import awaited

pytestmark = pytest.mark.usefixtures("beside_each_other")


def command(folder: Path, *arguments: str) -> list[str]:
    base = [sys.executable, "-m", "mansard.cli", "multi", "run", "--local", "--profile", "brief"]
    return [*base, "--runs", str(folder / "runs"), *arguments]


def test_a_killed_sweep_loses_no_row(tmp_path: Path) -> None:
    perceptron(tmp_path / "a.onnx")
    model = str(tmp_path / "a.onnx")
    mappings = [{f"{model}#{n}": {"0": "cpu"} for n in range(size)} for size in (1, 2, 3)]
    (tmp_path / "mappings.json").write_text(json.dumps(mappings))
    wanted = command(
        tmp_path, "--mapping", str(tmp_path / "mappings.json"), "--duration", "0.5", "--processes"
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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("a.onnx", "--mapping", "b.json"), "give networks or --mapping FILE, not both"),
        (("--mapping", "b.json", "--devices", "cpu"), "--mapping FILE names the devices itself"),
        (("a.onnx", "--devices", "npu"), "unknown device 'npu'"),
    ],
)
def test_what_contradicts_is_one_line(
    arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    perceptron(tmp_path / "a.onnx")
    wanted = command(tmp_path, *arguments)
    done = subprocess.run(wanted, capture_output=True, check=False, text=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"mansard: {said}")
    assert done.stderr.count("\n") == 1


def test_tables_say_where_the_time_went(tmp_path: Path) -> None:
    perceptron(tmp_path / "a.onnx")
    mapping = {
        str(tmp_path / "a.onnx"): {"9": "cpu:0"},
        str(residual(tmp_path)): {"6": "cpu", "9": "cpu"},
    }
    (tmp_path / "mapping.json").write_text(json.dumps(mapping))
    options = ["--mapping", str(tmp_path / "mapping.json"), "--duration", "3", "--pipelined"]
    done = subprocess.run(
        command(tmp_path, *options), capture_output=True, check=False, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    title, *table = done.stdout.splitlines()
    assert title.startswith("2 networks in ")
    assert ", pipelined" in title
    names = {line[0] for line in cells("\n".join(table))}
    assert names > {"transfer", "wait for input", "wait for room"}
    assert row(done.stdout, "stage")[1:] == ["cpu:0", "6 cpu", "cpu"]


def test_a_rate_is_in_items(capsys: pytest.CaptureFixture[str]) -> None:
    # 30 runs of 4 images in a window of 3 s are 40 images a second; without a batch, 10 runs.
    for batch, rate in ((4, "40 items/s"), (None, "10 runs/s")):
        reasons = {} if batch else {"batch": "its inputs have none"}
        network = msgspec.structs.replace(RUN.networks[0], batch=batch, unknown=reasons)
        run = msgspec.structs.replace(RUN, networks=(network,))
        print_mappings([MeasuredMulti("a board", "15W", run)])
        assert row(capsys.readouterr().out, "a")[2] == rate
