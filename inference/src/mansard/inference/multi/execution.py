"""One trial is run: its workers begin, warm up, and are metered until the window is over."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.core.errors import MeasurementError
from mansard.core.records import Reading
from mansard.device.conditions import OtherWork, Telemetry
from mansard.device.meters.sampler import Sampler
from mansard.inference.builds import built_options
from mansard.inference.memory import PeakMemory, limited_to_available
from mansard.inference.multi.gates import Gate, OpenGate, Queue, Turns
from mansard.inference.multi.links import Link, MemoryLink, ThreadLink
from mansard.inference.multi.plan import (
    MultiPlan,
    MultiTrial,
    device_cpus,
    is_cpu,
    stage_networks,
)
from mansard.inference.multi.tally import CountedWindow
from mansard.inference.multi.workers import Outcome, ProcessHand, Shared, ThreadHand, Worker
from mansard.measuring.instruments import Instruments
from mansard.measuring.metering import NO_METER, Metered

_N_WARM = 2  # runs of each network, at least, before the window
_POLL_S = 0.01
_LEAD_S = 0.005  # from opening the window to its start
_LOADING_S = 3600.0  # at most, with the first runs


@dataclass(frozen=True)
class Ran:
    """What became of a trial that ran."""

    window_s: float
    workers: tuple[tuple[Worker, Outcome], ...]
    round_s: tuple[float, ...]
    energy: Metered  # of the window
    options: dict[str, str]  # of the engines and of what they have built
    telemetry: tuple[Reading, ...]
    other_work: OtherWork | None  # of other programs; None: on a simulated board
    memory_bytes: int | None


def run(
    trial: MultiTrial,
    plan: MultiPlan,
    instruments: Instruments,
    folder: Path,
    *,
    is_ready: Callable[[], None],
) -> Ran:
    """Run ``trial`` from the files in ``folder``; raises MeasurementError where a worker fails.

    ``is_ready`` is called when all networks have been loaded and run.
    """
    options = dict[str, str]()
    for network in stage_networks(trial):
        options |= built_options(network, plan, folder)
    has_processes = trial.way == "processes"
    context: Any = multiprocessing.get_context("spawn") if has_processes else threading
    workers = _workers(trial, plan, folder, context)
    ends = context.RawArray("d", 2) if has_processes else [0.0, 0.0]
    n_runs = context.RawArray("q", len(workers)) if has_processes else [0] * len(workers)
    ends[:] = [float("inf")] * 2
    shared = Shared(ends, n_runs, context.Lock())
    gate = _gate(trial, shared.window, context)
    instruments.announce(f"loading {trial.title}", _LOADING_S)
    peak, sampler = PeakMemory(), Sampler(instruments.meters)
    hands: list[ThreadHand | ProcessHand] = []
    with _limited(trial):
        try:
            with instruments.sources.processes.learn_own():  # of which each has the GPU open
                for worker in workers:
                    hands.append(
                        ProcessHand(worker, shared, gate, context)
                        if has_processes
                        else ThreadHand(worker, shared, gate)
                    )
                _wait(lambda: min(shared.n_runs) >= _N_WARM, hands)
            is_ready()
            _sleep(plan.protocol.settle_s, hands)
            instruments.announce(trial.title, trial.seconds_s)
            others = OtherWork(plan.cpus, [os.getpid(), *(hand.pid for hand in hands if hand.pid)])
            with Telemetry(instruments.sources) as seen, sampler, others:
                start_s = time.monotonic() + _LEAD_S
                shared.window.open(start_s, trial.seconds_s)
                _sleep(_LEAD_S + trial.seconds_s, hands)
                sampler.read_past(start_s + trial.seconds_s)
            instruments.announce(f"ending {trial.title}", _LOADING_S)
            for hand in hands:
                hand.end()
            _check(hands)
        except BaseException:
            shared.window.abandon()
            for hand in hands:
                hand.stop()
            raise
    outcomes = [hand.outcome for hand in hands if hand.outcome is not None]
    pairs = tuple(zip(workers, outcomes, strict=True))
    n_ended = sum(outcome.stages[-1].n_runs for worker, outcome in pairs if worker.sink is None)
    for outcome in outcomes:
        options |= outcome.options
    sizes = [each.memory_bytes for each in outcomes] if has_processes else [peak.bytes()]
    for sample in sampler.samples:
        instruments.keep(sample)
    return Ran(
        window_s=trial.seconds_s,
        workers=pairs,
        round_s=tuple(gate.round_s) if isinstance(gate, Turns) else (),
        energy=_energy(sampler, instruments, start_s, trial, plan, n_ended),
        options=options,
        telemetry=seen.readings,
        other_work=None if plan.machine.is_simulated else others,
        memory_bytes=None if None in sizes else sum(size or 0 for size in sizes),
    )


def _workers(trial: MultiTrial, plan: MultiPlan, folder: Path, context: Any) -> list[Worker]:
    """One for each network, or for each stage where they are pipelined."""
    workers: list[Worker] = []
    for number, network in enumerate(trial.mapped):
        source: Link | None = None
        each = 1 if trial.order == "pipelined" else len(network.stages)
        for first in range(0, len(network.stages), each):
            stages = network.stages[first : first + each]
            sink: Link | None = None
            if first + each < len(network.stages):
                following = network.stages[first + each].network
                sink = (
                    ThreadLink(context)
                    if trial.way == "threads"
                    else MemoryLink(context, following.input_specs)
                )
            cpus = tuple(device_cpus(stage.device, plan.cpus) for stage in stages)
            at = len(workers)
            workers.append(Worker(at, number, first, stages, cpus, folder, plan.seed, source, sink))
            source = sink
    return workers


def _gate(trial: MultiTrial, window: CountedWindow, context: Any) -> Gate:
    devices = {
        (number, at): stage.device
        for number, network in enumerate(trial.mapped)
        for at, stage in enumerate(network.stages)
    }
    if trial.order == "in step":
        return Turns(window, devices, trial.turns, has_rounds=trial.has_rounds)
    queues = {}
    for name in sorted(set(devices.values())) if trial.is_exclusive else ():
        tickets = context.RawArray("q", 2) if trial.way == "processes" else [0, 0]
        queues[name] = Queue(tickets, context.Condition())
    return OpenGate(window, devices, queues)


def _limited(trial: MultiTrial) -> AbstractContextManager[None]:
    """Too large an allocation fails; a GPU's driver reserves more than there is."""
    devices = [stage.device for network in trial.mapped for stage in network.stages]
    return limited_to_available() if all(map(is_cpu, devices)) else nullcontext()


