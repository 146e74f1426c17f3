"""The kind of measurement "networks": a network is loaded, warmed up, looped, and called singly."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from mansard.core.errors import InputError, MeasurementError, SchemaError
from mansard.core.formats.tensorrt import host_bound, least_compute
from mansard.core.records import CpuTime, EnqueueTime, Launching, LayerTime, Measurement
from mansard.core.text import cpu_list
from mansard.inference.builds import built_options
from mansard.inference.calls import (
    CallSource,
    ThreadTimes,
    n_single_calls,
    paced_protocol,
    samples_of_run,
    seconds_of,
    single_calls,
    undisturbed,
    warm_up,
)
from mansard.inference.engines import find_engine
from mansard.inference.engines.engine import (
    Engine,
    Enqueue,
    EnqueuedNetwork,
    LoadedNetwork,
    SelfTimedNetwork,
    SelfTimingEngine,
    check_provider,
)
from mansard.inference.inputs import make_inputs
from mansard.inference.memory import PeakMemory, limited_to_available
from mansard.inference.plan import NetworkPlan, NetworkTrial
from mansard.inference.rows import head, is_for_now, why_no_batch
from mansard.measuring.identity import as_options
from mansard.measuring.instruments import Instruments, Observation, Unseen
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.metering import UNMETERED, Metered
from mansard.measuring.plan import cpus_of
from mansard.measuring.protocol import Protocol
from mansard.measuring.sampling import Samples, collect

_LOADING_S = 3600.0  # at most, with the first call: TensorRT then builds its kernels
# Of a network whose call takes so long that no part of the protocol has its time: warming up,
# the samples, single calls, energy windows and the profile then have one call each, or some.
_N_SLOW_CALLS = 60
_N_ENQUEUED = 40  # calls of which the host's and the GPU's times are told apart
_N_TRIED = 10  # calls of a program that times them itself, to see how long one takes
_NO_LAYERS = "layers were not asked for"
_PROFILE_SHARE = 0.25
_PROFILE_DIVISOR = 4
_OF_A_RUN = (
    "calls_per_sample",
    "stability_interval",
    "profiled_s",
    "layers",
    "energy",
    "memory_bytes",
    "load_s",
    "first_call_s",
)


@dataclass(frozen=True)
class _Timed:
    """The result of one network that ran."""

    launching: Launching
    options: dict[str, str]
    load_s: float | None
    first_call_s: float | None
    samples: Samples
    call_seconds_s: tuple[float, ...]
    energy: Metered
    memory_bytes: int | None
    profiled_s: tuple[float, ...] | None
    layers: tuple[LayerTime, ...] | None
    why_no_layers: str
    unknown: Mapping[str, str] = field(default_factory=dict)
    enqueues: Sequence[Enqueue] = ()


def measure_network(
    spec: NetworkTrial, plan: NetworkPlan, instruments: Instruments, engine: Engine
) -> Measurement:
    """Measure one trial; where the engine cannot run it, the row has a ``failure``.

    Raises MeasurementError where no folder of files was given, or the file is missing.
    """
    folder = instruments.files
    if folder is None:
        raise MeasurementError("no folder of networks was given", fix="report this")
    for name in filter(None, ("" if spec.engine_file else spec.file, spec.inputs_file)):
        if not (folder / name).is_file():
            raise MeasurementError("there is no such file", where=str(folder / name))
    timed, failure = None, ""
    if spec.rest_s:
        instruments.announce(f"resting before {spec.title}", spec.rest_s)
        time.sleep(spec.rest_s)
    with Observation(instruments, plan) as seen, _on_cpus(plan.cpus):
        try:
            timed = _time(spec, plan, instruments, engine, folder)
            core = timed.options.get("dla_core")
            seen.own_engines = () if core is None else (f"DLA{core}",)
            seen.limit_memory_use(timed.energy.windows or ())
        except (MeasurementError, InputError) as error:
            failure = str(error)
        except MemoryError:
            failure = "too little memory"
    return _row(spec, plan, seen, timed, failure)


def _time(
    spec: NetworkTrial, plan: NetworkPlan, instruments: Instruments, engine: Engine, folder: Path
) -> _Timed:
    protocol, n_threads = plan.protocol, spec.n_threads or len(plan.cpus)
    with ExitStack() as stack:
        peak = PeakMemory()
        if spec.provider == "cpu":
            stack.enter_context(limited_to_available())
        inputs = make_inputs(spec, folder, plan.seed)
        instruments.announce(f"loading {spec.title}", _LOADING_S)
        built = {**built_options(spec, plan, folder), **_partition(plan)}
        if isinstance(engine, SelfTimingEngine):
            program = engine.open(spec, folder, inputs)
            stack.callback(program.close)
            return _time_by_program(spec, program, plan, instruments, built)
        start_s = time.monotonic()
        network = engine.load(spec, folder, inputs, n_threads)
        stack.callback(network.close)
        load_s = time.monotonic() - start_s
        first_call_s = seconds_of(network.call)
        instruments.announce(spec.title, _N_SLOW_CALLS * first_call_s)
        call_s = warm_up(network.call, protocol)
        times = stack.enter_context(ThreadTimes())
        source = CallSource(network.call, times)
        n_calls = max(1, round(protocol.sample_s / call_s))
        paced = paced_protocol(protocol, n_calls * call_s)
        samples = collect(source, paced, protocol.stream_interval, repetitions=n_calls)
        singles = single_calls(network.call, protocol)
        enqueues: Sequence[Enqueue] = ()
        if isinstance(network, EnqueuedNetwork):
            enqueues = network.time_enqueues(min(_N_ENQUEUED, len(singles)))
        metering = instruments.metering(plan, spec.meter_period_s)
        energy = UNMETERED if metering is None else metering.run(source, n_calls, lambda: False)
        memory_bytes = peak.bytes() if spec.provider == "cpu" else None
        profiled_s, layers, why_no_layers = _layers(spec, network, source, protocol, call_s)
    return _Timed(
        launching=network.launching,
        options={**built, **network.options},
        load_s=load_s,
        first_call_s=first_call_s,
        samples=samples,
        call_seconds_s=singles,
        energy=energy,
        memory_bytes=memory_bytes,
        profiled_s=profiled_s,
        layers=layers,
        why_no_layers=why_no_layers,
        enqueues=enqueues,
    )


def _time_by_program(
    spec: NetworkTrial,
    network: SelfTimedNetwork,
    plan: NetworkPlan,
    instruments: Instruments,
    built: Mapping[str, str],
) -> _Timed:
    """The times of a network that a program runs and times by itself.

    ``built``: the options of the engine file.
    """
    protocol = plan.protocol
    call_s = median(network.time_calls(_N_TRIED))
    instruments.announce(spec.title, _LOADING_S)
    samples = samples_of_run(network.time_calls, protocol, call_s)
    singles = network.time_calls(n_single_calls(protocol, call_s))
    enqueues = tuple(network.enqueues)
    layers, why_no_layers = None, _NO_LAYERS
    if spec.with_layers:
        try:
            layers = network.time_layers(_n_profiled(protocol, call_s))
        except (MeasurementError, SchemaError) as error:
            why_no_layers = f"the network runs, but not with profiling on: {error}"
    return _Timed(
        launching=network.launching,
        options={**built, **network.options, "blocks": f"parts of one run of {spec.engine}"},
        load_s=None,
        first_call_s=None,
        samples=samples,
        call_seconds_s=singles,
        energy=Metered(None, f"{spec.engine} cannot run it in windows of a meter"),
        memory_bytes=None,
        profiled_s=None,
        layers=layers,
        why_no_layers=why_no_layers,
        unknown=dict.fromkeys(
            ("load_s", "first_call_s", "memory_bytes", *(("profiled_s",) if layers else ())),
            f"{spec.engine} does not say",
        ),
        enqueues=enqueues,
    )


def _layers(
    spec: NetworkTrial,
    network: LoadedNetwork,
    source: CallSource,
    protocol: Protocol,
    call_s: float,
) -> tuple[tuple[float, ...] | None, tuple[LayerTime, ...] | None, str]:
    """The profiled calls and their layers, or why there are none."""
    if not spec.with_layers:
        return None, None, _NO_LAYERS
    n_calls = _n_profiled(protocol, call_s)
    try:
        network.start_profiling()
        raw = source.take(1 + n_calls, 1, lambda: False)
        counted = undisturbed(raw, protocol.cpu_share_min)
        layers, reason = network.end_profiling(counted)
    except (MeasurementError, SchemaError, OSError, MemoryError) as error:
        return None, None, f"the network runs, but not with profiling on: {error}"
    if not layers:
        return None, None, reason
    profiled_s = (
        sample.duration_s for sample, is_kept in zip(raw, counted, strict=True) if is_kept
    )
    return tuple(profiled_s), layers, ""


def _n_profiled(protocol: Protocol, call_s: float) -> int:
    fitting = int(_PROFILE_SHARE * protocol.time_cap_s / call_s)
    return max(1, min(protocol.n_accepted_min // _PROFILE_DIVISOR, fitting))


def _partition(plan: NetworkPlan) -> dict[str, str]:
    """The option "cpus" of a row, where the plan does not use all CPUs of its mode."""
    is_all = plan.cpus == cpus_of(plan.machine, plan.mode)
    return {} if is_all else {"cpus": cpu_list(plan.cpus)}


@contextmanager
def _on_cpus(cpus: tuple[int, ...]) -> Iterator[None]:
    """Restrict this thread, and threads that it starts, to ``cpus``."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _row(
    spec: NetworkTrial,
    plan: NetworkPlan,
    seen: Observation | Unseen,
    timed: _Timed | None,
    failure: str,
) -> Measurement:
    samples = timed.samples if timed else None
    return Measurement(
        **head(spec, plan),
        phase=spec.phase,
        processor=plan.processor,
        provider=spec.provider,
        options={**(timed.options if timed else {}), **as_options(plan.environment)},
        threads=spec.n_threads or len(plan.cpus),
        cpus=plan.cpus,
        inputs=spec.inputs,
        copies=spec.copies,
        launching=timed.launching if timed else ("call" if spec.provider == "cpu" else "enqueue"),
        waiting=spec.waiting,
        failure=None if timed else failure,
        calls_per_sample=samples.repetitions_per_sample if samples else None,
        seconds_s=samples.seconds_s if samples else (),
        block=samples.block if samples else (),
        rejected_s=samples.rejected_s if samples else (),
        rejected_reason=samples.rejected_reason if samples else (),
        stability=samples.stability if samples else "unstable",
        stability_interval=samples.stability_interval if samples else None,
        call_seconds_s=timed.call_seconds_s if timed else (),
        profiled_s=timed.profiled_s if timed else None,
        layers=timed.layers if timed else None,
        energy=timed.energy.windows if timed else None,
        memory_bytes=timed.memory_bytes if timed else None,
        load_s=timed.load_s if timed else None,
        first_call_s=timed.first_call_s if timed else None,
        conditions=seen.conditions,
        disturbances=(*seen.disturbances, *_gaps(timed.enqueues if timed else ())),
        started_utc=seen.started_utc,
        duration_s=seen.duration_s,
        part=spec.part,
        cpu_time=_cpu_time(spec, samples, failure),
        enqueue_time=_enqueue_time(spec, timed, failure),
        unknown=_reasons(spec, timed, failure),
    )


