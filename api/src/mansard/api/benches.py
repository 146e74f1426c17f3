"""A bench from end to end: modes, networks, measurements, report; on one board or on several.

Also what there is to see without a board: ``demo``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from msgspec.structs import replace

from mansard.api.data import Report, report
from mansard.api.scores import score_networks, score_zoo
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.records import ModelScore, PowerMode, Trial
from mansard.core.storage.files import make_folder
from mansard.core.storage.jsonl import write_rows
from mansard.sweeps.kernels import find_probe, plan_kernels
from mansard.sweeps.modes import ModePlan
from mansard.sweeps.networks import plan_networks
from mansard.sweeps.preparation import NetworkSettings, Preparation
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.sweep import DryRun, SweepRequest, Swept, chosen_hosts, sweep
from mansard.sweeps.sweep import dry_run as dry_run_sweep
from mansard.sweeps.targets import BenchTarget, find_processor

if TYPE_CHECKING:
    from mansard.microbench.kernel import Kernel

SimulatedBoard = Literal["agx-orin", "orin-nano-super", "xavier-nx", "tx2", "thor"]

_NETWORKS = ("mobilenet_v3_large", "resnet50", "yolov8n", "bert_large")


def demo(folder: Path = Path("demo"), reporter: Reporter = SILENT) -> Report:
    """Recorded roofs of real Orins beside a simulated AGX Orin, with networks under them.

    Nothing is measured: the figures are those that ship with Mansard, the kernels of the simulated
    board run on a stand-in for its GPU, the networks are scored here. The report in ``folder``
    shows all four boards; ``run_ids`` are of the published AGX Orin. Raises as ``bench`` does.
    """
    from mansard.analytics.data.published.reference import PAGODA_RUNS, RATES, write_reference
    from mansard.analytics.data.published.store import read_published
    from mansard.analytics.models.roofs.published_rooflines import published_rooflines

    runs = folder / "runs"
    make_folder(runs)
    write_reference(runs, (*RATES, PAGODA_RUNS))
    swept = _sweep_simulated("agx-orin", "all", folder, runs, reporter)
    if swept.failure is not None:
        raise swept.failure
    _score_demo(runs)
    reporter.note(
        "Published figures of three boards, and a simulated one whose GPU kernels ran on a "
        "stand-in: nothing was measured"
    )
    roofs = published_rooflines(read_published(runs))
    first = {roof.run_id for roof in roofs if roof.machine_id == roofs[0].machine_id}
    return report([str(runs)], folder / "report.html", run_ids=first, reporter=reporter)


def demo_simulated(
    board: SimulatedBoard = "agx-orin",
    mode: str = "all",
    folder: Path = Path("demo"),
    reporter: Reporter = SILENT,
) -> BenchResult:
    """Make a simulated board in ``folder``, sweep its power modes, and write the report.

    Kernels run on a stand-in for the board's GPU, in virtual time; power modes, clocks and meters
    are the simulator's, and everything says so. ``mode``: as for ``bench``. Raises as it does.
    """
    runs = folder / "runs"
    swept = _sweep_simulated(board, mode, folder, runs, reporter)
    _score_demo(runs)
    written = report([str(runs)], run_ids=frozenset(swept.run_ids), reporter=reporter)
    return BenchResult(written, swept.failure)


def _sweep_simulated(
    board: SimulatedBoard, mode: str, folder: Path, runs: Path, reporter: Reporter
) -> Swept:
    from mansard.simulator import create_board, running

    make_folder(folder)
    root = folder / board
    if not root.exists():
        create_board(board, folder)
    reporter.note(f"A simulated {board} in {root}; look around with: mansard doctor --board {root}")
    request = SweepRequest(
        mode=mode, profile="brief", runs=runs, board=root, is_local=True, processor="gpu"
    )

    def plan(target: BenchTarget, modes: Sequence[PowerMode], reporter: Reporter) -> list[ModePlan]:
        machine = target.controller.identify()
        found = find_processor(target, machine, request.processor, reporter)
        return plan_kernels(machine, modes, request.profile, runs, found)

    with running(root):
        return sweep(request, plan, reporter)


def _score_demo(runs: Path) -> None:
    scores = [
        score_zoo(name, batch=batch, precision=precision)
        for name in _NETWORKS
        for batch in (1, 16)
        for precision in ("fp32", "fp16")
    ]
    write_rows(runs / "scores.jsonl", ModelScore, scores, runs)


class BenchRequest(SweepRequest, frozen=True, kw_only=True):
    """What a bench is asked for; the defaults are those of the command."""

    models: tuple[Path | str, ...] = ()  # ONNX files, names of the zoo; none: some of the zoo
    batches: tuple[int, ...] = (1, 8)  # at which networks are scored; they run at the first
    dims: Mapping[str, int] = msgspec.field(default_factory=dict)  # sizes of named dimensions
    has_networks: bool = True  # whether networks are run too


# Of the zoo, where no model is named: convolutions of two kinds, a detector, a transformer.
_QUICK = ("mobilenet_v2", "resnet50", "yolov8n", "bert_base")


class BenchResult(msgspec.Struct, frozen=True):
    """The report of what was measured, and what could not be measured.

    ``report`` is None where nothing was measured at all.
    """

    report: Report | None
    failure: MansardError | None

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
    from mansard.analytics.data.scores import keep_scores

    models = _models(request)
    settings = NetworkSettings(engine="ort", batches=request.batches[:1], dims=request.dims)
    with Preparation(settings) as preparation:
        if request.hosts:
            chosen_hosts(request)  # what is wrong with them is said before networks are scored
            _score(request, reporter)
        planner = partial(_plan, request, preparation, models, is_scored=not request.hosts)
        try:
            swept = sweep(request, planner, reporter)
        finally:
            keep_scores(request.runs, preparation.scores)
    written = None
    if swept.run_ids or swept.failure is None:
        run_ids = frozenset(swept.run_ids)
        written = report([str(request.runs)], run_ids=run_ids, reporter=reporter)
    return BenchResult(written, swept.failure or _nothing_measured(written))


def _nothing_measured(written: Report | None) -> MeasurementError | None:
    """The error of a bench of which every kernel failed; the report's notes have the reasons."""
    modes = written.summary.of_runs(written.run_ids).modes if written is not None else ()
    if any(mode.n_trials for mode in modes) or not any(mode.n_trials_failed for mode in modes):
        return None
    n_failed = sum(mode.n_trials_failed for mode in modes)
    return MeasurementError(
        f"none of {n_failed} trials of kernels could be measured",
        fix="the notes above say why; the same command tries again",
    )


