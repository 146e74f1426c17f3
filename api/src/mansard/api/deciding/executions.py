"""Schedules executed on this machine: what was predicted beside what was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from mansard.analytics.data.names import display_name
from mansard.api.measurements import MeasuredMulti, run_mappings
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.precision import parse_precision
from mansard.core.records import Accelerator, MultiRun, Problem, Schedule
from mansard.inference.multi.mappings import (
    PLACEMENT_OF,
    MappedNetwork,
    Mapping,
    StagePlace,
)
from mansard.scheduler import solve
from mansard.sweeps.mappings import MultiRequest
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess


class RanNetwork(msgspec.Struct, frozen=True, kw_only=True):
    """One network of a schedule that was executed. Rates are items per second."""

    name: str
    predicted_s: float
    measured_s: float | None  # median latency
    predicted_per_s: float
    measured_per_s: float | None
    beside_solver_per_s: float | None  # of the best schedule alone


class RanSchedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule that was executed, round after round. ``error``: measured / predicted − 1."""

    method: str  # several with commas, where they found the same
    mode: str  # empty: nothing was run
    predicted_s: float | None  # makespan; None: steady, where rounds overlap
    measured_s: float | None  # median of the rounds
    beside_solver_s: float | None  # likewise, while a solver runs on the same CPUs
    error: float | None
    networks: tuple[RanNetwork, ...]  # none: it could not be run
    remark: str  # why it was not measured, or what disturbed it


def check_runnable(problem: Problem) -> None:
    """Raises UsageError where the problem does not say what could be run."""
    for network in problem.networks:
        if not all(group.nodes for group in network.groups[:-1]):
            what = f"{network.name}: nothing says which nodes its groups are"
            raise UsageError(what, fix="give each group its nodes, or make the problem from runs")
        if problem.is_steady and network.rate_per_s:
            what = f"{network.name}: runs that arrive at a rate cannot be executed"
            raise UsageError(what, fix="leave its rate out, or run it with --once")
    devices = [_device(problem, accelerator) for accelerator in problem.accelerators]
    twice = next((device for device in devices if devices.count(device) > 1), None)
    if twice is not None:
        raise UsageError(f"two accelerators are {twice} of this machine", fix="leave one out")
    _settings(problem)


def mapping_of(problem: Problem, schedule: Schedule) -> Mapping:
    """A schedule as stages on devices, which take their turns in its order.

    A stage is groups that follow one another on an accelerator with no other network's between
    them; of a steady schedule, which takes groups first come first served and so has no turns,
    with no other network on that accelerator. The problem has passed ``check_runnable``.
    """
    devices = {unit.name: _device(problem, unit) for unit in problem.accelerators}
    stages: list[list[StagePlace]] = [[] for _ in problem.networks]
    turns, last_on = list[tuple[int, int]](), dict[str, int]()
    shared = {(group.accelerator, group.network) for group in schedule.groups}
    n_users = Counter(name for name, _ in shared)
    for group in schedule.groups:  # by start
        network, name = problem.networks[group.network], group.accelerator
        places, device = stages[group.network], devices[name]
        is_alone = n_users[name] == 1 if problem.is_steady else last_on.get(name) == group.network
        if places and places[-1].device == device and is_alone:
            continue
        if places:
            end = max(network.groups[group.group - 1].nodes)
            places[-1] = msgspec.structs.replace(places[-1], end=end)
        last_on[name] = group.network
        turns.append((group.network, len(places)))
        places.append(StagePlace(device=device))
    networks = zip(problem.networks, stages, strict=True)
    return Mapping(
        networks=tuple(
            MappedNetwork(model=network.model or network.name, stages=tuple(places))
            for network, places in networks
        ),
        turns=() if problem.is_steady else tuple(turns),
    )


def _device(problem: Problem, accelerator: Accelerator) -> str:
    """What a mapping calls an accelerator."""
    if accelerator.kind == "cpu":
        return f"cpu:{','.join(map(str, accelerator.cpus))}" if accelerator.cpus else "cpu"
    if accelerator.kind == "gpu":
        return "gpu"
    dlas = [other.name for other in problem.accelerators if other.kind == "dla"]
    return (
        accelerator.name
        if accelerator.name in {"dla0", "dla1"}
        else f"dla{dlas.index(accelerator.name)}"
    )


