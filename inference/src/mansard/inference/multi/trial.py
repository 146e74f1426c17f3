"""The kind of measurement "multi": several networks run at once for a while.

The workers of a trial begin, warm up, and are metered until the window is over.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.core.errors import InputError, MeasurementError
from mansard.core.records import MultiRun, Reading, RunNetwork, StageRun
from mansard.device.conditions import OtherWork, Telemetry
from mansard.device.meters.sampler import Sampler
from mansard.inference.builds import built_options
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import check_provider
from mansard.inference.memory import PeakMemory, limited_to_available
from mansard.inference.multi.gates import (
    CountedWindow,
    Gate,
    Link,
    MemoryLink,
    OpenGate,
    Queue,
    ThreadLink,
    Turns,
)
from mansard.inference.multi.mappings import device_cpus, dla_of, is_cpu
from mansard.inference.multi.workers import Outcome, ProcessHand, SharedState, ThreadHand, Worker
from mansard.inference.plan import MultiPlan, MultiTrial
from mansard.inference.rows import is_for_now, why_no_batch
from mansard.measuring.identity import as_options
from mansard.measuring.instruments import Instruments, Observation, Unseen
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.metering import NO_METER, Metered

_N_WARM = 2  # runs of each network, at least, before the window
_POLL_S = 0.01
_LEAD_S = 0.005  # from opening the window to its start
_LOADING_S = 3600.0  # at most, with the first runs


@dataclass(frozen=True)
class Ran:
    """The result of a trial that ran."""

    window_s: float
    workers: tuple[tuple[Worker, Outcome], ...]
    round_s: tuple[float, ...]
    energy: Metered  # of the window
    options: dict[str, str]  # of the engines and of their builds
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
    for network in trial.stage_networks:
        options |= built_options(network, plan, folder)
    has_processes = trial.way == "processes"
    context: Any = multiprocessing.get_context("spawn") if has_processes else threading
    workers = _workers(trial, plan, folder, context)
    ends = context.RawArray("d", 2) if has_processes else [0.0, 0.0]
    n_runs = context.RawArray("q", len(workers)) if has_processes else [0] * len(workers)
    ends[:] = [float("inf")] * 2
    shared = SharedState(ends, n_runs, context.Lock())
    gate = _gate(trial, shared.window, context)
    instruments.announce(f"loading {trial.title}", _LOADING_S)
    peak, sampler = PeakMemory(), Sampler(instruments.meters, trial.meter_period_s or None)
    hands: list[ThreadHand | ProcessHand] = []
    with _limited(trial):
        try:
            with instruments.sources.processes.learn_own():  # each of which has the GPU open
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
    sizes = [worker.memory_bytes for worker in outcomes] if has_processes else [peak.bytes()]
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
    """One worker for each network, or for each stage where stages are pipelined."""
    workers: list[Worker] = []
    for number, network in enumerate(trial.mapped):
        source: Link | None = None
        n_stages = 1 if trial.order == "pipelined" else len(network.stages)
        for first in range(0, len(network.stages), n_stages):
            stages = network.stages[first : first + n_stages]
            sink: Link | None = None
            if first + n_stages < len(network.stages):
                following = network.stages[first + n_stages].network
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
    # An engine on both devices has a name of its own here, so that it waits for no other stage:
    # the hardware decides what runs when on the GPU and the DLA.
    devices = {
        (number, at): f"{stage.device} of {number}" if "+" in stage.device else stage.device
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
    """Limit memory, so that large allocations fail; not with a GPU: its driver reserves more."""
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
    """Raise MeasurementError where a worker has failed, with the first failure."""
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


_OF_A_RUN = ("window_s", "energy", "memory_bytes", "other_cpu_share")


def measure_multi(spec: MultiTrial, plan: MultiPlan, instruments: Instruments) -> MultiRun:
    """Measure one trial; where it cannot run, the row has a ``failure``.

    Raises MeasurementError where no folder of files was given.
    """
    if instruments.files is None:
        raise MeasurementError("no folder of networks was given", fix="report this")
    ran, failure = None, ""
    with Observation(instruments, plan) as seen:
        seen.own_engines = {
            core.upper()
            for network in spec.mapped
            for stage in network.stages
            if (core := dla_of(stage.device))
        }
        try:
            ran = run(spec, plan, instruments, instruments.files, is_ready=seen.restart)
            seen.limit_memory_use(ran.energy.windows or ())
            seen.other_work = ran.other_work
        except (MeasurementError, InputError) as error:
            failure = str(error)
        except MemoryError:
            failure = "too little memory"
    return _row(spec, plan, seen, ran, failure)


def _row(
    spec: MultiTrial,
    plan: MultiPlan,
    seen: Observation | Unseen,
    ran: Ran | None,
    failure: str,
) -> MultiRun:
    engines = list(dict.fromkeys(network.engine for network in spec.stage_networks))
    versions = [plan.versions[find_engine(name).package] for name in engines]
    others = ran.other_work if ran else None
    other_cpu_share = others.share if others else None
    if ran is None:
        unknown = dict.fromkeys(_OF_A_RUN, f"it could not be run: {failure}")
    else:
        unknown = {"failure": "it ran"}
        if ran.energy.windows is None:
            unknown["energy"] = ran.energy.reason or "no meter"
        if other_cpu_share is None:
            unknown["other_cpu_share"] = "the kernel does not say, or the board is simulated"
        if ran.memory_bytes is None:
            unknown["memory_bytes"] = "the kernel does not say, or the process once had more"
    return MultiRun(
        run_id=plan.run_id,
        trial_id=spec.trial_id,
        source="simulated" if plan.machine.is_simulated else "measured",
        mapping=spec.mapping,
        engine=", ".join(engines),
        engine_version=", ".join(versions),
        processor=plan.processor,
        cpus=plan.cpus,
        way=spec.way,
        order=spec.order,
        options=_options(spec, ran) | as_options(plan.environment),
        networks=_networks(spec, ran),
        stages=_stages(spec, ran),
        window_s=ran.window_s if ran else None,
        round_s=ran.round_s if ran else (),
        energy=ran.energy.windows[0] if ran and ran.energy.windows else None,
        telemetry=ran.telemetry if ran else (),
        other_cpu_share=other_cpu_share,
        memory_bytes=ran.memory_bytes if ran else None,
        failure=None if ran else failure,
        conditions=seen.conditions,
        disturbances=seen.disturbances,
        started_utc=seen.started_utc,
        duration_s=seen.duration_s,
        unknown=unknown,
    )


def _options(spec: MultiTrial, ran: Ran | None) -> dict[str, str]:
    first = spec.mapped[0].stages[0].network
    threads = "one for each CPU" if first.n_threads is None else str(first.n_threads)
    options = {"waiting": first.waiting, "threads": threads}
    if spec.is_exclusive:
        options["devices"] = "one stage at a time"
    if spec.order == "in step":
        options["rounds"] = "one after the other" if spec.has_rounds else "each device its own"
    return options | (ran.options if ran else {})


def _networks(spec: MultiTrial, ran: Ran | None) -> tuple[RunNetwork, ...]:
    rows = []
    for number, network in enumerate(spec.mapped):
        first = network.stages[0].network
        outcomes = [
            outcome for worker, outcome in (ran.workers if ran else ()) if worker.network == number
        ]
        rows.append(
            RunNetwork(
                model=network.model,
                model_hash=network.model_hash,
                precision=first.precision,
                batch=first.batch,
                dimensions=first.dimensions,
                n_stages=len(network.stages),
                n_runs=outcomes[-1].stages[-1].n_runs if outcomes else 0,
                latency_s=tuple(outcomes[-1].latency_s) if outcomes else (),
                unknown=why_no_batch(first),
            )
        )
    return tuple(rows)


def _stages(spec: MultiTrial, ran: Ran | None) -> tuple[StageRun, ...]:
    return tuple(
        StageRun(
            network=spec.mapped[worker.network].model,
            network_number=worker.network,
            stage=worker.first_stage + number,
            n_stages=len(spec.mapped[worker.network].stages),
            device=stage.device,
            nodes=stage.network.part.nodes,
            n_runs=totals.n_runs,
            inference_s=totals.inference_s,
            transfer_s=totals.transfer_s,
            input_wait_s=totals.input_wait_s,
            device_wait_s=totals.device_wait_s,
            output_wait_s=totals.output_wait_s,
        )
        for worker, outcome in (ran.workers if ran else ())
        for number, (stage, totals) in enumerate(zip(worker.stages, outcome.stages, strict=True))
    )


@contextmanager
def _open(plan: MultiPlan) -> Iterator[Opened[MultiRun]]:
    """Raises MeasurementError where an engine of the plan cannot be used in this process."""
    networks = [network for trial in plan.trials for network in trial.stage_networks]
    engines = {network.engine for network in networks}
    probes = {name: find_engine(name).probe() for name in engines}
    for network in networks:
        check_provider(network, probes[network.engine])

    def measure(spec: MultiTrial, instruments: Instruments) -> MultiRun:
        return measure_multi(spec, plan, instruments)

    yield Opened(measure, plan.gpu_in_mode, plan.unknown.get("gpu", ""))


def _crashed(plan: MultiPlan, spec: MultiTrial, how: str, duration_s: float) -> MultiRun:
    """The row of a trial whose measuring process died."""
    return _row(spec, plan, Unseen(how, duration_s), None, how)


MULTI: MeasurementKind[MultiPlan, MultiRun] = MeasurementKind(
    "multi",
    MultiPlan,
    MultiRun,
    _open,
    rows_name="multi.jsonl",
    is_result=lambda row: row.failure is None or not is_for_now(row.failure),
    crashed=_crashed,
)
