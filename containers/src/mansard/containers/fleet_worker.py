"""One board of a fleet: what its worker says, and how it is stopped."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mansard.containers.hosts import Host
from mansard.core.errors import UsageError
from mansard.core.records import MachineIdentity


@dataclass(frozen=True)
class Said:
    """A worker's word to the caller: a line, or whatever it and the caller agree on."""

    board: str
    word: Any


@dataclass(frozen=True)
class Ended:
    """A worker's end."""

    board: str
    result: Any = None
    error: BaseException | None = None


class Claims:
    """Which machine is whose: two names of one board would disturb each other's measurements."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._boards: dict[str, str] = {}

    def claim(self, machine_hash: str, board: str) -> None:
        """Take the machine for ``board``; raises UsageError that names who has it."""
        with self._lock:
            holder = self._boards.setdefault(machine_hash, board)
        if holder != board:
            raise UsageError(
                f"it is the same machine as {holder}, under another name",
                where=board,
                fix="name each board once; boards that were flashed from one image and have no "
                "serial number need a machine-id of their own: systemd-machine-id-setup",
            )


class Worker:
    """What a bench gets of its fleet: its board, a voice, and the word when to stop."""

    def __init__(
        self,
        host: Host,
        events: queue.SimpleQueue[Said | Ended],
        claims: Claims,
        stopping: threading.Event,
    ) -> None:
        self.host = host
        self.name = host.name
        self._events, self._claims, self._stopping = events, claims, stopping
        self._lock = threading.Lock()
        self._stops: list[Callable[[], object]] = []

    def say(self, word: object) -> None:
        """Hand a word to the caller; raises KeyboardInterrupt once the fleet is to stop."""
        self.check()
        self._events.put(Said(self.name, word))

    def check(self) -> None:
        """Raises KeyboardInterrupt once the fleet is to stop: call it between steps."""
        if self._stopping.is_set():
            raise KeyboardInterrupt

    def claim(self, machine: MachineIdentity) -> None:
        """Say which machine it is; raises UsageError if another board of the fleet is the same.

        What tells no serial number and no machine-id cannot be told apart, and is let through.
        """
        if machine.machine_hash is not None:
            self._claims.claim(machine.machine_hash, self.name)

    def on_stop(self, stop: Callable[[], object]) -> None:
        """Have ``stop`` called, by another thread, when the fleet is to stop; the last one first.

        It ends what the worker may be waiting for: a container, the controller.
        """
        with self._lock:
            self._stops.append(stop)
        self.check()

    def stop(self) -> None:
        """Do all that was given to ``on_stop``, one after the other."""
        while True:
            with self._lock:
                if not self._stops:
                    return
                stop = self._stops.pop()
            with contextlib.suppress(Exception):  # the worker itself meets what is wrong
                stop()

    def work(self, bench: Callable[[Worker], object]) -> None:
        """Do the bench and tell its end, whatever it is."""
        try:
            result = bench(self)
        except BaseException as error:  # it is raised in the caller's thread
            self._events.put(Ended(self.name, error=error))
        else:
            self._events.put(Ended(self.name, result=result))