def run_schedules(
    request: MultiRequest,
    problem: Problem,
    schedules: Sequence[Schedule],
    reporter: Reporter = SILENT,
) -> tuple[RanSchedule, ...]:
    """Execute ``schedules``, the best first, and that one again while a solver runs beside it.

    Rows are kept in the runs of ``request``; what keeps a schedule from being run is its remark.
    Raises UsageError for a problem that cannot be run.
    """
    batches, precisions = _settings(problem)
    settings = msgspec.structs.replace(request.settings, batches=batches, precisions=precisions)
    multi = request.multi
    if problem.is_steady:  # devices take stages first come first served
        multi = msgspec.structs.replace(multi, order="in turn", is_exclusive=True)
    request = msgspec.structs.replace(request, settings=settings, multi=multi)
    by_mapping: dict[Mapping, list[Schedule]] = {}
    for schedule in schedules:
        by_mapping.setdefault(mapping_of(problem, schedule), []).append(schedule)
    rows = [_row(request, mapping, reporter) for mapping in by_mapping]
    beside: MeasuredMulti | MansardError | None = None
    if _of(rows[0]) is not None:
        with _solving(problem) as solver:
            again = msgspec.structs.replace(next(iter(by_mapping)), beside="a solver")
            beside = _row(request, again, reporter)
            if not solver.is_alive():
                reporter.note("note: the solver beside the networks died: its column is left out")
                beside = None
    return tuple(
        _ran(problem, alike, row, beside if at == 0 else None)
        for at, (alike, row) in enumerate(zip(by_mapping.values(), rows, strict=True))
    )


def _settings(problem: Problem) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The one batch and precision of all networks."""
    batches = {network.batch for network in problem.networks}
    precisions = {network.precision for network in problem.networks if network.precision}
    if len(batches) > 1 or len(precisions) > 1:
        what = "its networks have several batch sizes or precisions"
        raise UsageError(what, fix="what runs at once has one of each")
    return tuple(batches), tuple(parse_precision(name).name for name in precisions)


def _row(
    request: MultiRequest, mapping: Mapping, reporter: Reporter
) -> MeasuredMulti | MansardError:
    """What was measured, or what kept it from being measured."""
    try:
        result = run_mappings(request, [mapping], reporter)
    except MansardError as error:
        return error
    if len(result.rows) > 1:
        return UsageError("a schedule is of one mode", fix="name one with --mode")
    return result.rows[0] if result.rows else result.failure or MeasurementError("nothing was run")


def _ran(
    problem: Problem,
    alike: Sequence[Schedule],
    measured: MeasuredMulti | MansardError,
    beside: MeasuredMulti | MansardError | None,
) -> RanSchedule:
    """What schedules of one mapping were predicted to take, and what it took."""
    predicted, is_steady = alike[0], problem.is_steady
    row, other = _of(measured), _of(beside)
    networks = []
    for at, network in enumerate(predicted.networks if row is not None else ()):
        latency_s = row.networks[at].latency_s if row is not None else ()
        networks.append(
            RanNetwork(
                name=network.name,
                predicted_s=network.latency_s,
                measured_s=median(latency_s) if latency_s else None,
                predicted_per_s=network.rate_per_s,
                measured_per_s=_rate(row, at),
                beside_solver_per_s=_rate(other, at),
            )
        )
    measured_s = _round_s(row)
    return RanSchedule(
        method=", ".join(schedule.method for schedule in alike),
        mode="" if isinstance(measured, MansardError) else measured.mode,
        predicted_s=None if is_steady else predicted.makespan_s,
        measured_s=measured_s,
        beside_solver_s=_round_s(other),
        error=None if measured_s is None else measured_s / predicted.makespan_s - 1,
        networks=tuple(networks),
        remark=_remark(problem, measured),
    )


def _of(measured: MeasuredMulti | MansardError | None) -> MultiRun | None:
    """The row of what ran."""
    if not isinstance(measured, MeasuredMulti) or measured.row.failure is not None:
        return None
    return measured.row


def _remark(problem: Problem, measured: MeasuredMulti | MansardError) -> str:
    """Why it could not be run; else what disturbed it, and what else its prediction is of."""
    if isinstance(measured, MansardError):
        return str(measured)
    if measured.row.failure is not None:
        return measured.row.failure
    places = ((problem.machine, display_name(measured.machine)), (problem.mode, measured.mode))
    others = [of for of, here in places if of and of != here]
    elsewhere = [f"predicted from times of {', '.join(others)}"] if others else []
    # Of engines that change the device inside them: where the layers really went.
    placed = [
        f"{name}: {text}"
        for key, text in sorted(measured.row.options.items())
        if (name := key.removeprefix(PLACEMENT_OF)) != key
    ]
    return "; ".join((*measured.row.disturbances, *elsewhere, *placed))


def _round_s(row: MultiRun | None) -> float | None:
    return median(row.round_s) if row is not None and row.round_s else None


def _rate(row: MultiRun | None, network: int) -> float | None:
    """Items per second."""
    if row is None or not row.window_s:
        return None
    ran = row.networks[network]
    return ran.n_runs * (ran.batch or 1) / row.window_s


@contextmanager
def _solving(problem: Problem) -> Iterator[BaseProcess]:
    """Another process, which solves ``problem`` again and again."""
    import multiprocessing

    process = multiprocessing.get_context("spawn").Process(
        target=_solve_on, args=(msgspec.json.encode(problem),), daemon=True
    )
    process.start()
    try:
        yield process
    finally:
        process.terminate()
        process.join()


def _solve_on(encoded: bytes) -> None:
    problem = msgspec.json.decode(encoded, type=Problem)
    while True:
        solve(problem)
