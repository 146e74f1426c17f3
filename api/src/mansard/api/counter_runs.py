"""Networks under Nsight Compute: the GPU's counters of their kernels, in the modes of a board."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mansard.api.accuracies import int8_form
from mansard.api.boards import board_root
from mansard.api.engine_builds import builds_files, choose_engine, is_stand_in
from mansard.api.measurements import ModePlan, measure_modes
from mansard.api.networks import choose_provider, write_loaded
from mansard.api.preparation import NetworkSettings, Preparation
from mansard.api.reporter import SILENT, Reporter
from mansard.api.scores import keep_scores
from mansard.api.sweeps import SweepRequest, choose_modes, failure_of
from mansard.api.targets import LocalTarget, find_processor
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.ncu_metrics import chip_of, choose_metrics
from mansard.core.records import CounterRun, PowerMode, chain_length
from mansard.core.text import listed

if TYPE_CHECKING:
    from mansard.analytics.models.counters.by_kernel import CallSum, KernelSum
    from mansard.core.records import Gpu, MachineIdentity
    from mansard.device.controller.controller import LocalController
    from mansard.inference.counters.ncu import Ncu
    from mansard.inference.counters.plan import CacheControl
    from mansard.inference.counters.trial import Counting
    from mansard.inference.engines.engine import EngineProbe
    from mansard.measuring.events import Measurer

MOST_CALLS = 1000


class CountRequest(SweepRequest, frozen=True, kw_only=True):
    """Which networks are to be counted, and how; the defaults are those of the command."""

    models: tuple[str, ...]  # ONNX files, or names of the zoo
    settings: NetworkSettings = NetworkSettings(with_layers=False)
    ncu: Path | None = None  # the program; None: that on PATH, or the newest that is installed
    chip: str | None = None  # as ``ncu --list-chips`` calls it; None: that of the first card
    n_calls: int = 1  # of each network, that are counted
    cache_control: CacheControl = "all"


class CountedNetwork(msgspec.Struct, frozen=True):
    """A network in one mode: its row, where its table is, and its kernels by their share of time.

    ``launches``: of all calls. ``notes``: on what the table lacks.
    """

    mode: str
    row: CounterRun
    table: Path | None
    launches: int
    call: CallSum | None  # of all kernels, for one call
    kernels: tuple[KernelSum, ...]
    notes: tuple[str, ...]


class CountResult(msgspec.Struct, frozen=True):
    """What was counted, now or before, and what could not be."""

    rows: tuple[CountedNetwork, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, if there is one, or name the networks that could not be run."""
        if self.failure is not None:
            raise self.failure
        failed = [found.row for found in self.rows if found.row.failure is not None]
        if failed:
            names = listed(list(dict.fromkeys(row.model for row in failed)))
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} networks could not be counted: {names}",
                fix="the remarks above say why; the same command tries them again",
            )


def count_networks(request: CountRequest, reporter: Reporter = SILENT) -> CountResult:
    """Run networks under Nsight Compute in each mode, and keep its tables in ``request.runs``.

    It runs on this machine and not in a container: counters need rights that no measuring
    container is given. What was counted before is not counted again. Raises UsageError,
    DeniedError where this user may not read counters, and what keeps a board from being measured.
    """
    from mansard.device.controller.controller import LocalController
    from mansard.inference.counters.ncu import find_ncu
    from mansard.inference.counters.trial import Counting

    if request.hosts:
        raise UsageError(
            "counters are read on the machine itself, not with --host",
            fix="run 'mansard ncu run' on the board",
        )
    if not 1 <= request.n_calls <= MOST_CALLS:
        raise UsageError(f"--calls is from 1 to {MOST_CALLS}", fix="leave it out")
    keep_scores(request.runs, ())  # a file of scores that cannot be read is an error now
    ncu = find_ncu(request.ncu)
    root = board_root(request.board)
    controller = LocalController(root)
    modes = choose_modes(controller, request, reporter)
    target = _CountingTarget(root, controller, Counting(ncu, request.runs))
    with Preparation(request.settings) as preparation:
        plans = _plan(request, preparation, target, ncu, modes, reporter)
        try:
            done = measure_modes(plans, target, request.runs, reporter)
        finally:
            if request.runs.exists():
                keep_scores(request.runs, preparation.scores)
    rows = [row for each in plans for row in _rows(request.runs, each, done.run_ids)]
    return CountResult(tuple(rows), failure_of(done, len(modes)))


