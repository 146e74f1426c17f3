"""Networks under Nsight Compute: the GPU's counters of their kernels, in the modes of a board."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mansard.core.errors import MeasurementError, UsageError
from mansard.core.formats.ncu import chip_of, choose_metrics
from mansard.core.records import Gpu, MachineIdentity, PowerMode, chain_length
from mansard.core.text import listed
from mansard.inference.builds import device_name
from mansard.inference.counters.ncu import Ncu, compute_capability, find_ncu, listed_metrics
from mansard.inference.counters.trial import Counting, counter_kind
from mansard.inference.plan import CacheControl, CounterPlan, CounterTrial, make_plan
from mansard.measuring.measurer import LocalMeasurer
from mansard.sweeps.accuracies import int8_form
from mansard.sweeps.engine_builds import builds_files, choose_engine, is_stand_in
from mansard.sweeps.modes import ModePlan
from mansard.sweeps.networks import LoadedFiles, choose_provider
from mansard.sweeps.preparation import NetworkSettings, Preparation, keeping_scores
from mansard.sweeps.reporter import Reporter
from mansard.sweeps.sweep import SweepRequest, Swept, sweep
from mansard.sweeps.targets import BenchTarget, LocalTarget, find_processor

if TYPE_CHECKING:
    from mansard.device.controller import BoardController
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


def sweep_counters(request: CountRequest, reporter: Reporter) -> Swept:
    """Run networks under Nsight Compute in each mode, and keep its tables in ``request.runs``.

    It runs on this machine and not in a container: counters need rights that no measuring
    container is given. Raises UsageError, DeniedError where this user may not read counters, and
    what keeps a board from being measured.
    """
    if request.hosts:
        raise UsageError(
            "counters are read on the machine itself, not with --host",
            fix="run 'mansard models ncu run' on the board",
        )
    if not 1 <= request.n_calls <= MOST_CALLS:
        raise UsageError(f"--calls is from 1 to {MOST_CALLS}", fix="leave it out")
    with (
        Preparation(request.settings) as preparation,
        keeping_scores(request.runs, preparation),
    ):
        ncu = find_ncu(request.ncu)
        return sweep(
            request,
            partial(_plan, request, preparation, ncu),
            reporter,
            make_local=partial(_CountingTarget, Counting(ncu, request.runs)),
        )


def _plan(
    request: CountRequest,
    preparation: Preparation,
    ncu: Ncu,
    target: BenchTarget,
    modes: Sequence[PowerMode],
    reporter: Reporter,
) -> list[ModePlan]:
    """The plan of each mode; engine files are built on this machine first."""
    machine, settings = target.controller.identify(), request.settings
    probe = choose_engine(target, machine, settings.engine, reporter)
    provider = _provider(probe, settings.provider)
    gpu = _gpu(target, machine, probe, provider, reporter)
    metrics = _metrics(request, ncu, gpu, reporter)
    preparation.prepare(request.models, reporter, form=int8_form(probe.engine, provider))
    builds = preparation.builds(probe, device_name(gpu, machine))
    trials = tuple(
        CounterTrial(**msgspec.structs.asdict(trial), **metrics)
        for trial in preparation.trials(probe.engine, provider, builds)
        if chain_length(trial.model) is None
    )
    files = LoadedFiles(preparation, request, reporter)
    plans = []
    for mode in modes:
        plan = make_plan(CounterPlan, machine, mode, trials, probe.versions, gpu)
        plan = msgspec.structs.replace(
            plan,
            processor="cpu" if provider == "cpu" else "gpu",
            versions={**plan.versions, "ncu": ncu.version},
            unknown={} if gpu else {"gpu": "the networks run on the CPU, or CuPy is not there"},
        )
        plans.append(files.plan(plan, subject="counters", is_bounded=False, how_to_repeat=""))
    files.build(builds.values(), probe, gpu, target, modes)
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
    target: BenchTarget,
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
    sm = compute_capability() if gpu is None else gpu.sm
    if sm is None:
        raise UsageError(
            "no NVIDIA driver answers, so the chip is unknown",
            fix="load the driver, or name the chip with --chip",
        )
    chip = chip_of(sm)
    if chip is None:
        raise UsageError(
            f"no chip of Nsight Compute is known for compute capability {sm / 10:.1f}",
            fix="name it with --chip ('ncu --list-chips'); before 7.0 there is none",
        )
    return chip


class _CountingTarget(LocalTarget):
    """This machine; no meter is read, because kernels that are replayed draw another power."""

    def __init__(self, counting: Counting, root: Path, controller: BoardController) -> None:
        super().__init__(root, controller)
        self._counting = counting

    def measurer(self, files: Path | None = None) -> Measurer:
        """A measurer of counters."""
        return LocalMeasurer(root=self._root, kind=counter_kind(self._counting), files=files)
