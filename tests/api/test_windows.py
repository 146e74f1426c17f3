"""``mansard.api.window``: by itself with a simulated board's meters, and inside a measurement."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mansard import api
from mansard.core.errors import UsageError
from mansard.inference.programs.windows import read_windows
from mansard.simulator import create_board, running, set_load
from tests.measuring.metered_windows import is_unread


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running(create_board("agx-orin", tmp_path_factory.mktemp("board"))) as root:
        set_load(root, cpu=0.5, gpu=0.5)
        yield root


def read_throughout(make: Callable[[], list[api.window]]) -> list[api.window]:
    """Windows whose sensors were read throughout: made again where a busy machine let them wait."""
    for _ in range(20):
        found = make()
        if not any(is_unread(one.unknown.get("energy_j", "")) for one in found):
            return found
    pytest.skip("this machine is too busy to read a sensor for a second")


def nested(board: Path) -> list[api.window]:
    with api.window("outer", board) as outer:
        time.sleep(0.3)
        with api.window("inner", board) as inner:
            time.sleep(2)
    return [outer, inner]


@pytest.mark.parametrize("board", ["no-such-folder", 5, b"x", __file__, ""])
def test_a_board_that_is_no_folder_is_refused(board: object) -> None:
    with pytest.raises(UsageError, match="is not a folder; give the folder of a simulated board"):
        api.window("x", board)  # type: ignore[arg-type]


def test_a_board_may_be_a_text(board: Path) -> None:
    with api.window("x", str(board)) as one:
        pass
    assert one.time_s > 0


def test_nested_windows_have_their_time_and_energy(board: Path) -> None:
    outer, inner = read_throughout(lambda: nested(board))
    assert 2 <= inner.time_s <= outer.time_s - 0.3
    assert inner.energy_j is not None, inner.unknown
    assert outer.energy_j is not None, outer.unknown
    # A board at one load draws one power, but for noise and heat.
    assert outer.energy_j / outer.time_s == pytest.approx(inner.energy_j / inner.time_s, rel=0.1)
    assert outer.unknown == {}
    assert outer.energy is not None
    assert {rail.rail for rail in outer.energy.rails} >= {"VDD_GPU_SOC", "VDD_CPU_CV"}


def test_an_exception_ends_the_window_and_goes_on(board: Path) -> None:
    one = api.window("failing", board)
    with pytest.raises(ValueError, match="ours"), one:
        raise ValueError("ours")
    assert 0 < one.start_ns < one.end_ns
    # No sensor changes often enough in so short a time, unless a busy machine made it long.
    assert one.energy_j is not None or "not measurable" in one.unknown["energy_j"]


def in_threads(board: Path) -> list[api.window]:
    found: list[api.window] = []

    def work(number: int) -> None:
        with api.window(f"thread {number}", board) as one:
            time.sleep(2)
        found.append(one)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_threads_have_windows_of_their_own(board: Path) -> None:
    found = read_throughout(lambda: in_threads(board))
    assert len({one.name for one in found}) == 8
    assert all(one.energy_j for one in found), [one.unknown for one in found]


def test_a_window_that_has_not_ended_has_no_energy(board: Path) -> None:
    one = api.window("open", board)
    assert one.time_s == 0
    with one:
        assert one.time_s > 0
        assert one.energy_j is None
        assert one.unknown["energy_j"] == "the window has not ended"


def test_a_forked_worker_measures_too(board: Path) -> None:
    program = f"""
import os, time
from pathlib import Path
from mansard import api
board = Path({str(board)!r})
with api.window("before", board) as before:
    child = os.fork()
    if child == 0:
        with api.window("worker", board) as one:
            time.sleep(2)
        # A busy machine may let the sampler wait for too long.
        is_known = one.energy_j or "reading" in one.unknown["energy_j"]
        os._exit(0 if is_known and before.end_ns == 0 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_without_a_meter_the_reason_is_told(tmp_path: Path) -> None:
    program = """
from mansard import api
with api.window("one") as one:
    pass
print(one.time_s > 0, one.energy_j, one.unknown["energy_j"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    if done.stdout.startswith("True None no meter"):
        assert done.stderr == ""
    else:  # a machine with a meter: it changes too seldom in no time
        assert done.stdout.startswith("True None not measurable")


def test_readings_that_no_window_needs_are_dropped(board: Path) -> None:
    with api.window("first", board) as first:
        time.sleep(1.2)  # the thread, which looks once a second, sees it open
    meter, begin_s = first._meter, first.start_ns / 1e9
    assert meter is not None
    del first
    end_s = time.monotonic() + 60
    # Readings of the last second stay, and more until the next look.
    while meter._sampler.samples[0].monotonic_s < begin_s + 0.5 and time.monotonic() < end_s:
        time.sleep(0.1)
    assert meter._sampler.samples[0].monotonic_s >= begin_s + 0.5


def windows_of(program: str, tmp_path: Path) -> dict[str, list[float]]:
    """Lengths of the windows of a program that is measured, by their names."""
    script = tmp_path / "program.py"
    script.write_text(program)
    command = [sys.executable, "-m", "mansard.cli", "measure", "--runs", str(tmp_path / "runs")]
    options = ["--repeat", "1", "--profile", "brief", "--json", "--"]
    done = subprocess.run(
        [*command, *options, sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (once,) = json.loads(done.stdout)["programs"][0]["run"]["repetitions"]
    found: dict[str, list[float]] = {}
    for window in once["windows"]:
        found.setdefault(window["name"], []).append(window["window_s"])
    return found


def test_windows_of_workers_and_exceptions_cross_to_the_measurement(tmp_path: Path) -> None:
    program = """
import os, signal, sys, threading, time
from mansard import api

def work(name):
    with api.window(name):
        time.sleep(0.1)

with api.window("all") as all_of_it:
    threads = [threading.Thread(target=work, args=("thread",)) for _ in range(4)]
    for one in threads: one.start()
    for one in threads: one.join()
    if os.fork() == 0:
        work("worker")
        with api.window("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
    os.wait()
    try:
        with api.window("failing"):
            raise ValueError
    except ValueError:
        pass
    with api.window(3):
        pass
assert all_of_it.time_s > 0.2 and all_of_it.energy_j is None
assert "mansard measure" in all_of_it.unknown["energy_j"]
assert not set(sys.modules) & {"numpy", "mansard.device", "mansard.measuring"}
"""
    found = windows_of(program, tmp_path)
    assert {name: len(each) for name, each in found.items()} == {
        "all": 1,
        "thread": 4,
        "worker": 1,
        "failing": 1,
        "3": 1,
    }
    assert min(found["thread"] + found["worker"]) >= 0.1


def test_lines_of_many_writers_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "windows"
    path.touch()
    program = "from mansard import api\nfor i in range(2000):\n    with api.window(f'{i}'): pass\n"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program], env={**os.environ, "MANSARD_WINDOWS": str(path)}
        )
        for _ in range(3)
    ]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    found = read_windows(path)
    assert sorted(int(one.name) for one in found) == sorted([*range(2000)] * 3)
    assert path.read_bytes().count(b"\n") == len(found)


def test_a_program_that_closes_what_it_does_not_know_spoils_no_file(tmp_path: Path) -> None:
    program = f"""
import os
from mansard import api
with api.window("first"): pass
os.closerange(3, 100)
own = os.open({str(tmp_path / "own")!r}, os.O_WRONLY | os.O_CREAT)
with api.window("second"): pass
"""
    assert windows_of(program, tmp_path).keys() == {"first", "second"}
    assert (tmp_path / "own").read_bytes() == b""
