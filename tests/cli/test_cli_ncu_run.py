"""``mansard ncu run`` under a stand-in of Nsight Compute: killed, out of space, its output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mansard.core.leftovers import is_hidden_name
from tests.inference.ncu_stand_in import write_ncu
from tests.inference.small_networks import perceptron
from tests.waiting import awaited


def command(tmp_path: Path, *more: str) -> list[str]:
    network = tmp_path / "small.onnx"
    if not network.exists():
        perceptron(network, batch="N")
    words = ["ncu", "run", str(network), "--provider", "cpu", "--chip", "ga10b"]
    return [sys.executable, "-m", "mansard.cli", *words, "--runs", str(tmp_path / "runs"), *more]


def run(environment: dict[str, str], words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    ncu = write_ncu(tmp_path)
    (tmp_path / "tmp").mkdir()
    return {
        **os.environ,
        "PATH": f"{ncu.parent}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path / "tmp"),
        "XDG_STATE_HOME": str(tmp_path / "state"),  # other sweeps are not waited for
    }


def profiled(tmp_path: Path) -> list[str]:
    """The processes of networks whose job is in this test's folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(tmp_path) in text and "counters.profiled" in text and "/ncu" not in text:
            found.append(text)
    return found


def exports(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "runs").glob("*/exports/*"))


def test_tables_and_json(tmp_path: Path, environment: dict[str, str]) -> None:
    ran = run(environment, command(tmp_path, "--batch", "1,2", "--json"))
    assert ran.returncode == 0, ran.stderr
    assert [one["row"]["batch"] for one in json.loads(ran.stdout)] == [1, 2]
    assert [kernel["kernel"] for kernel in json.loads(ran.stdout)[0]["kernels"]] == ["conv", "gemm"]
    again = run(environment, command(tmp_path, "--batch", "1,2"))
    assert "already measured" in again.stderr
    assert "5.120 kFLOP" in again.stdout
    assert str(exports(tmp_path)[0].parent) in again.stdout


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_while_it_counts_it_leaves_nothing_and_goes_on(
    tmp_path: Path, environment: dict[str, str], number: signal.Signals
) -> None:
    process = subprocess.Popen(
        command(tmp_path, "--calls", "1000"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert awaited(lambda: bool(profiled(tmp_path)))
    process.send_signal(number)
    _, said = process.communicate()
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "Traceback" not in said
    assert awaited(lambda: not profiled(tmp_path))  # it does not outlive the command
    assert all(is_hidden_name(path.name) for path in exports(tmp_path))
    ran = run(environment, command(tmp_path, "--calls", "1000"))
    assert ran.returncode == 0, ran.stderr
    (export,) = exports(tmp_path)
    assert export.suffix == ".csv"
    assert not list((tmp_path / "tmp").iterdir())


def test_a_limit_on_files_is_one_line_and_nothing_is_kept(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    limit = 1 << 20  # the network takes 33 kB
    ran = run(
        {**environment, "BULK": str(2 * limit)}, ["prlimit", f"--fsize={limit}", *command(tmp_path)]
    )
    assert ran.returncode == 1
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("mansard: ")
    assert "ulimit -f" in last
    assert not exports(tmp_path)
    assert run(environment, command(tmp_path)).returncode == 0