def dry_run(request: BenchRequest, reporter: Reporter = SILENT) -> Iterator[DryRun]:
    """What a bench would do on each board, one after the other; nothing is touched.

    Raises as ``bench`` does.
    """
    models = _models(request)
    settings = NetworkSettings(engine="ort", batches=request.batches[:1], dims=request.dims)
    with Preparation(settings) as preparation:
        planner = partial(_plan, request, preparation, models, is_scored=False)
        yield from dry_run_sweep(request, planner, reporter)


def _models(request: BenchRequest) -> tuple[str, ...]:
    """The networks to be run: those that are named, else of the zoo as many as the profile says."""
    from mansard.estimator import zoo

    if not request.has_networks:
        return ()
    if request.models:
        return tuple(map(str, request.models))
    return {"brief": (), "full": zoo.names()}.get(request.profile, _QUICK)


def _plan(
    request: BenchRequest,
    preparation: Preparation,
    models: Sequence[str],
    target: BenchTarget,
    modes: Sequence[PowerMode],
    reporter: Reporter,
    *,
    is_scored: bool,
) -> list[ModePlan]:
    """What is to be measured on one board: in each mode its kernels, then its networks.

    The networks are scored first where ``is_scored``.
    """
    machine = target.controller.identify()
    probe = find_probe(request, target, modes, reporter)
    kernels = plan_kernels(machine, modes, request.profile, request.runs, probe)
    if is_scored:
        _score(request, reporter)
    if not models:
        return kernels
    try:
        networks = plan_networks(
            preparation, models, target, modes, request, reporter, gpu=probe.gpu, is_lenient=True
        )
    except MeasurementError as error:  # there is no engine
        reporter.note(f"note: {error}")
        return kernels
    return [each for pair in zip(kernels, networks, strict=True) for each in pair]


def _score(request: BenchRequest, reporter: Reporter) -> None:
    """Score the networks: what is wrong with them is found before minutes of measuring."""
    from mansard.analytics.data.scores import replace_scores

    scores = score_networks(request.models, request.batches, request.dims, reporter)
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
    from mansard.core.power_mode import core_count_mode
    from mansard.core.storage.jsonl import read_rows
    from mansard.device.identity import identify
    from mansard.measuring.runner import run_plan
    from mansard.microbench.kernel import with_kernels
    from mansard.microbench.planning import make_plan

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
