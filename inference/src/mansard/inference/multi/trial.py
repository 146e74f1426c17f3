"""The kind of measurement "multi": several networks run at once for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mansard.core.errors import InputError, MeasurementError
from mansard.core.records import MultiRun, RunNetwork, StageRun
from mansard.inference.engines import find_engine
from mansard.inference.engines.probing import check_provider
from mansard.inference.failures import is_for_now
from mansard.inference.multi.execution import Ran, run
from mansard.inference.multi.plan import MultiPlan, MultiTrial, is_dla, stage_networks
from mansard.inference.rows import why_no_batch
from mansard.measuring.instruments import Instruments, Observation, Unseen
from mansard.measuring.kind import MeasurementKind, Opened

_OF_A_RUN = ("window_s", "energy", "memory_bytes", "other_cpu_share")


def measure_multi(spec: MultiTrial, plan: MultiPlan, instruments: Instruments) -> MultiRun:
    """Measure one trial; what cannot run is a row with ``failure``.

    Raises MeasurementError where no folder of files was given.
    """
    if instruments.files is None:
        raise MeasurementError("no folder of networks was given", fix="report this")
    ran, failure = None, ""
    with Observation(instruments, plan) as seen:
        seen.own_engines = {
            stage.device.upper()
            for network in spec.mapped
            for stage in network.stages
            if is_dla(stage.device)
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
    engines = list(dict.fromkeys(each.engine for each in stage_networks(spec)))
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
        options=_options(spec, ran),
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
    found = {"waiting": first.waiting, "threads": threads}
    if spec.is_exclusive:
        found["devices"] = "one stage at a time"
    if spec.order == "in step":
        found["rounds"] = "one after the other" if spec.has_rounds else "each device its own"
    return found | (ran.options if ran else {})


def _networks(spec: MultiTrial, ran: Ran | None) -> tuple[RunNetwork, ...]:
    found = []
    for number, network in enumerate(spec.mapped):
        first = network.stages[0].network
        own = [each for worker, each in (ran.workers if ran else ()) if worker.network == number]
        found.append(
            RunNetwork(
                model=network.model,
                model_hash=network.model_hash,
                precision=first.precision,
                batch=first.batch,
                dimensions=first.dimensions,
                n_stages=len(network.stages),
                n_runs=own[-1].stages[-1].n_runs if own else 0,
                latency_s=tuple(own[-1].latency_s) if own else (),
                unknown=why_no_batch(first),
            )
        )
    return tuple(found)


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
    networks = [each for trial in plan.trials for each in stage_networks(trial)]
    probes = {name: find_engine(name).probe() for name in {each.engine for each in networks}}
    for each in networks:
        check_provider(each, probes[each.engine])

    def measure(spec: MultiTrial, instruments: Instruments) -> MultiRun:
        return measure_multi(spec, plan, instruments)

    yield Opened(measure, plan.gpu_in_mode, plan.unknown.get("gpu", ""))


def _crashed(plan: MultiPlan, spec: MultiTrial, how: str, duration_s: float) -> MultiRun:
    """The row of a trial that the measuring process did not survive."""
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
