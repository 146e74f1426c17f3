"""``mansard measure -- COMMAND`` as a command: streams, exit codes, signals, a simulated board."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mansard.core.records import ProgramRun
from mansard.core.storage.jsonl import read_rows
from mansard.simulator import snapshot
from tests.measuring.metered_windows import is_unread
from tests.undisturbed import without_doubts
from tests.waiting import awaited

MANSARD = [sys.executable, "-m", "mansard.cli"]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(autouse=True)
def usual_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the limit of tests/environment.py, which would stand in a program's name."""
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)


def measure(tmp_path: Path, *words: str) -> list[str]:
    return [*MANSARD, "measure", "--runs", str(tmp_path / "runs"), "--profile", "brief", *words]


def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = subprocess.run(  # type: ignore[call-overload]
        command, capture_output=True, text=True, check=False, timeout=300, **options
    )
    return done


def finished(tmp_path: Path) -> int:
    """How many programs have been measured: rows in all runs."""
    return sum(
        len(read_rows(one, ProgramRun).rows) for one in tmp_path.glob("runs/*/programs.jsonl")
    )


def test_output_and_input_pass_through(tmp_path: Path) -> None:
    command = measure(tmp_path, "--repeat", "1", "--", "sh", "-c", "cat; echo told >&2")
    given = tmp_path / "given"
    given.write_text("hello\n")
    with given.open() as file:
        done = run(command, stdin=file)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello\n"
    # Another test's sweep may hold the machine: a line about it may come first.
    assert "1 mode to measure\ntold\n" in done.stderr
    assert "Programs; " in done.stderr


def test_a_file_as_input_is_read_by_every_run_in_every_mode(board: Path, tmp_path: Path) -> None:
    given, out = tmp_path / "given", tmp_path / "out"
    given.write_text("hello\n")
    words = ("--board", str(board), "--mode", "15W,30W", "--repeat", "2", "--")
    with given.open() as file:
        done = run(measure(tmp_path, *words, "sh", "-c", f"cat >> {out}"), stdin=file)
    assert done.returncode == 0, done.stderr
    assert out.read_text() == "hello\n" * 4
    # The program ran on this machine, whatever the clocks of the simulated board.
    assert "times of this host, simulated energy" in " ".join(done.stderr.split())


@pytest.mark.parametrize(("n_runs", "n_told"), [(1, 0), (2, 1)])
def test_a_pipe_as_input_is_for_the_first_run_and_that_is_told(
    n_runs: int, n_told: int, tmp_path: Path
) -> None:
    done = run(measure(tmp_path, "--repeat", str(n_runs), "--", "cat"), input="hello\n")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello\n"
    assert done.stderr.count("standard input is a pipe: only the first run can read") == n_told


