"""Schedules executed on this machine: what was predicted beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median

import msgspec

from mansard.api.multi import MeasuredMulti, MultiRequest, run_mappings
from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import MeasurementError, UsageError
from mansard.core.precision import parse_precision
from mansard.core.records import Accelerator, MultiRun, Problem, Schedule
from mansard.inference.multi.mappings import MappedNetwork, Mapping, StagePlace


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
    mode: str
    predicted_s: float | None  # makespan; None: steady, where rounds overlap
    measured_s: float | None  # median of the rounds
    beside_solver_s: float | None  # likewise, while a solver runs on the same CPUs
    error: float | None
    networks: tuple[RanNetwork, ...]
    remark: str  # why it was not measured, or what disturbed it


def mapping_of(problem: Problem, found: Schedule) -> Mapping:
    """A schedule as stages on devices, which take their turns in its order.

    A stage is groups that follow one another on an accelerator with no other network's between
    them. Raises UsageError where the problem does not say what could be run.
    """
    names = {each.name: _device(problem, each) for each in problem.accelerators}
    stages: list[list[StagePlace]] = [[] for _ in problem.networks]
    turns, last_on = list[tuple[int, int]](), dict[str, int]()
    for group in found.groups:  # by start
        network = problem.networks[group.network]
        own, place = stages[group.network], StagePlace(device=names[group.accelerator])
        if own and not network.groups[group.group - 1].nodes:
            what = f"{network.name}: nothing says which nodes its groups are"
            raise UsageError(what, fix="give each group its nodes, or make the problem from runs")
        is_next = bool(own) and own[-1].device == place.device
        if is_next and last_on[group.accelerator] == group.network:
            continue
        if own:
            end = max(network.groups[group.group - 1].nodes)
            own[-1] = msgspec.structs.replace(own[-1], end=end)
        last_on[group.accelerator] = group.network
        turns.append((group.network, len(own)))
        own.append(place)
    networks = zip(problem.networks, stages, strict=True)
    return Mapping(
        networks=tuple(
            MappedNetwork(model=each.model or each.name, stages=tuple(own))
            for each, own in networks
        ),
        turns=tuple(turns),
        has_rounds=not problem.is_steady,
    )


def _device(problem: Problem, found: Accelerator) -> str:
    """What a mapping calls an accelerator."""
    if found.kind == "cpu":
        return f"cpu:{','.join(map(str, found.cpus))}" if found.cpus else "cpu"
    if found.kind == "gpu":
        return "gpu"
    dlas = [each.name for each in problem.accelerators if each.kind == "dla"]
    return found.name if found.name in {"dla0", "dla1"} else f"dla{dlas.index(found.name)}"


def run_schedules(
    request: MultiRequest,
    problem: Problem,
    schedules: Sequence[Schedule],
    reporter: Reporter = SILENT,
) -> tuple[RanSchedule, ...]:
    """Execute ``schedules``, the best first, and that one again while a solver runs beside it.

    Rows are kept in the runs of ``request``. Raises UsageError for a problem that cannot be run,
    and what ``run_mappings`` does.
    """
    request = _with_settings(request, problem)
    by_mapping: dict[Mapping, list[Schedule]] = {}
    for each in schedules:
        by_mapping.setdefault(mapping_of(problem, each), []).append(each)
    rows = [_row(request, mapping, reporter) for mapping in by_mapping]
    with _solving(problem):
        again = msgspec.structs.replace(next(iter(by_mapping)), beside="a solver")
        beside = _row(request, again, reporter).row
    return tuple(
        _ran(problem, alike, row, beside if at == 0 else None)
        for at, (alike, row) in enumerate(zip(by_mapping.values(), rows, strict=True))
    )


def _with_settings(request: MultiRequest, problem: Problem) -> MultiRequest:
    """With the one batch and precision of all networks."""
    batches = {each.batch for each in problem.networks}
    precisions = {each.precision for each in problem.networks if each.precision}
    if len(batches) > 1 or len(precisions) > 1:
        what = "its networks have several batch sizes or precisions"
        raise UsageError(what, fix="what runs at once has one of each")
    settings = msgspec.structs.replace(
        request.settings,
        batches=tuple(batches),
        precisions=tuple(parse_precision(each).name for each in precisions),
    )
    return msgspec.structs.replace(request, settings=settings)


def _row(request: MultiRequest, mapping: Mapping, reporter: Reporter) -> MeasuredMulti:
    found = run_mappings(request, [mapping], reporter)
    if len(found.rows) > 1:
        raise UsageError("a schedule is of one mode", fix="name one with --mode")
    if not found.rows:
        raise found.failure or MeasurementError("nothing was measured")
    return found.rows[0]


def _ran(
    problem: Problem,
    alike: Sequence[Schedule],
    measured: MeasuredMulti,
    beside: MultiRun | None,
) -> RanSchedule:
    """What schedules of one mapping were predicted to take, and what it took."""
    found, row, is_steady = alike[0], measured.row, problem.is_steady
    networks = []
    for at, network in enumerate(found.networks if row.failure is None else ()):
        # Rounds follow one another: what ends early waits for the next.
        in_rounds_per_s = problem.networks[at].batch / found.makespan_s
        latency_s = row.networks[at].latency_s
        networks.append(
            RanNetwork(
                name=network.name,
                predicted_s=network.latency_s,
                measured_s=median(latency_s) if latency_s else None,
                predicted_per_s=network.rate_per_s if is_steady else in_rounds_per_s,
                measured_per_s=_rate(row, at),
                beside_solver_per_s=_rate(beside, at),
            )
        )
    measured_s = _round_s(row)
    return RanSchedule(
        method=", ".join(each.method for each in alike),
        mode=measured.mode,
        predicted_s=None if is_steady else found.makespan_s,
        measured_s=measured_s,
        beside_solver_s=_round_s(beside),
        error=None if measured_s is None else measured_s / found.makespan_s - 1,
        networks=tuple(networks),
        remark=row.failure or "; ".join(row.disturbances),
    )


def _round_s(row: MultiRun | None) -> float | None:
    return median(row.round_s) if row is not None and row.round_s else None


def _rate(row: MultiRun | None, network: int) -> float | None:
    """Items per second."""
    if row is None or not row.window_s or row.failure is not None:
        return None
    ran = row.networks[network]
    return ran.n_runs * (ran.batch or 1) / row.window_s


@contextmanager
def _solving(problem: Problem) -> Iterator[None]:
    """Another process solves ``problem`` again and again."""
    import multiprocessing

    process = multiprocessing.get_context("spawn").Process(
        target=_solve_on, args=(msgspec.json.encode(problem),), daemon=True
    )
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join()


def _solve_on(encoded: bytes) -> None:
    from mansard.scheduler import solve

    problem = msgspec.json.decode(encoded, type=Problem)
    while True:
        solve(problem)
