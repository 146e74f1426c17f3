"""When a stage may begin, how its outputs reach the next stage, and how its time is spent.

A stage begins at once, when its device is free, or at its turn of a schedule. The next stage of its
network runs in another thread or process. All stages count within the same window of time.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, MutableSequence, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
import numpy as np

from mansard.inference.inputs import numpy_name
from mansard.inference.npz import Array
from mansard.inference.plan import InputSpec

Doing = Literal["inference", "transfer", "input_wait", "device_wait", "output_wait"]
_MOST_LATENCIES = 1000  # of a network: of more runs every second, fourth, …


class CountedWindow:
    """The window of time in which runs count; it has not begun until its ends are set.

    ``ends``: its start and end by the monotonic clock, which all processes share.
    """

    def __init__(self, ends: MutableSequence[float]) -> None:
        self._ends = ends

    def open(self, start_s: float, seconds_s: float) -> None:
        """Start the window at ``start_s``, a time in the future."""
        self._ends[1] = start_s + seconds_s
        self._ends[0] = start_s

    def abandon(self) -> None:
        """End the window early: all workers stop."""
        self._ends[1] = -math.inf

    def is_over(self) -> bool:
        """Whether the window has ended."""
        return time.monotonic() >= self._ends[1]

    def overlap_s(self, from_s: float, to_s: float) -> float:
        """How much of a period lies in the window."""
        return max(0.0, min(to_s, self._ends[1]) - max(from_s, self._ends[0]))

    def holds(self, at_s: float) -> bool:
        return bool(self._ends[0] <= at_s <= self._ends[1])


class StageTotals(msgspec.Struct):
    """Time and runs of one stage within the window."""

    n_runs: int = 0
    inference_s: float = 0.0
    transfer_s: float = 0.0
    input_wait_s: float = 0.0
    device_wait_s: float = 0.0
    output_wait_s: float = 0.0


class Tally:
    """The time of one worker, in laps without gaps."""

    def __init__(
        self, window: CountedWindow, n_stages: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._window, self._clock = window, clock
        self.stages = [StageTotals() for _ in range(n_stages)]
        self.latency_s: list[float] = []
        self._n_ended, self._each = 0, 1
        self.now_s = clock()

    def lap(self, stage: int, doing: Doing) -> None:
        """Count the time since the last lap for a stage, as far as it lies in the window."""
        before_s, self.now_s = self.now_s, self._clock()
        spent_s = self._window.overlap_s(before_s, self.now_s)
        if spent_s:
            totals = self.stages[stage]
            name = f"{doing}_s"
            setattr(totals, name, getattr(totals, name) + spent_s)

    def end_stage(self, stage: int) -> None:
        """Count a run of a stage that ended in the window."""
        self.stages[stage].n_runs += self._window.holds(self.now_s)

    def end_network(self, began_s: float) -> None:
        """Count a run of the whole network that began at ``began_s``."""
        if not self._window.holds(self.now_s):
            return
        if self._n_ended % self._each == 0:
            self.latency_s.append(self.now_s - began_s)
        self._n_ended += 1
        if len(self.latency_s) > _MOST_LATENCIES:
            self.latency_s, self._each = self.latency_s[::2], 2 * self._each


Step: TypeAlias = tuple[int, int]  # a network and its stage
POLL_S = 0.05  # between two checks whether the window is over


def acquired(semaphore: Any, window: CountedWindow) -> bool:
    """Acquire a semaphore of threads or processes; False: the window is over."""
    while not semaphore.acquire(timeout=POLL_S):
        if window.is_over():
            return False
    return True


class Gate(Protocol):
    """Decides when a stage may run on its device."""

    def enter(self, step: Step, asked_s: float) -> float | None:
        """Wait until the stage may begin; it has been ready since ``asked_s``.

        Returns the time at which a run begins with this stage; None: the window is over.
        """

    def leave(self, step: Step) -> None:
        """End the stage's turn."""


class Queue:
    """Of a device that runs one stage at a time: first come, first served.

    With a semaphore, a thread that returns at once could overtake waiting ones. ``tickets``: how
    many were drawn, and how many are done; ``changed``: a condition of threads or processes.
    """

    def __init__(self, tickets: MutableSequence[int], changed: Any) -> None:
        self._tickets, self._changed = tickets, changed

    def enter(self, window: CountedWindow) -> bool:
        """Wait for the stage's turn; False: the window is over."""
        with self._changed:
            ticket = self._tickets[0]
            self._tickets[0] += 1
            while self._tickets[1] != ticket:
                self._changed.wait(POLL_S)
                if window.is_over():
                    return False
        return True

    def leave(self) -> None:
        with self._changed:
            self._tickets[1] += 1
            self._changed.notify_all()


class OpenGate:
    """Every stage begins at once, except on devices that have a queue in ``queues``."""

    def __init__(
        self, window: CountedWindow, devices: Mapping[Step, str], queues: Mapping[str, Queue]
    ):
        self._window, self._devices, self._queues = window, devices, queues

    def enter(self, step: Step, asked_s: float) -> float | None:
        queue = self._queues.get(self._devices[step])
        if self._window.is_over() or (queue is not None and not queue.enter(self._window)):
            return None
        return asked_s

    def leave(self, step: Step) -> None:
        queue = self._queues.get(self._devices[step])
        if queue is not None:
            queue.leave()


