"""What the tests of the steward share: a steward in a process of its own, and ways to end it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mansard.core.line_channel import encode_line
from mansard.core.records import PowerMode
from mansard.device.holding.journal_store import find_journal
from mansard.device.steward.channel import ProcessChannel, steward_process
from mansard.device.steward.messages import HoldBoard, Question, SetMode
from mansard.device.steward.remote import RemoteSteward, remote_steward
from tests.simulator.simulator_bench import awaited


@contextmanager
def steward_of(root: Path) -> Iterator[RemoteSteward]:
    """A greeted steward of ``root`` in its own process."""
    with steward_process(root) as channel, remote_steward(channel, "bench-1") as steward:
        yield steward


def put(channel: ProcessChannel, *asks: HoldBoard | SetMode) -> None:
    """Ask, and do not wait for the answers."""
    for number, ask in enumerate(asks, start=100):
        channel.send(encode_line(Question(number, ask)))


def is_held(root: Path) -> bool:
    return find_journal(root) is not None


def end(channel: ProcessChannel, how: str) -> int:
    """End the steward by a signal's name or by closing its questions; its exit code."""
    process = channel.process
    if how == "end of questions":
        assert process.stdin is not None
        process.stdin.close()
    else:
        os.kill(process.pid, getattr(signal, how))
    assert awaited(lambda: process.poll() is not None)
    return int(process.returncode)


def mode_of(steward: RemoteSteward, name: str) -> PowerMode:
    (mode,) = steward.choose_modes(name)
    return mode
