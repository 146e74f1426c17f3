"""For tests of the controller: one in a process of its own, and ways to end it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mansard.core.processes.line_channel import encode_line
from mansard.core.records import PowerMode
from mansard.device.controller.messages import HoldBoard, NumberedAsk, SetMode
from mansard.device.controller.remote import RemoteController, remote_controller
from mansard.device.holding.journal import find_journal
from tests.device.controller_process import ProcessChannel, controller_process
from tests.waiting import awaited


@contextmanager
def controller_of(root: Path) -> Iterator[RemoteController]:
    """A greeted controller of ``root`` in its own process."""
    with controller_process(root) as channel, remote_controller(channel, "bench-1") as controller:
        yield controller


def put(channel: ProcessChannel, *asks: HoldBoard | SetMode) -> None:
    """Ask, and do not wait for the answers."""
    for number, ask in enumerate(asks, start=100):
        channel.send(encode_line(NumberedAsk(number, ask)))


def is_held(root: Path) -> bool:
    return find_journal(root) is not None


def end(channel: ProcessChannel, how: str) -> int:
    """End the controller by a signal's name or by closing its questions; its exit code."""
    process = channel.process
    if how == "end of questions":
        assert process.stdin is not None
        process.stdin.close()
    else:
        os.kill(process.pid, getattr(signal, how))
    assert awaited(lambda: process.poll() is not None)
    return int(process.returncode)


def mode_of(controller: RemoteController, name: str) -> PowerMode:
    (mode,) = controller.choose_modes(name)
    return mode