def _reasons(spec: NetworkTrial, timed: _Timed | None, failure: str) -> dict[str, str]:
    unknown = why_no_batch(spec)
    if timed is None:
        return unknown | dict.fromkeys(_OF_A_RUN, f"it could not be run: {failure}")
    unknown["failure"] = "it ran"
    if timed.samples.stability_interval is None:
        unknown["stability_interval"] = timed.samples.stability_reason or "too few samples"
    if timed.layers is None:
        unknown |= dict.fromkeys(("layers", "profiled_s"), timed.why_no_layers)
    if timed.energy.windows is None:
        unknown["energy"] = timed.energy.reason or "no meter"
    if timed.memory_bytes is None and spec.provider != "cpu":
        unknown["memory_bytes"] = "what it takes on the GPU is not memory of the process"
    elif timed.memory_bytes is None:
        unknown["memory_bytes"] = "the kernel does not say, or the process once had more"
    return {**unknown, **timed.unknown}


def _cpu_time(spec: NetworkTrial, samples: Samples | None, failure: str) -> CpuTime:
    """Of each sample, where the network ran on the CPU."""
    if samples is not None and spec.provider == "cpu" and samples.cpu_s is not None:
        return CpuTime(seconds_s=samples.cpu_s)
    why = "it was unknown in some samples" if samples else f"it could not be run: {failure}"
    if spec.provider != "cpu":
        why = "it ran on a GPU"
    return CpuTime(seconds_s=None, unknown={"seconds_s": why})