class Turns:
    """Each device runs its stages in the order of a schedule, round after round.

    ``has_rounds``: a round begins when every stage of the last has ended. For threads only.
    """

    def __init__(
        self,
        window: CountedWindow,
        devices: Mapping[Step, str],
        turns: Sequence[Step],
        *,
        has_rounds: bool,
    ) -> None:
        self._window, self._devices, self._has_rounds = window, devices, has_rounds
        self._changed = threading.Condition()
        self._n_per_round = Counter(devices[step] for step in turns)
        seen: Counter[str] = Counter()
        self._place: dict[Step, int] = {}
        for step in turns:
            self._place[step] = seen[devices[step]]
            seen[devices[step]] += 1
        self._n_done: Counter[str] = Counter()  # of each device
        self._n_entered: Counter[Step] = Counter()
        self._began_s = time.monotonic()
        self.round_s: list[float] = []  # of rounds within the window

    def enter(self, step: Step, asked_s: float) -> float | None:
        with self._changed:
            is_due = self._due(step)
            while not self._changed.wait_for(is_due, POLL_S):
                if self._window.is_over():
                    return None
            if self._window.is_over():
                return None
            self._n_entered[step] += 1
            return self._began_s if self._has_rounds else asked_s

    def _due(self, step: Step) -> Callable[[], bool]:
        device, n_rounds = self._devices[step], self._n_entered[step]
        n_before = n_rounds * self._n_per_round[device] + self._place[step]
        n_all = n_rounds * len(self._place) if self._has_rounds else 0
        return lambda: self._n_done[device] == n_before and self._n_done.total() >= n_all

    def leave(self, step: Step) -> None:
        with self._changed:
            self._n_done[self._devices[step]] += 1
            if self._has_rounds and self._n_done.total() % len(self._place) == 0:
                began_s, self._began_s = self._began_s, time.monotonic()
                if self._window.holds(began_s) and self._window.holds(self._began_s):
                    self.round_s.append(self._began_s - began_s)
            self._changed.notify_all()


DEPTH = 2  # runs queued between two stages at most


class Link(Protocol):
    """A queue of a stage's inputs. Waiting and copying are separate, so that each is timed."""

    def reserve(self, window: CountedWindow) -> bool:
        """Wait for room; False: the window is over."""

    def put(self, arrays: Mapping[str, Array], began_s: float) -> None:
        """Hand over the arrays of a run, and when it began."""

    def wait(self, window: CountedWindow) -> bool:
        """Wait for arrays; False: the window is over."""

    def get(self) -> tuple[Mapping[str, Array], float]:
        """The arrays of a run, and when it began."""


class ThreadLink:
    """Between threads: nothing is copied. ``context``: makes its semaphores."""

    def __init__(self, context: Any) -> None:
        self._free, self._filled = context.Semaphore(DEPTH), context.Semaphore(0)
        self._held: deque[tuple[Mapping[str, Array], float]] = deque()

    def reserve(self, window: CountedWindow) -> bool:
        return acquired(self._free, window)

    def put(self, arrays: Mapping[str, Array], began_s: float) -> None:
        self._held.append((arrays, began_s))
        self._filled.release()

    def wait(self, window: CountedWindow) -> bool:
        return acquired(self._filled, window)

    def get(self) -> tuple[Mapping[str, Array], float]:
        handed = self._held.popleft()
        self._free.release()
        return handed


class MemoryLink:
    """Between processes: each array is copied into shared memory, and out of it.

    ``specs``: of what the next stage is fed.
    """

    def __init__(self, context: Any, specs: Sequence[InputSpec]) -> None:
        self._free, self._filled = context.Semaphore(DEPTH), context.Semaphore(0)
        self._specs, self._n_put, self._n_got = tuple(specs), 0, 0
        n_bytes = [int(np.prod(spec.shape)) * _dtype(spec).itemsize for spec in specs]
        # Anonymous shared memory: nothing is left behind however the processes end.
        self._arrays = [[context.RawArray("b", max(1, n)) for n in n_bytes] for _ in range(DEPTH)]
        self._began_s = context.RawArray("d", DEPTH)

    def reserve(self, window: CountedWindow) -> bool:
        return acquired(self._free, window)

    def put(self, arrays: Mapping[str, Array], began_s: float) -> None:
        slot = self._n_put % DEPTH
        for spec, place in zip(self._specs, self._arrays[slot], strict=True):
            self._view(spec, place)[...] = arrays[spec.name]
        self._began_s[slot] = began_s
        self._n_put += 1
        self._filled.release()

    def wait(self, window: CountedWindow) -> bool:
        return acquired(self._filled, window)

    def get(self) -> tuple[Mapping[str, Array], float]:
        slot = self._n_got % DEPTH
        pairs = zip(self._specs, self._arrays[slot], strict=True)
        arrays = {spec.name: self._view(spec, place).copy() for spec, place in pairs}
        began_s = self._began_s[slot]
        self._n_got += 1
        self._free.release()
        return arrays, began_s

    def _view(self, spec: InputSpec, place: Any) -> Array:
        count = int(np.prod(spec.shape))
        view: Array = np.frombuffer(place, _dtype(spec), count).reshape(spec.shape)
        return view


def _dtype(spec: InputSpec) -> np.dtype[Any]:
    return np.dtype(numpy_name(spec.type_name))
