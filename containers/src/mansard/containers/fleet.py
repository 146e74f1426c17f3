"""Several boards side by side: one worker for each, which runs the same sweep on its board.

Runs need no merging: each is a folder named by its run's id, in which machine and mode are
hashed, so all workers write into one folder of runs. Messages of the workers are handed to
the caller in its own thread, one after the other.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from mansard.containers.hosts import Host
from mansard.core.errors import DeviceError, MansardError, UsageError, moved
from mansard.core.records import MachineIdentity
from mansard.core.text import listed


@dataclass(frozen=True)
class Message:
    """From a worker to the caller; both agree on what its payload is."""

    board: str
    payload: Any


@dataclass(frozen=True)
class Ended:
    """A worker's end."""

    board: str
    result: Any = None
    error: BaseException | None = None


class Claims:
    """Which board has which machine: two names of one machine would disturb each other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._boards: dict[str, str] = {}

    def claim(self, machine_hash: str, board: str) -> None:
        """Take the machine for ``board``; raises UsageError that names the board which has it."""
        with self._lock:
            holder = self._boards.setdefault(machine_hash, board)
        if holder != board:
            raise UsageError(
                f"it is the same machine as {holder}, under another name",
                where=board,
                fix="name each board once; boards that were flashed from one image and have no "
                "serial number need a machine-id of their own: systemd-machine-id-setup",
            )


class BoardWorker:
    """The fleet as one bench sees it: its board, a way to report, and the signal to stop."""

    def __init__(
        self,
        host: Host,
        events: queue.SimpleQueue[Message | Ended],
        claims: Claims,
        stopping: threading.Event,
    ) -> None:
        self.host = host
        self.name = host.name
        self._events, self._claims, self._stopping = events, claims, stopping
        self._lock = threading.Lock()
        self._stops: list[Callable[[], object]] = []

    def send(self, payload: object) -> None:
        """Hand a message to the caller; raises KeyboardInterrupt once the fleet is to stop."""
        self.check()
        self._events.put(Message(self.name, payload))

    def check(self) -> None:
        """Raises KeyboardInterrupt once the fleet is to stop: call it between steps."""
        if self._stopping.is_set():
            raise KeyboardInterrupt

    def claim(self, machine: MachineIdentity) -> None:
        """Say which machine it is; raises UsageError if another board of the fleet is the same.

        A machine without serial number and machine-id cannot be identified, and passes.
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
        """Call every function given to ``on_stop``, the last one first."""
        while True:
            with self._lock:
                if not self._stops:
                    return
                stop = self._stops.pop()
            with contextlib.suppress(Exception):  # the worker itself meets what is wrong
                stop()

    def work(self, bench: Callable[[BoardWorker], object]) -> None:
        """Run the bench and report its end, whatever it is."""
        try:
            result = bench(self)
        except BaseException as error:  # it is raised in the caller's thread
            self._events.put(Ended(self.name, error=error))
        else:
            self._events.put(Ended(self.name, result=result))


Result = TypeVar("Result")
Bench = Callable[[BoardWorker], Result]
OnEvent = Callable[[Message], None]
_POLL_S = 0.2
_STOP_S = 180.0  # for all boards to be put back: nvpmodel may take a minute
_LAST_STOPS_S = 5.0  # for what is left to stop once all benches have ended


class Fleet(msgspec.Struct, Generic[Result], frozen=True):
    """The outcome of each board by its name: a result or an error."""

    results: Mapping[str, Result]
    errors: Mapping[str, MansardError]

    def check(self, done: str = "measured", again: str = "resumes") -> None:
        """Raises DeviceError that names the failed boards and why; for one board its own error.

        ``done`` is what the others are, ``again`` what the same command does with the rest:
        boards whose error is no UsageError, which the command would raise again.
        """
        if not self.errors:
            return
        n_boards = len(self.results) + len(self.errors)
        if n_boards == 1:
            raise _with_board_name(*next(iter(self.errors.items())))
        reasons = "; ".join(str(_with_board_name(*failure)) for failure in self.errors.items())
        lasting = [name for name, error in self.errors.items() if isinstance(error, UsageError)]
        left = [name for name in self.errors if name not in lasting]
        rest = listed(left) if lasting else "the rest"
        parts = [f"the others are {done}"] if self.results else []
        parts += [f"the same command {again} {rest}"] if left else []
        raise DeviceError(
            f"{len(self.errors)} of {n_boards} boards failed: {reasons}",
            fix="; ".join(parts) or None,
        )