def test_a_program_that_writes_a_file_that_it_names_is_told(tmp_path: Path) -> None:
    # Without that the next command would measure it anew, and say nothing.
    done = run(measure(tmp_path, "--repeat", "1", "--", "cp", "/proc/uptime", "out"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (
        "a file among the arguments or of --depends changed during the measurement" in done.stderr
    )


def test_json_is_alone_on_stdout(tmp_path: Path) -> None:
    words = ("--json", "--repeat", "2", "--name", "chat", "--metric", r"rate: (\d+)")
    command = measure(tmp_path, *words, "--", "sh", "-c", "echo rate: 12")
    first = run(command)
    assert first.returncode == 0, first.stderr
    (found,) = json.loads(first.stdout)["programs"]
    assert found["run"]["workload"] == "chat"
    (whole,) = found["times"]
    assert (whole["workload"], whole["metric"], whole["n_runs"]) == ("chat", 12, 2)
    assert first.stderr.count("rate: 12\n") == 2
    # Again it is not run, unless that is asked for.
    without_doubts(tmp_path / "runs")
    second = run(command)
    (shown,) = json.loads(second.stdout)["programs"]
    assert shown["run"]["repetitions"] == found["run"]["repetitions"]
    assert (
        "chat: already measured, nothing to do; to measure it again, add --again" in second.stderr
    )
    again = json.loads(run([*command[:-4], "--again", *command[-4:]]).stdout)
    assert again["programs"][0]["run"]["run_id"] != found["run"]["run_id"]
    assert json.loads(run(command).stdout) == again


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        ((), 2, "give networks or a command, not both; "),
        (("--",), 2, "give networks or a command, not both; "),
        (("resnet18", "--", "true"), 2, "give networks or a command, not both; "),
        (("--metric", "(", "--", "true"), 2, "--metric '(' is not a regular expression: "),
        (("--", "no-such-program"), 127, "no-such-program: cannot be run: no such file or dir"),
        (("--", "./a-text"), 126, "./a-text: cannot be run: permission denied; "),
        (("--repeat", "1", "--metric", "(x)", "--", "true"), 1, "--metric '(x)' matches nothing "),
        (("--", "sh", "-c", "exit 3"), 3, "sh -c 'exit 3': ended with exit code 3; "),
        (("--", "sh", "-c", "kill -9 $$"), 137, "sh -c 'kill -9 $$': ended with exit code 137; "),
    ],
)
def test_what_cannot_be_measured_is_one_line(
    words: tuple[str, ...], code: int, line: str, tmp_path: Path
) -> None:
    (tmp_path / "a-text").touch(mode=0o600)
    done = run(measure(tmp_path, *words), cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"mansard: {line}")
    assert "Traceback" not in done.stderr
    # What failed is measured anew by the next command.
    assert finished(tmp_path) == 0


