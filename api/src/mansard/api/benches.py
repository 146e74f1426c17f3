"""A bench from end to end: modes, networks, measurements, report; on one board or on several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from mansard.analytics.data.scores import keep_scores, replace_scores
from mansard.api.result import Result
from mansard.api.scores import score_networks
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.extras import has_extra, missing_library
from mansard.core.formats.onnx import named
from mansard.core.power_mode import core_count_mode
from mansard.core.records import PowerMode, Trial
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.estimator import zoo
from mansard.estimator.scoring import is_language_model
from mansard.estimator.zoo.operators import NAMES as OPERATOR_NAMES
from mansard.measuring.runner import run_plan
from mansard.microbench.kernel import Kernel, with_kernels
from mansard.microbench.plan import make_plan
from mansard.sweeps.kernels import find_probe, plan_kernels
from mansard.sweeps.modes import ModePlan
from mansard.sweeps.networks import (
    MeasureRequest,
    dry_run_networks,
    measured_rows,
    plan_networks,
    with_image,
)
from mansard.sweeps.preparation import NetworkSettings, Preparation
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.sweep import (
    DryRun,
    SweepRequest,
    Swept,
    dry_run_modes,
    reachable_hosts,
    sweep,
)
from mansard.sweeps.sweep import dry_run as dry_run_sweep
from mansard.sweeps.targets import BenchTarget

if TYPE_CHECKING:
    from mansard.analytics.models.predict.row_times import NetworkTimes
    from mansard.api.reports import Report
    from mansard.api.rows import KernelRate


class BenchRequest(SweepRequest, frozen=True, kw_only=True):
    """What a bench is asked for; the defaults are those of the command."""

    models: tuple[Path | str, ...] = ()  # ONNX files, names of the zoo; none: some of the zoo
    batches: tuple[int, ...] = (1, 8)  # at which networks are scored; they run at the first
    dims: Mapping[str, int] = msgspec.field(default_factory=dict)  # sizes of named dimensions
    has_networks: bool = True  # whether networks are run too


# Of the zoo, where no model is named: convolutions of two kinds, a detector, a transformer.
_QUICK = ("mobilenet_v2", "resnet50", "yolov8n", "bert_base")


class BenchResult(Result, frozen=True):
    """The report of what was measured, and what could not be measured.

    ``report`` is None where nothing was measured at all, and without the libraries of the extra
    ``report``. Then ``kernels`` and ``networks`` are what was measured.
    """

    report: Report | None
    failure: MansardError | None
    kernels: tuple[KernelRate, ...] = ()
    networks: tuple[NetworkTimes, ...] = ()

    def check(self) -> None:
        """Raise ``failure``, if there is one: it names the modes or the boards, and why."""
        if self.failure is not None:
            raise self.failure


def bench(request: BenchRequest, reporter: Reporter = SILENT) -> BenchResult:
    """Measure, score the networks, and write the report into the folder of runs.

    What was measured before is not measured again; an interrupted bench resumes. Power modes
    are set, locked, and put back as they were found. A mode that cannot be set is left out with
    a note, and a board of several that fails does not stop the others: the result's ``failure``
    names them. Raises any MansardError that keeps everything from being measured.
    """
    with _prepared(request) as parts:
        if request.hosts:
            reachable_hosts(request)  # what is wrong is said before networks are scored
            _score(request, reporter, on_cpu=False)
        planner = partial(_plan, request, parts, is_scored=not request.hosts)
        try:
            swept = sweep(request, planner, reporter)
        finally:
            for preparation, _ in parts:
                keep_scores(request.runs, preparation.scores)
    if not has_extra("report"):
        return _without_report(request.runs, swept, reporter)
    written = None
    if swept.run_ids or swept.failure is None:
        from mansard.api.reports import report  # with all its libraries, after the measurements

        run_ids = frozenset(swept.run_ids)
        written = report([str(request.runs)], run_ids=run_ids, reporter=reporter)
    return BenchResult(written, swept.failure or _nothing_measured(written))


def _nothing_measured(written: Report | None) -> MeasurementError | None:
    """The error of a bench of which every kernel failed; the report's notes have the reasons."""
    modes = written.summary.of_runs(written.run_ids).modes if written is not None else ()
    if any(mode.n_trials for mode in modes):
        return None
    return _failed_trials(sum(mode.n_trials_failed for mode in modes))


def _failed_trials(n_failed: int) -> MeasurementError | None:
    if not n_failed:
        return None
    return MeasurementError(
        f"none of {n_failed} trials of kernels could be measured",
        fix="the notes above say why; the same command tries again",
    )


def _without_report(runs: Path, swept: Swept, reporter: Reporter) -> BenchResult:
    """What was measured, where the libraries that write the report are not installed."""
    from mansard.api.rows import kernel_rates, times_of_networks

    kernels = kernel_rates(runs, swept.run_ids)
    if kernels.n_disturbed:
        reporter.note(f"note: disturbed trials, which do not count: {kernels.n_disturbed}")
    networks = times_of_networks(measured_rows(runs, swept.run_ids))
    failure = None if kernels.rates else _failed_trials(kernels.n_failed)
    return BenchResult(None, swept.failure or failure, kernels.rates, networks)


