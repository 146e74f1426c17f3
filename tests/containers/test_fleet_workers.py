"""Boards side by side: one that fails does not stop the others, a Ctrl-C stops all of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mansard.containers.fleet import BoardWorker, Fleet, Message, run_fleet
from mansard.containers.hosts import Host
from mansard.core.errors import DeviceError, UsageError
from mansard.device.identity import identify
from mansard.simulator import create_board, snapshot
from tests.waiting import awaited

PATIENCE_S = 300


def hosts(*names: str) -> list[Host]:
    return [Host(name=name, ssh=name) for name in names]


def run(bench: Any, *names: str) -> tuple[Fleet[Any], list[Message]]:
    said: list[Message] = []
    return run_fleet(hosts(*names), bench, said.append), said


def test_all_boards_work_at_once_and_their_words_come_one_by_one() -> None:
    together = threading.Barrier(3)  # passed only if all three run at the same time
    threads = set()

    def bench(worker: BoardWorker) -> str:
        together.wait(PATIENCE_S)
        worker.send(f"I am {worker.host.ssh}")
        return worker.name.upper()

    def listen(said: Message) -> None:
        threads.add(threading.current_thread())
        words.append((said.board, said.payload))

    words: list[tuple[str, str]] = []
    fleet = run_fleet(hosts("a", "b", "c"), bench, listen)
    assert fleet.results == {"a": "A", "b": "B", "c": "C"}
    assert sorted(words) == [("a", "I am a"), ("b", "I am b"), ("c", "I am c")]
    assert threads == {threading.current_thread()}
    fleet.check()


def test_one_that_fails_does_not_stop_the_others_and_is_reported_at_the_end() -> None:
    failed = threading.Event()

    def bench(worker: BoardWorker) -> str:
        if worker.name == "b":
            try:
                raise UsageError("unknown power mode '99W'", fix="it has 15W")
            finally:
                failed.set()
        assert failed.wait(PATIENCE_S)
        worker.send("still here")
        return "measured"

    fleet, said = run(bench, "a", "b", "c")
    assert fleet.results == {"a": "measured", "c": "measured"}
    assert {one.board for one in said} == {"a", "c"}
    expected = "1 of 3 boards failed: b: unknown power mode '99W'; it has 15W"
    with pytest.raises(DeviceError, match=expected) as caught:
        fleet.check()
    assert caught.value.exit_code == 1


def test_what_is_no_error_of_ours_is_raised_after_the_others_have_ended() -> None:
    broken, ended = threading.Event(), []

    def bench(worker: BoardWorker) -> None:
        if worker.name == "a":
            broken.set()
            raise ZeroDivisionError
        assert broken.wait(PATIENCE_S)
        ended.append(worker.name)

    with pytest.raises(ZeroDivisionError):
        run(bench, "a", "b")
    assert ended == ["b"]


def test_two_names_of_one_board_are_found_out(tmp_path: Path) -> None:
    board = identify(create_board("agx-orin", tmp_path))
    nameless = msgspec.structs.replace(
        board, machine_hash=None, unknown={**board.unknown, "machine_hash": "it has none"}
    )
    claimed = threading.Barrier(3)

    def bench(worker: BoardWorker) -> str:
        try:
            worker.claim(board if worker.name != "c" else nameless)
        finally:
            claimed.wait(PATIENCE_S)
        worker.claim(board if worker.name != "c" else nameless)  # its own it may claim again
        return "measured"

    fleet, _ = run(bench, "a", "b", "c")
    assert fleet.results.keys() | fleet.errors.keys() == {"a", "b", "c"}
    ((loser, error),) = fleet.errors.items()
    winner = {"a": "b", "b": "a"}[loser]
    assert f"{loser}: it is the same machine as {winner}" in str(error)


def test_an_interrupt_stops_every_board_and_waits_for_it() -> None:
    ready, stopped, ended = threading.Barrier(3), [], []

    def bench(worker: BoardWorker) -> None:
        waiting = threading.Event()

        def gone() -> None:  # it cannot be stopped, which shows after the bench has ended
            time.sleep(0.2)
            raise OSError

        def stop_container() -> None:
            stopped.append((worker.name, "container"))
            waiting.set()

        worker.on_stop(partial(stopped.append, (worker.name, "board controller")))
        worker.on_stop(gone)
        worker.on_stop(stop_container)
        worker.send("ready")
        ready.wait(PATIENCE_S)
        assert waiting.wait(PATIENCE_S)
        with pytest.raises(KeyboardInterrupt):
            worker.send("a later mode")
        ended.append(worker.name)
        worker.check()

    def listen(said: Message) -> None:
        heard.append(said.board)
        if len(heard) == 2:
            ready.wait(PATIENCE_S)
            raise KeyboardInterrupt

    heard: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run_fleet(hosts("a", "b"), bench, listen)
    assert sorted(ended) == ["a", "b"]
    for name in "ab":  # the last one first
        assert [what for who, what in stopped if who == name] == ["container", "board controller"]


def test_a_board_that_does_not_stop_is_not_waited_for_for_ever() -> None:
    forever, started = threading.Event(), threading.Event()

    def bench(worker: BoardWorker) -> None:
        worker.send("started")
        started.set()
        forever.wait()

    def listen(said: Message) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_fleet(hosts("a"), bench, listen, stop_s=0.4)
    assert started.is_set()
    forever.set()


PROGRAM = """
import sys
from pathlib import Path
from mansard.containers.fleet import run_fleet
from mansard.containers.hosts import Host
from mansard.core.processes.programs import turn_signals_into_interrupts
from tests.device.controller_process import controller_process
from mansard.device.controller.remote import remote_controller

def bench(worker):
    with controller_process(Path(worker.host.root)) as channel:
        with remote_controller(channel, worker.name) as controller:
            worker.on_stop(controller.end)
            with controller.hold() as held:
                held.set(controller.choose_modes("gpu=612MHz,cores=4")[0])
                worker.send("set")
                while True:  # for ever, each in its turn
                    controller.identify()

turn_signals_into_interrupts()
hosts = [Host(name=root, root=root) for root in sys.argv[1:]]
try:
    run_fleet(hosts, bench, lambda said: print(said.payload, flush=True))
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_whatever_ends_a_fleet_every_board_is_put_back(tmp_path: Path, how: signal.Signals) -> None:
    boards = [create_board(name, tmp_path) for name in ("agx-orin", "orin-nano-super")]
    before = [snapshot(board) for board in boards]
    command = [sys.executable, "-c", PROGRAM, *map(str, boards)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as fleet:
        assert fleet.stdout is not None
        assert [fleet.stdout.readline() for _ in boards] == ["set\n", "set\n"]
        assert all(snapshot(board) != found for board, found in zip(boards, before, strict=True))
        os.kill(fleet.pid, how)
        rest = fleet.stdout.read()
    assert rest == ("" if how == signal.SIGKILL else "stopped\n")
    if how == signal.SIGKILL:  # their controllers put the boards back by themselves
        journals = [board / "var/lib/mansard/journal.json" for board in boards]
        assert awaited(lambda: not any(journal.exists() for journal in journals))
    assert [snapshot(board) for board in boards] == before