def _plan(
    request: CountRequest,
    preparation: Preparation,
    target: _CountingTarget,
    ncu: Ncu,
    modes: Sequence[PowerMode],
    reporter: Reporter,
) -> list[ModePlan]:
    from mansard.inference.builds import device_name
    from mansard.inference.counters.plan import CounterPlan, CounterTrial
    from mansard.inference.planning import make_plan
    from mansard.measuring.runner import missing_trials

    machine, settings = target.controller.identify(), request.settings
    probe = choose_engine(target, machine, settings.engine, reporter)
    provider = _provider(probe, settings.provider)
    gpu = _gpu(target, machine, probe, provider, reporter)
    form = int8_form(probe.engine, provider)
    metrics = _metrics(request, ncu, gpu, reporter)
    preparation.prepare(request.models, reporter, form=form)
    builds = preparation.builds(probe, device_name(gpu, machine))
    trials = tuple(
        CounterTrial(**msgspec.structs.asdict(trial), **metrics)
        for trial in preparation.trials(probe.engine, provider, builds)
        if chain_length(trial.model) is None
    )
    files, plans, needed = preparation.new_folder(), [], set[str]()
    for mode in modes:
        plan = make_plan(CounterPlan, machine, mode, trials, probe, gpu)
        plan = msgspec.structs.replace(
            plan,
            processor="cpu" if provider == "cpu" else "gpu",
            versions={**plan.versions, "ncu": ncu.version},
            unknown={} if gpu else {"gpu": "the networks run on the CPU, or CuPy is not there"},
        )
        ids = {spec.trial_id for spec in missing_trials(plan, request.runs)}
        missing = [spec for spec in trials if spec.trial_id in ids]
        needed |= {spec.engine_file for spec in missing}
        write_files = partial(write_loaded, preparation, missing, files, request.runs, reporter)
        plans.append(
            ModePlan(plan, len(missing), files, write_files, of="counters", is_bounded=False)
        )
    wanted = [build for build in builds.values() if build.engine_file in needed]
    preparation.build(wanted, probe, gpu, target.plain, modes, runs=request.runs, reporter=reporter)
    return plans


def _provider(probe: EngineProbe, wanted: str | None) -> str:
    """What the networks run on; raises UsageError, MeasurementError."""
    if probe.engine == "trtexec":
        raise UsageError(
            "the calls of trtexec cannot be counted one by one",
            fix="use --engine tensorrt, which needs TensorRT's bindings, or --engine ort",
        )
    provider = choose_provider(probe, wanted, has_gpu=True)
    if provider == "cpu" and wanted is None:
        raise UsageError(
            f"{probe.engine} has no provider for the GPU here, and the CPU has no such counters",
            fix="'mansard doctor' says what is missing",
        )
    return provider


def _gpu(
    target: _CountingTarget,
    machine: MachineIdentity,
    probe: EngineProbe,
    provider: str,
    reporter: Reporter,
) -> Gpu | None:
    """The GPU that the networks run on, as far as it is known: engine files name it."""
    if provider == "cpu" or is_stand_in(probe):
        return None
    if builds_files(probe.engine):
        return find_processor(target, machine, "gpu", reporter).gpu
    return target.probe("gpu").gpu


def _metrics(
    request: CountRequest, ncu: Ncu, gpu: Gpu | None, reporter: Reporter
) -> dict[str, Any]:
    """The fields of a trial that say what is counted: of what ``ncu`` lists for the chip."""
    from mansard.inference.counters.ncu import listed_metrics

    chip = request.chip or _chip(gpu)
    choice = choose_metrics(chip, listed_metrics(ncu, chip))
    if "time" in choice.lacking:
        raise MeasurementError(f"Nsight Compute lists no times for {chip}", fix="use a newer one")
    if choice.lacking:
        reporter.note(f"note: {chip} has no counters of {listed(list(choice.lacking))}")
    return {
        "chip": chip,
        "metrics": choice.metrics,
        "lacking": choice.lacking,
        "n_calls": request.n_calls,
        "cache_control": request.cache_control,
    }


def _chip(gpu: Gpu | None) -> str:
    """That of the first card; raises UsageError where there is none, or it is not known."""
    from mansard.inference.counters.card import compute_capability

    sm = compute_capability() if gpu is None else gpu.sm
    if sm is None:
        raise UsageError(
            "no NVIDIA driver answers, so it is not known which chip is here",
            fix="load the driver, or name the chip with --chip",
        )
    chip = chip_of(sm)
    if chip is None:
        raise UsageError(
            f"no chip of Nsight Compute is known for compute capability {sm / 10:.1f}",
            fix="name it with --chip ('ncu --list-chips'); before 7.0 there is none",
        )
    return chip


def _rows(runs: Path, each: ModePlan, run_ids: frozenset[str]) -> list[CountedNetwork]:
    """What the run of a mode holds; a table that cannot be read is a note."""
    from mansard.analytics.models.counters.by_kernel import by_kernel, call_sum
    from mansard.analytics.models.counters.counted import counters_of_run
    from mansard.core.jsonl import read_rows
    from mansard.inference.counters.trial import COUNTERS

    folder, mode = runs / each.plan.run_id, each.plan.mode.name
    if each.plan.run_id not in run_ids:
        return []
    read = {one.run.trial_id: one for one in counters_of_run(folder) if one.run}
    found = []
    for row in read_rows(folder / COUNTERS.rows_name, CounterRun, runs).rows:
        one = read.get(row.trial_id)
        if one is None or row.export is None or not one.rows:
            found.append(CountedNetwork(mode, row, None, 0, None, (), one.notes if one else ()))
            continue
        n_launches = sum(kernel.n_launches for kernel in one.rows)
        call, sums = call_sum(one.rows, row.n_calls), by_kernel(one.rows, row.n_calls)
        path = folder / row.export
        found.append(CountedNetwork(mode, row, path, n_launches, call, sums, one.notes))
    return found


class _CountingTarget(LocalTarget):
    """This machine; no meter is read, because kernels that are replayed draw another power."""

    def __init__(self, root: Path, controller: LocalController, counting: Counting) -> None:
        super().__init__(root, controller)
        self._place, self._counting = root, counting
        self.plain = LocalTarget(root, controller)  # to build engine files

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer of counters."""
        from mansard.inference.counters.trial import counter_kind
        from mansard.measuring.measurer import LocalMeasurer

        return LocalMeasurer(root=self._place, kind=counter_kind(self._counting), files=files)