def dry_run(request: SweepRequest, reporter: Reporter = SILENT) -> Iterator[DryRun]:
    """The modes, writes and estimated time of a bench, board by board; nothing is changed.

    A request for networks has the same, without parts that are run alone; other requests have only
    the writes that set their modes. Raises as ``bench`` does, after the boards without an error.
    """
    if isinstance(request, MeasureRequest):
        request = with_image(request)
        with Preparation(request.settings) as preparation:
            yield from dry_run_networks(request, preparation, reporter)
        return
    if not isinstance(request, BenchRequest):
        yield from dry_run_modes(request, reporter)
        return
    with _prepared(request) as parts:
        planner = partial(_plan, request, parts, is_scored=False)
        yield from dry_run_sweep(request, planner, reporter)


_Part = tuple[Preparation, tuple[str, ...]]  # what is run in a run of its own


@contextmanager
def _prepared(request: BenchRequest) -> Iterator[list[_Part]]:
    """The networks that are run, then the zoo's operators; those that there are.

    Operators are a run of their own, so that they are timed once whatever networks a bench has.
    """
    of_networks = NetworkSettings(engine="ort", batches=request.batches[:1], dims=request.dims)
    of_operators = NetworkSettings(engine="ort", batches=request.batches[:1])
    with Preparation(of_networks) as networks, Preparation(of_operators) as operators:
        operators.title = "operators"
        parts = [(networks, _models(request)), (operators, _operators(request))]
        yield [(preparation, models) for preparation, models in parts if models]


def _models(request: BenchRequest) -> tuple[str, ...]:
    """The networks to be run: those that are named, else of the zoo as many as the profile says."""
    if not request.has_networks:
        return ()
    if request.models:  # no engine here runs a language model: a server does
        return tuple(str(model) for model in request.models if not is_language_model(named(model)))
    return {"brief": (), "full": zoo.names()}.get(request.profile, _QUICK)


def _operators(request: BenchRequest) -> tuple[str, ...]:
    """The zoo's operators, which predictions of networks that are not run rest on.

    None in a brief bench, which is for many modes, and where no networks are run.
    """
    is_timed = request.has_networks and request.profile != "brief"
    return OPERATOR_NAMES if is_timed else ()


def _plan(
    request: BenchRequest,
    parts: Sequence[_Part],
    target: BenchTarget,
    modes: Sequence[PowerMode],
    reporter: Reporter,
    *,
    is_scored: bool,
) -> list[ModePlan]:
    """What is to be measured on one board: in each mode its kernels, networks and operators.

    The networks are scored first where ``is_scored``.
    """
    machine = target.controller.identify()
    probe = find_probe(request, target, modes, reporter)
    kernels = plan_kernels(machine, modes, request, probe)
    if is_scored:
        _score(request, reporter, on_cpu=probe.gpu is None)
    plans = [kernels]
    try:
        for part in parts:
            networks = plan_networks(
                *part, target, modes, request, reporter, gpu=probe.gpu, is_lenient=True
            )
            plans += [networks] if networks else []
    except MeasurementError as error:  # there is no engine
        reporter.note(f"note: {error}")
    except ModuleNotFoundError as error:
        if not (missing := missing_library(error)):
            raise
        reporter.note(f"note: networks cannot be run: {missing}")
    return [plan for of_mode in zip(*plans, strict=True) for plan in of_mode]


def _score(request: BenchRequest, reporter: Reporter, *, on_cpu: bool) -> None:
    """Score the networks: what is wrong with them is found before minutes of measuring."""
    scores = score_networks(request.models, request.batches, request.dims, reporter, on_cpu=on_cpu)
    replace_scores(request.runs, scores)


def measure_kernels(
    kernels: Sequence[Kernel],
    *,
    runs: Path = Path("runs"),
    n_cores: int = 1,
    profile: str = "brief",
) -> tuple[Trial, ...]:
    """Measure ``kernels`` in this process on the first ``n_cores`` cores, as the machine is.

    One trial for each precision and chain of a kernel of the family "fma", or for each working set
    of a stream. The rows are a run in ``runs``, which a report shows beside others; what it holds
    already is not measured again; a kernel that fails, as one that does not compile, is a row with
    ``failure``. Raises UsageError for a kernel that this CPU does not run, and as a bench does.
    """
    names = {kernel.name for kernel in kernels}
    with with_kernels(kernels):
        plan = make_plan(identify(), core_count_mode(n_cores), profile)
        trials = tuple(spec for spec in plan.trials if spec.kernel in names)
        if lacking := names - {spec.kernel for spec in trials}:
            raise UsageError(
                f"the profile {profile} has no trial of {', '.join(sorted(lacking))}",
                fix="ask for the profile quick",
            )
        outcome = run_plan(replace(plan, trials=trials), runs)
    rows = read_rows(outcome.folder / "trials.jsonl", Trial, runs).rows
    return tuple(sorted(rows, key=lambda row: (row.kernel, row.working_set_bytes)))
