"""The kind of measurement "generations": a server of a language model, measured from outside."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from mansard.core.records import Conditions, GenerationRun, PowerMode
from mansard.device.conditions import of_others
from mansard.device.meters.sampler import Sampler
from mansard.inference.servers.connection import parse_address
from mansard.inference.servers.opening import OpenServer, open_server
from mansard.inference.servers.plan import GenerationPlan, GenerationTrial, Serving
from mansard.inference.servers.session import Session, all_rejected
from mansard.measuring.instruments import Instruments, Observation
from mansard.measuring.kind import MeasurementKind, Opened


def generation_kind(
    serving: Serving | None = None, say: Callable[[str], object] = lambda _: None
) -> MeasurementKind[GenerationPlan, GenerationRun]:
    """The kind "generations"; ``serving`` None: the server of the plan, which has no secrets."""
    return MeasurementKind(
        "generations",
        GenerationPlan,
        GenerationRun,
        partial(_open, serving=serving, say=say),
        rows_name="generations.jsonl",
        is_private=True,
    )


@contextmanager
def _open(
    plan: GenerationPlan, serving: Serving | None, say: Callable[[str], object]
) -> Iterator[Opened[GenerationRun]]:
    with open_server(serving or _serving_of(plan.trials[0]), say) as server:

        def measure(spec: GenerationTrial, instruments: Instruments) -> GenerationRun:
            return measure_generation(spec, plan, instruments, server)

        yield Opened(measure, plan.gpu, plan.unknown.get("gpu", ""))


def _serving_of(spec: GenerationTrial) -> Serving:
    address = None if spec.address is None else parse_address(spec.address)
    return Serving(command=spec.command or (), address=address, model=spec.asked_model)


def measure_generation(
    spec: GenerationTrial, plan: GenerationPlan, instruments: Instruments, server: OpenServer
) -> GenerationRun:
    """Send rounds of requests as often as the protocol requires; raises MeasurementError.

    A request that fails ends the trial, and nothing of it is stored.
    """
    served_by = instruments.sources.processes.find().names or ()
    with Observation(instruments, plan) as seen, Sampler(instruments.meters) as sampler:
        session = Session(spec, plan.protocol, server, sampler, instruments.meters)
        rounds, interval, problem = session.repeat()
        prefills, why_none = session.prefills_alone(rounds)
    for sample in sampler.samples:
        instruments.keep(sample)
    values: dict[str, Any] = {
        **_identity(spec, server),
        "prefills": prefills,
        "memory_bytes": session.memory_bytes,
        "memory_taken_bytes": session.memory_taken_bytes,
        "load_s": None if server.process is None else server.process.load_s,
        "stability_interval": interval,
    }
    reasons = {
        **_REASONS,
        **spec.unknown,
        "prefills": why_none,
        "stability_interval": problem,
    }
    return GenerationRun(
        run_id=plan.run_id,
        trial_id=spec.trial_id,
        source="simulated" if plan.machine.is_simulated else "measured",
        rounds=rounds,
        depends=plan.depends,
        stability="unstable" if problem else "stable",
        conditions=seen.conditions,
        disturbances=(
            *_others(seen.conditions, instruments.mode, served_by),
            *all_rejected(rounds),
        ),
        started_utc=seen.started_utc,
        duration_s=seen.duration_s,
        unknown={name: reasons[name] for name, value in values.items() if value is None},
        **values,
    )


def _others(conditions: Conditions, mode: PowerMode, served_by: Collection[str]) -> tuple[str, ...]:
    """What other programs did; processes that were on the GPU before count as the server."""
    if conditions.gpu_processes:
        others = tuple(name for name in conditions.gpu_processes if name not in served_by)
        conditions = msgspec.structs.replace(conditions, gpu_processes=others)
    return of_others(conditions, mode)


_NOT_STARTED = "the server was not started by Mansard"
_REASONS = {
    "server_version": "the server does not say",
    "address": "a free port was taken",
    "command": _NOT_STARTED,
    "server_hash": _NOT_STARTED,
    "memory_bytes": _NOT_STARTED,
    "memory_taken_bytes": _NOT_STARTED,
    "load_s": _NOT_STARTED,
}


def _identity(spec: GenerationTrial, server: OpenServer) -> dict[str, Any]:
    """The fields of a row that its plan and the server say."""
    endpoint = server.endpoint
    same = ("workload", "address", "command", "server_hash", "environment")
    lengths = ("prompt_tokens", "generate_tokens", "concurrency")
    return {
        **{name: getattr(spec, name) for name in (*same, *lengths)},
        "model": endpoint.model,
        "server": endpoint.server,
        "server_version": endpoint.version,
        "api": endpoint.interface.name,
        "options": endpoint.options,
        "prompt_counting": server.prompts.counting,
        "seed": server.seed,
    }


GENERATIONS = generation_kind()
