"""Threads or processes that each run stages of one network, until the window is over."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Collection, Mapping, MutableSequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mansard.core.errors import MansardError
from mansard.core.processes.programs import how_it_ended
from mansard.core.text import cpu_list
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import LoadedNetwork
from mansard.inference.inputs import make_inputs
from mansard.inference.memory import PeakMemory
from mansard.inference.multi.gates import CountedWindow, Gate, Link, StageTotals, Tally, Turns
from mansard.inference.multi.mappings import PLACEMENT_OF, is_cpu
from mansard.inference.npz import Array
from mansard.inference.plan import MultiStage

_LIBC = ctypes.CDLL(None, use_errno=True)
_PARENT_POLL_S = 0.5
_GRACE_S = 60.0


class Outcome(msgspec.Struct):
    """What one worker ran in the window, or why it failed."""

    stages: list[StageTotals]
    latency_s: list[float]  # of runs of the network, where its last stage is here
    options: dict[str, str]  # of the engines
    memory_bytes: int | None = None  # of a process of its own
    failure: str = ""


@dataclass(frozen=True)
class Worker:
    """Stages of one network that follow one another, run in turn by one thread or process.

    ``cpus``: of each stage. ``source``: where the first one's input comes from, ``sink``: where
    the last one's output goes; None: the network begins or ends here.
    """

    number: int
    network: int
    first_stage: int
    stages: tuple[MultiStage, ...]
    cpus: tuple[tuple[int, ...], ...]
    folder: Path
    seed: int
    source: Link | None
    sink: Link | None

    @property
    def title(self) -> str:
        """The network and its devices, in words."""
        first = self.stages[0].network
        devices = ", ".join(stage.device for stage in self.stages)
        return f"{first.part.whole or first.model} on {devices}"


@dataclass(frozen=True)
class SharedState:
    """State that all workers of a run share."""

    ends: MutableSequence[float]  # of the window
    n_runs: MutableSequence[int]  # of each worker, since it began
    loading: Any  # a lock: networks are loaded one after the other

    @property
    def window(self) -> CountedWindow:
        return CountedWindow(self.ends)


@dataclass(frozen=True)
class _Loaded:
    """A loaded stage. Inputs that are in the host's memory already are not copied."""

    network: LoadedNetwork
    names: tuple[str, ...]  # of its inputs
    cpus: tuple[int, ...]
    is_fed: bool
    is_fetched: bool


def work(worker: Worker, shared: SharedState, gate: Gate) -> Outcome:
    """Run the worker's stages until the window is over; a failure ends all workers."""
    window, options = shared.window, dict[str, str]()
    tally = Tally(window, len(worker.stages))
    failure = ""
    try:
        with ExitStack() as stack:
            with shared.loading:
                loaded, arrays = _load(worker, stack, options)
            _serve(worker, shared, gate, loaded, arrays, tally)
    except (MansardError, OSError) as error:
        failure = f"{worker.title}: {error}"
    except MemoryError:
        failure = f"{worker.title}: too little memory"
    except BaseException as error:  # else the other workers would wait for it
        failure = f"{worker.title}: {type(error).__name__}: {error}"
    if failure:
        window.abandon()
    return Outcome(tally.stages, tally.latency_s, options, failure=failure)


def _load(
    worker: Worker, stack: ExitStack, options: dict[str, str]
) -> tuple[list[_Loaded], Mapping[str, Array]]:
    """The loaded stages, and the arrays for the first one where no other worker feeds it."""
    loaded: list[_Loaded] = []
    arrays: Mapping[str, Array] = {}
    for number, (stage, cpus) in enumerate(zip(worker.stages, worker.cpus, strict=True)):
        move_to(cpus)  # this thread, and those that the engine starts
        spec = stage.network
        inputs = make_inputs(spec, worker.folder, worker.seed)
        arrays = arrays or inputs
        threads = spec.n_threads or len(cpus)
        network = find_engine(spec.engine).load(spec, worker.folder, inputs, threads)
        stack.callback(network.close)
        settings = dict(network.options)
        if placement := settings.pop("dla_placement", ""):
            options[f"{PLACEMENT_OF}{spec.model}"] = placement
        options |= {f"{spec.engine} {name}": value for name, value in settings.items()}
        begins = number == 0 and worker.source is None
        ends = number == len(worker.stages) - 1 and worker.sink is None
        loaded.append(
            _Loaded(
                network,
                tuple(fed.name for fed in spec.input_specs),
                cpus,
                is_fed=not (begins and is_cpu(stage.device)),
                is_fetched=not (ends and is_cpu(stage.device)),
            )
        )
    return loaded, arrays


def _serve(
    worker: Worker,
    shared: SharedState,
    gate: Gate,
    loaded: list[_Loaded],
    constants: Mapping[str, Array],
    tally: Tally,
) -> None:
    """Run the stages repeatedly, until the window is over."""
    window, source, sink = shared.window, worker.source, worker.sink
    while True:
        arrays, began_s = constants, None
        if source is not None:
            if not source.wait(window):
                return tally.lap(0, "input_wait")
            tally.lap(0, "input_wait")
            arrays, began_s = source.get()
            tally.lap(0, "transfer")
        ran = _run_stages(worker, gate, loaded, arrays, tally)
        if ran is None:
            return None
        began_s = ran.began_s if began_s is None else began_s
        if sink is None:
            tally.end_network(began_s)
        else:
            if not sink.reserve(window):
                return tally.lap(-1, "output_wait")
            tally.lap(-1, "output_wait")
            sink.put(ran.arrays, began_s)
            tally.lap(-1, "transfer")
        shared.n_runs[worker.number] += 1