def _wait(is_there: Callable[[], bool], hands: Sequence[ThreadHand | ProcessHand]) -> None:
    while not is_there():
        time.sleep(_POLL_S)
        _check(hands)


def _sleep(seconds_s: float, hands: Sequence[ThreadHand | ProcessHand]) -> None:
    end_s = time.monotonic() + seconds_s
    while (left_s := end_s - time.monotonic()) > 0:
        time.sleep(min(left_s, 0.1))
        _check(hands)


def _check(hands: Sequence[ThreadHand | ProcessHand]) -> None:
    """Raises MeasurementError where a worker has failed: the first that did, for the others."""
    failures = [failure for hand in hands if (failure := hand.failure())]
    if failures:
        raise MeasurementError(failures[0])


def _energy(
    sampler: Sampler,
    instruments: Instruments,
    start_s: float,
    trial: MultiTrial,
    plan: MultiPlan,
    n_ended: int,
) -> Metered:
    if not instruments.meters.found:
        return Metered(None, NO_METER)
    try:
        window = sampler.window(
            start_s,
            start_s + trial.seconds_s,
            n_changed_min=plan.protocol.n_changed_min,
            repetitions=n_ended,
        )
    except MeasurementError as error:
        return Metered(None, str(error))
    return Metered((window,), None)