def test_a_program_has_the_terminal(tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    program = (
        "import sys, termios; settings = termios.tcgetattr(0); "
        "termios.tcsetattr(0, termios.TCSANOW, settings); "
        "sys.exit(not all(map(lambda one: one.isatty(), (sys.stdin, sys.stdout))))"
    )
    command = measure(tmp_path, "--repeat", "1", "--", sys.executable, "-S", "-c", program)
    process = subprocess.Popen(
        command,
        stdin=follower,
        stdout=follower,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    os.close(follower)
    _, said = process.communicate(timeout=300)
    os.close(leader)
    assert process.returncode == 0, said


def test_modes_are_set_and_put_back_also_after_a_failure(board: Path, tmp_path: Path) -> None:
    found = snapshot(board)
    # It fails in the second mode, the first time.
    program = (
        f"cd {tmp_path}; test -e second && ! test -e third && touch third && exit 9; "
        "touch second; sleep 2"
    )
    words = ("--board", str(board), "--mode", "15W,30W", "--json", "--repeat", "1", "--")
    command = measure(tmp_path, *words, "sh", "-c", program)
    failed = run(command)
    assert failed.returncode == 9, failed.stderr
    assert snapshot(board) == found
    assert finished(tmp_path) == 1
    # The mode before is kept, and not measured again.
    done = run(command)
    assert done.returncode == 0, done.stderr
    assert "Measuring 15W" not in done.stderr
    assert "1 mode to measure" in done.stderr
    assert snapshot(board) == found
    in_modes = {one["mode"]["name"]: one for one in json.loads(done.stdout)["programs"]}
    assert in_modes.keys() == {"15W", "30W"}
    for one in in_modes.values():
        (once,) = one["run"]["repetitions"]
        assert once["wall_s"] >= 2
        # The rails of the module that are its total.
        assert {rail["rail"] for rail in once["energy"]["rails"]} >= {"VDD_GPU_SOC", "VDD_CPU_CV"}
        if once["energy"]["total_j"] is None:
            assert is_unread(once["energy"]["unknown"]["total_j"]), once["energy"]
        else:
            assert 2 < once["energy"]["total_j"] / once["wall_s"] <= once["peak_w"] < 80
        assert one["run"]["conditions"]["cpu_clock_hz"]["high"] <= one["mode"]["cpu_hz"]


# Runs a command in a terminal of its own; what is written to its input is typed there.
IN_TERMINAL = [
    *(sys.executable, "-c"),
    "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))",
]


def start_sleeping(
    board: Path, tmp_path: Path, start: Start, *, in_terminal: bool = False
) -> subprocess.Popen[str]:
    """A command whose program sleeps for long, in a mode that was set, once it does."""
    ready = tmp_path / "ready"
    program = f"trap 'echo asked; sleep 0.2; exit 0' INT; touch {ready}; sleep 1000 & wait"
    words = ("--board", str(board), "--mode", "15W", "--", "sh", "-c", program)
    command = [*(IN_TERMINAL if in_terminal else []), *measure(tmp_path, *words)]
    process = start(command, start_new_session=True, stdin=subprocess.PIPE)
    assert awaited(ready.exists), process.communicate()
    return process


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
@pytest.mark.usefixtures("as_in_a_terminal")
def test_an_interrupt_ends_the_program_first_and_the_board_is_put_back(
    number: signal.Signals | None, board: Path, tmp_path: Path, start: Start
) -> None:
    found = snapshot(board)
    process = start_sleeping(board, tmp_path, start, in_terminal=number is None)
    assert snapshot(board) != found
    if number is None:
        assert process.stdin is not None
        process.stdin.write("\x03")  # Ctrl-C
        process.stdin.flush()
    else:
        process.send_signal(number)
    stdout, stderr = process.communicate(timeout=300)
    assert process.returncode == 130, stderr
    # It gets one signal, not that of the terminal and ours.
    assert stdout.count("asked") == 1
    assert ": interrupted; " in stdout + stderr  # "mansard" before it is in colour on a terminal
    assert snapshot(board) == found
    assert finished(tmp_path) == 0


def test_after_sigkill_the_program_ends_and_the_next_command_puts_the_board_back(
    board: Path, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    found = snapshot(board)
    process = start_sleeping(board, tmp_path, start)
    process.kill()
    _, stderr = process.communicate(timeout=300)
    assert "Traceback" not in stderr
    assert snapshot(board) != found

    def is_alone() -> bool:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        return False

    assert awaited(is_alone)
    done = run(measure(tmp_path, "--board", str(board), "--repeat", "1", "--", "true"))
    assert done.returncode == 0, done.stderr
    assert snapshot(board) == found
    assert list(temporary.iterdir()) == []


def test_a_measurement_in_a_measurement_is_refused(tmp_path: Path) -> None:
    inner = measure(tmp_path, "--", "true")
    done = run(measure(tmp_path, "--repeat", "1", "--", *inner))
    assert done.returncode == 2
    assert "this runs inside a program that is being measured" in done.stderr


def test_llama_bench_tells_its_tests(tmp_path: Path) -> None:
    """A script of that name, which prints what the real one prints with -o json."""
    tests = [
        {"n_prompt": 512, "n_gen": 0, "n_depth": 0, "avg_ts": 100.5},
        {"n_prompt": 0, "n_gen": 128, "n_depth": 0, "avg_ts": 20.25},
    ]
    script = tmp_path / "llama-bench"
    script.write_text(f"#!/bin/sh\necho loading >&2\ncat <<END\n{json.dumps(tests)}\nEND\n")
    script.chmod(0o755)
    words = ("--json", "--repeat", "2", "--name", "bench", "--", str(script), "-o", "json")
    done = run(measure(tmp_path, *words))
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["programs"]
    for one in found["run"]["repetitions"]:
        assert one["figures"] == {"pp512": 100.5, "tg128": 20.25}
    rows = [(row["workload"], row["metric"], row["n_runs"]) for row in found["times"]]
    assert rows == [("bench", None, 2), ("bench [pp512]", 100.5, 2), ("bench [tg128]", 20.25, 2)]
    assert found["times"][2]["unknown"]["energy_j"] == "llama-bench times its tests itself"
    # Two streams through two pipes: their order is not kept.
    assert done.stderr.splitlines().count(json.dumps(tests)) == 2
    shown = run(measure(tmp_path, *words[1:])).stderr
    assert "bench [tg128]" in shown
    assert "20.25" in shown