def _gaps(enqueues: Sequence[Enqueue]) -> Iterator[str]:
    """Why the times are none of the GPU's, where the host sets the pace."""
    if not enqueues:
        return
    enqueue_s, compute_s = (median(seconds) for seconds in zip(*enqueues, strict=True))
    why = host_bound(enqueue_s, compute_s)
    if why is not None:
        yield f"{why}; {least_compute(min(compute_s for _, compute_s in enqueues))}"


def _enqueue_time(spec: NetworkTrial, timed: _Timed | None, failure: str) -> EnqueueTime:
    if timed is not None and timed.enqueues:
        enqueue_s, compute_s = zip(*timed.enqueues, strict=True)
        return EnqueueTime(enqueue_s=enqueue_s, compute_s=compute_s)
    why = f"{spec.engine} does not say" if timed else f"it could not be run: {failure}"
    if spec.provider == "cpu":
        why = "it ran on the CPU"
    return EnqueueTime(
        enqueue_s=None,
        compute_s=None,
        unknown=dict.fromkeys(("enqueue_s", "compute_s"), why),
    )


@contextmanager
def _open(plan: NetworkPlan) -> Iterator[Opened[Measurement]]:
    """Raises MeasurementError where an engine of the plan cannot be used in this process."""
    probes = {name: find_engine(name).probe() for name in {spec.engine for spec in plan.trials}}
    for spec in plan.trials:
        check_provider(spec, probes[spec.engine])

    def measure(spec: NetworkTrial, instruments: Instruments) -> Measurement:
        return measure_network(spec, plan, instruments, find_engine(spec.engine))

    yield Opened(measure, plan.gpu_in_mode, plan.unknown.get("gpu", ""))


def _crashed(plan: NetworkPlan, spec: NetworkTrial, how: str, duration_s: float) -> Measurement:
    """The row of a network whose measuring process died."""
    return _row(spec, plan, Unseen(how, duration_s), None, how)


def _is_result(row: Measurement) -> bool:
    """Whether the row is final: it has a time, or the network cannot be run at all."""
    return bool(row.seconds_s) or (row.failure is not None and not is_for_now(row.failure))


NETWORKS: MeasurementKind[NetworkPlan, Measurement] = MeasurementKind(
    "networks",
    NetworkPlan,
    Measurement,
    _open,
    rows_name="measurements.jsonl",
    is_result=_is_result,
    crashed=_crashed,
)
