"""Networks under Nsight Compute: the GPU's counters of their kernels, in the modes of a board."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.boards import board_root
from mansard.api.measurements import ModePlan, measure_modes
from mansard.api.networks import NetworkSettings, Preparation, choose_provider
from mansard.api.reporter import SILENT, Reporter
from mansard.api.scores import keep_scores
from mansard.api.sweeps import SweepRequest, choose_modes, failure_of
from mansard.api.targets import LocalTarget
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.ncu_metrics import chip_of, choose_metrics
from mansard.core.records import CounterRun, PowerMode, chain_length
from mansard.core.text import listed
from mansard.core.version import VERSION
from mansard.measuring.protocol import Profile

if TYPE_CHECKING:
    from mansard.analytics.counters.by_kernel import KernelSum
    from mansard.device.controller.controller import LocalController
    from mansard.inference.counters.ncu import Ncu
    from mansard.inference.counters.plan import CacheControl, CounterTrial
    from mansard.inference.counters.trial import Counting
    from mansard.measuring.events import Measurer

MOST_CALLS = 1000
_PROFILE: Profile = "quick"  # counting has no profile; of a protocol only the name is used


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
    from mansard.inference.counters.plan import CounterPlan
    from mansard.inference.planning import SEED
    from mansard.measuring.plan import cpus_of
    from mansard.measuring.protocol import find_protocol
    from mansard.measuring.runner import missing_trials

    engine = request.settings.engine or "ort"
    probe = target.engine_probe(engine)
    provider = choose_provider(probe, request.settings.provider, has_gpu=True)
    if provider == "cpu" and request.settings.provider is None:
        raise UsageError(
            f"{engine} has no provider for the GPU here, and the CPU has no such counters",
            fix="'mansard doctor' says what is missing",
        )
    trials = _trials(request, preparation, provider, ncu, reporter)
    machine, files = target.controller.identify(), preparation.new_folder()
    plans = []
    for mode in modes:
        plan = CounterPlan(
            profile=_PROFILE,
            machine=machine,
            processor="cpu" if provider == "cpu" else "gpu",
            gpu=None,
            mode=mode,
            cpus=cpus_of(machine, mode),
            trials=trials,
            protocol=find_protocol(_PROFILE),
            seed=SEED,
            versions={"mansard": VERSION, "ncu": ncu.version, **probe.versions},
            unknown={"gpu": "not asked: the tables of counters name it"},
        )
        ids = {spec.trial_id for spec in missing_trials(plan, request.runs)}
        missing = [spec for spec in trials if spec.trial_id in ids]
        write_files = partial(preparation.write, missing, files, reporter)
        plans.append(
            ModePlan(plan, len(missing), files, write_files, of="counters", is_bounded=False)
        )
    return plans


def _trials(
    request: CountRequest, preparation: Preparation, provider: str, ncu: Ncu, reporter: Reporter
) -> tuple[CounterTrial, ...]:
    """One for each network; the metrics are those that ``ncu`` lists for the chip."""
    from mansard.inference.counters.ncu import listed_metrics
    from mansard.inference.counters.plan import CounterTrial

    chip = request.chip or _chip()
    choice = choose_metrics(chip, listed_metrics(ncu, chip))
    if "time" in choice.lacking:
        raise MeasurementError(f"Nsight Compute lists no times for {chip}", fix="use a newer one")
    if choice.lacking:
        reporter.note(f"note: {chip} has no counters of {listed(list(choice.lacking))}")
    preparation.prepare(request.models, reporter)
    return tuple(
        CounterTrial(
            **msgspec.structs.asdict(trial),
            chip=chip,
            metrics=choice.metrics,
            lacking=choice.lacking,
            n_calls=request.n_calls,
            cache_control=request.cache_control,
        )
        for trial in preparation.trials(request.settings.engine or "ort", provider, {})
        if chain_length(trial.model) is None
    )


def _chip() -> str:
    """That of the first card; raises UsageError where there is none, or it is not known."""
    from mansard.inference.counters.card import compute_capability

    sm = compute_capability()
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
    """What the run of a mode holds; raises InputError for a table that cannot be read."""
    from mansard.analytics.counters.by_kernel import by_kernel
    from mansard.analytics.counters.measured import counters_of_run
    from mansard.core.jsonl import read_rows
    from mansard.inference.counters.trial import COUNTERS

    folder, mode = runs / each.plan.run_id, each.plan.mode.name
    if each.plan.run_id not in run_ids:
        return []
    read = {one.run.trial_id: one for one in counters_of_run(folder)}
    found = []
    for row in read_rows(folder / COUNTERS.rows_name, CounterRun, runs).rows:
        one = read.get(row.trial_id)
        if one is None or row.export is None:
            found.append(CountedNetwork(mode, row, None, 0, (), ()))
            continue
        n_launches = sum(kernel.n_launches for kernel in one.kernels)
        sums = by_kernel(one.kernels)
        found.append(CountedNetwork(mode, row, folder / row.export, n_launches, sums, one.notes))
    return found


class _CountingTarget(LocalTarget):
    """This machine; no meter is read, because kernels that are replayed draw another power."""

    def __init__(self, root: Path, controller: LocalController, counting: Counting) -> None:
        super().__init__(root, controller)
        self._place, self._counting = root, counting

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer of counters."""
        from mansard.inference.counters.trial import counter_kind
        from mansard.measuring.measurer import LocalMeasurer

        return LocalMeasurer(root=self._place, kind=counter_kind(self._counting), files=files)