class _RunEnded(NamedTuple):
    arrays: Mapping[str, Array]
    began_s: float


def _run_stages(
    worker: Worker,
    gate: Gate,
    loaded: list[_Loaded],
    arrays: Mapping[str, Array],
    tally: Tally,
) -> _RunEnded | None:
    """Run the worker's stages once, in order; None: the window is over."""
    began_s: float | None = None
    # In step, the stage that takes this thread's CPU next is not to start before it has left:
    # else it waits there for milliseconds. So it keeps the interpreter's lock while it moves.
    move = partial(os.sched_setaffinity, 0) if isinstance(gate, Turns) else move_to
    for number, stage in enumerate(loaded):
        step = (worker.network, worker.first_stage + number)
        if len(loaded) > 1:
            # Before it waits: it could not be woken on the CPUs of its last stage while another
            # network keeps them busy.
            move(stage.cpus)
        entered_s = gate.enter(step, tally.now_s)
        tally.lap(number, "device_wait")
        if entered_s is None:
            return None
        began_s = entered_s if began_s is None else began_s
        if stage.is_fed:
            stage.network.feed({name: arrays[name] for name in stage.names if name in arrays})
            tally.lap(number, "transfer")
        stage.network.call()
        tally.lap(number, "inference")
        if stage.is_fetched:
            arrays = stage.network.fetch()
            tally.lap(number, "transfer")
        gate.leave(step)
        tally.end_stage(number)
    return _RunEnded(arrays, tally.now_s if began_s is None else began_s)


def move_to(cpus: Collection[int]) -> None:
    """Restrict this thread to ``cpus``; while they are busy, that takes milliseconds.

    ``os.sched_setaffinity`` would hold the interpreter's lock, and so all networks, that long.
    """
    n_bytes = max(cpus) // 64 * 8 + 8
    mask = sum(1 << cpu for cpu in cpus).to_bytes(n_bytes, sys.byteorder)
    if _LIBC.sched_setaffinity(0, ctypes.c_size_t(n_bytes), mask):
        raise OSError(ctypes.get_errno(), f"cannot run on CPUs {cpu_list(sorted(cpus))}")


class ThreadHand:
    """A worker in a thread of this process."""

    pid = None

    def __init__(self, worker: Worker, shared: SharedState, gate: Gate) -> None:
        self.outcome: Outcome | None = None

        def run() -> None:
            self.outcome = work(worker, shared, gate)

        self._thread = threading.Thread(target=run, name=worker.title, daemon=True)
        self._thread.start()

    def failure(self) -> str:
        """Why the worker has failed; empty: it has not."""
        return self.outcome.failure if self.outcome else ""

    def end(self) -> None:
        """Wait until the worker has ended."""
        self._thread.join()

    def stop(self) -> None:
        """Wait until the worker has ended after the window, at most as long as a slow call."""
        self._thread.join(_GRACE_S)


class ProcessHand:
    """A worker in a process of its own, which ends with this one."""

    def __init__(self, worker: Worker, shared: SharedState, gate: Gate, context: Any) -> None:
        self.outcome: Outcome | None = None
        self._title, self._shared = worker.title, shared
        self._results, sender = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_work_for_pipe, args=(worker, shared, gate, sender, os.getpid()), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid
        sender.close()  # the child has its own end: if it dies, reading gives end of file

    def failure(self) -> str:
        """Why the worker has failed; empty: it has not."""
        if self.outcome is None and self._results.poll():
            self._receive()
        return self.outcome.failure if self.outcome else ""

    def end(self) -> None:
        """Wait until the worker has ended."""
        if self.outcome is None:
            self._receive()
        self._process.join()

    def stop(self) -> None:
        """Kill the process: the memory that it shares with this one is reused."""
        self._process.kill()
        self._process.join()

    def _receive(self) -> None:
        try:
            self.outcome = msgspec.msgpack.decode(self._results.recv_bytes(), type=Outcome)
        except EOFError:
            self._process.join()
            self._shared.window.abandon()
            code = self._process.exitcode
            how = how_it_ended(code) if code is not None else "ended"
            self.outcome = Outcome([], [], {}, failure=f"{self._title}: its process {how}")


def _work_for_pipe(
    worker: Worker, shared: SharedState, gate: Gate, sender: Any, parent: int
) -> None:
    """The main function of a worker's process; ``parent``: id of the process that started it."""
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    peak = PeakMemory()
    outcome = work(worker, shared, gate)
    outcome.memory_bytes = peak.bytes()
    with suppress(OSError):  # nobody waits for the result any more
        sender.send_bytes(msgspec.msgpack.encode(outcome))


def _end_with(parent: int) -> None:
    """End this process once its parent has ended: its parent id changes then."""
    pause = threading.Event()
    while os.getppid() == parent:
        pause.wait(_PARENT_POLL_S)
    os._exit(1)
