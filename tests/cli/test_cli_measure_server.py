"""``mansard measure --server`` and ``--start``: usage, output, killed and resumed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mansard.core.records import GenerationRun
from mansard.core.storage.jsonl import read_rows
from mansard.inference.programs.supervisor import processes_below
from mansard.simulator import snapshot
from tests.inference.replayed_server import Replayed, replaying
from tests.inference.tiny_language_model import write_tiny_model
from tests.measuring.metered_windows import is_unread
from tests.waiting import awaited

MANSARD = [sys.executable, "-m", "mansard.cli"]
LLAMA = Path(__file__).parents[1] / "inference" / "llama_server.py"


def measure(tmp_path: Path, *words: str) -> list[str]:
    return [*MANSARD, "measure", "--runs", str(tmp_path / "runs"), "--profile", "brief", *words]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def rows(tmp_path: Path) -> list[GenerationRun]:
    paths = sorted(tmp_path.glob("runs/*/generations.jsonl"))
    return [row for path in paths for row in read_rows(path, GenerationRun).rows]


SHORT = ("--prompt", "8,16", "--generate", "4", "--concurrency", "1,2", "--repeat", "2")


def test_every_combination_is_measured_and_none_twice(tmp_path: Path) -> None:
    with replaying(Replayed()) as address:
        command = measure(tmp_path, "--server", address, *SHORT)
        first, second = run(command), run([*command, "--json"])
    assert first.returncode == 0, first.stderr
    assert "Language model servers" in first.stdout
    found = [(row.concurrency, row.prompt_tokens) for row in rows(tmp_path)]
    assert found == [(1, 8), (1, 16), (2, 8), (2, 16)]
    assert "already measured, nothing to do; to measure it again, add --again" in second.stderr
    document = json.loads(second.stdout)
    assert document["schema"] == "mansard/measure-server"
    one = document["generations"][-1]
    assert one["run"]["rounds"][-1]["requests"][0]["generated_tokens"] == 4
    assert (one["times"]["n_requests"], one["times"]["memory_bytes"]) == (4, None)
    assert one["times"]["unknown"]["memory_bytes"] == "the server was not started by Mansard"


def test_the_file_is_for_this_user_alone(tmp_path: Path) -> None:
    with replaying(Replayed()) as address:
        run(measure(tmp_path, "--server", address, *SHORT))
    (path,) = tmp_path.glob("runs/*/generations.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("--server", "http://a", "resnet18"), 2, "--server excludes networks"),
        (("--server", "http://a", "--", "true"), 2, "--server excludes networks"),
        (("--server", "ftp://a"), 2, "--server 'ftp://a' is not an address of a server; "),
        (("--server", "http://a", "--prompt", "x"), 2, "--prompt 'x' is not a list of numbers; "),
        (("--server", "http://a", "--prompt", "0"), 2, "--prompt is from 1 to "),
        (("--server", "http://a", "--metric", "(.)"), 2, "--metric is an option for programs, not"),
        (("--server", "http://a", "--batch", "2"), 2, "--batch is an option for networks, not for"),
        (("resnet18", "--prompt", "8"), 2, "--prompt is an option for servers, not for a network"),
        (("--model", "x", "--", "true"), 2, "--model is an option for servers, not for a program"),
        (("--start", "true"), 2, "--start has no {port}, so nothing says where its server listens"),
        (("--start", "no-such {port}"), 127, "no-such: cannot be run: no such file or directory"),
        (("--start", "sh -c 'echo no model; exit 3' {port}"), 1, "sh: the server has ended with"),
        (("--server", "http://127.0.0.1:9"), 1, "the server cannot be reached: connection refused"),
    ],
)
def test_errors_are_one_line(words: tuple[str, ...], code: int, line: str, tmp_path: Path) -> None:
    done = run(measure(tmp_path, *words))
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert line in done.stderr.splitlines()[-1]
    assert rows(tmp_path) == []


def test_what_a_server_said_last_is_told(tmp_path: Path) -> None:
    done = run(measure(tmp_path, "--start", "sh -c 'echo no model; exit 3' {port}"))
    assert "exit code 3; it said last: no model; " in done.stderr


def test_another_server_at_the_address_is_not_measured(tmp_path: Path) -> None:
    with replaying(Replayed()) as address:
        done = run(measure(tmp_path, "--server", address, "--start", "sleep 60"))
    assert done.returncode == 2
    assert f"something listens at {address} before --start has started it" in done.stderr


def test_what_was_measured_before_a_failure_is_kept(tmp_path: Path) -> None:
    # Two probes and, of each of the first two, a warm-up and two rounds.
    replayed = Replayed()
    replayed.fails_from = 8
    with replaying(replayed) as address:
        command = measure(tmp_path, "--server", address, *SHORT)
        done = run(command)
        assert done.returncode == 1
        assert "the server answered 500 to /v1/completions: the engine is out" in done.stderr
        before = rows(tmp_path)
        assert len(before) == 2
        replayed.fails_from = None
        again = run(command)
    assert again.returncode == 0, again.stderr
    assert "resumed, 2 trials were already there" in again.stderr
    assert rows(tmp_path)[:2] == before
    assert len(rows(tmp_path)) == 4


def llama(model: Path, mark: str = "") -> str:
    return f"{sys.executable} {LLAMA} {model} {{port}} 2 1 {mark}".strip()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("xllamacpp", reason="llama.cpp is not installed: make llm")
    pytest.importorskip("gguf", reason="the gguf library is not installed: make llm")
    folder = tmp_path_factory.mktemp("model")
    return write_tiny_model(folder / "tiny.gguf", n_layers=4, n_embedding=256, n_inner=704)


@pytest.mark.slow
@pytest.mark.llm
def test_two_modes_of_a_board_with_energies(board: Path, model: Path, tmp_path: Path) -> None:
    before = snapshot(board)
    words = ("--board", str(board), "--mode", "15W,MAXN", "--start", llama(model))
    length = ("--prompt", "512", "--generate", "1600", "--repeat", "1", "--json")
    done = run(measure(tmp_path, *words, *length))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["generations"]
    assert [one["mode"]["name"] for one in found] == ["15W", "MAXN"]
    powers_w: list[float] = []
    for one in found:
        times: dict[str, Any] = one["times"]
        assert times["source"] == "simulated"
        assert (times["prompt_tokens"], times["n_requests"]) == (512, 1)
        assert one["run"]["memory_bytes"] > model.stat().st_size
        (energy,) = [row["decode"] for row in one["run"]["rounds"] if not row["rejected"]]
        assert energy["repetitions"] == 1599
        if energy["total_j"] is None:
            assert is_unread(energy["unknown"]["total_j"]), energy
            continue
        assert energy["total_j"] / energy["repetitions"] == pytest.approx(times["decode_token_j"])
        powers_w.append(times["decode_w"])
        for window in one["run"]["prefills"] or ():
            assert window["repetitions"] % 512 == 0
    assert powers_w == sorted(powers_w)  # the simulated board's model of its modes
    assert snapshot(board) == before


@pytest.mark.llm
def test_a_killed_command_leaves_no_server_and_resumes(
    board: Path, model: Path, tmp_path: Path
) -> None:
    before = snapshot(board)
    lengths = ("--prompt", "16,32,64", "--generate", "200", "--repeat", "3", "--mode", "15W")
    command = measure(tmp_path, "--board", str(board), "--start", llama(model), *lengths)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert awaited(lambda: len(rows(tmp_path)) >= 1 or process.poll() is not None)
    children = set(processes_below(process.pid))
    assert children
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert awaited(lambda: not any(_is_running(child) for child in children))
    assert snapshot(board) != before  # it is still in 15W
    measured = rows(tmp_path)
    done = run(command)
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path)
    assert found[: len(measured)] == measured
    assert [row.prompt_tokens for row in found] == [16, 32, 64]
    assert snapshot(board) == before


def _is_running(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.llm
def test_ctrl_c_ends_the_server(model: Path, tmp_path: Path) -> None:
    lengths = ("--prompt", "16,32", "--generate", "2000", "--repeat", "50")
    command = measure(tmp_path, "--start", llama(model), *lengths)
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert awaited(lambda: len(processes_below(process.pid)) >= 2)
    children = set(processes_below(process.pid))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert not any(_is_running(child) for child in children)