def _with_board_name(name: str, error: MansardError) -> MansardError:
    """``error`` with its board's name, which a controller's errors have already."""
    where = error.where or ""
    if where.startswith(name):
        return error
    return moved(error, where=f"{name}: {where}" if where else name, fix=error.fix)


def run_fleet(
    hosts: Sequence[Host], bench: Bench[Result], on_event: OnEvent, *, stop_s: float = _STOP_S
) -> Fleet[Result]:
    """Do ``bench`` on every board at once; a board that fails does not stop the others.

    ``bench`` runs in a thread of its board's own; ``on_event`` in the caller's. A Ctrl-C (or
    what is turned into one) stops all workers, waits until their boards are put back, and is
    raised again; so is, after all others, whatever is no MansardError.
    """
    events: queue.SimpleQueue[Message | Ended] = queue.SimpleQueue()
    claims, stopping = Claims(), threading.Event()
    workers = [BoardWorker(host, events, claims, stopping) for host in hosts]
    gathered: _Gathered[Result] = _Gathered(workers, on_event)
    for worker in workers:
        # They are put back by their controllers, whatever becomes of this process.
        threading.Thread(target=worker.work, args=(bench,), name=worker.name, daemon=True).start()
    try:
        while gathered.running:
            gathered.take(events, _POLL_S)
    except BaseException:  # Ctrl-C, and what on_event raises
        _stop(workers, gathered, events, stopping, stop_s)
        raise
    return gathered.fleet()


def _stop(
    workers: Sequence[BoardWorker],
    gathered: _Gathered[Result],
    events: queue.SimpleQueue[Message | Ended],
    stopping: threading.Event,
    stop_s: float,
) -> None:
    stopping.set()
    # In threads: a board that is gone must not keep the others waiting.
    stops = [
        threading.Thread(target=worker.stop, daemon=True)
        for worker in workers
        if worker.name in gathered.running
    ]
    for stop in stops:
        stop.start()
    n_polls = int(stop_s / _POLL_S)
    for _ in range(n_polls):
        if not gathered.running:
            break
        gathered.take(events, _POLL_S)
    # A bench may end with the first of its stops: the others are not to be cut off.
    end_s = time.monotonic() + _LAST_STOPS_S
    for stop in stops:
        stop.join(max(0.0, end_s - time.monotonic()))


class _Gathered(Generic[Result]):
    """The outcomes of the boards so far."""

    def __init__(self, workers: Sequence[BoardWorker], on_event: OnEvent) -> None:
        self.running = {worker.name for worker in workers}
        self._on_event = on_event
        self._names = tuple(worker.name for worker in workers)
        self._ended: dict[str, Ended] = {}

    def take(self, events: queue.SimpleQueue[Message | Ended], timeout_s: float) -> None:
        """Take the next event, if there is one within the time."""
        try:
            event = events.get(timeout=timeout_s)
        except queue.Empty:
            return
        if isinstance(event, Ended):
            self._ended[event.board] = event
            self.running.discard(event.board)
        else:
            self._on_event(event)

    def fleet(self) -> Fleet[Result]:
        """All of it, in the order of the boards; raises any error that is not a MansardError."""
        results: dict[str, Result] = {}
        errors: dict[str, MansardError] = {}
        for name in self._names:
            ended = self._ended[name]
            if ended.error is None:
                results[name] = ended.result
            elif isinstance(ended.error, MansardError):
                errors[name] = ended.error
            else:
                raise ended.error
        return Fleet(results, errors)
