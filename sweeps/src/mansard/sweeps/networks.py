"""Networks that are run on an engine: which engine, provider and files, planned mode by mode."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from mansard.core.errors import MeasurementError, UsageError
from mansard.core.onnx_runtime import install_remedy
from mansard.core.records import (
    Gpu,
    MachineIdentity,
    Manifest,
    Measurement,
    ModelScore,
    PowerMode,
    chain_length,
)
from mansard.estimator.summary import too_large_note
from mansard.inference.builds import device_name
from mansard.inference.engine_files import EngineFiles
from mansard.inference.engines import find_engine
from mansard.inference.networks import NETWORKS
from mansard.inference.plan import (
    AccuracyPlan,
    AccuracyTrial,
    BuildTrial,
    MultiTrial,
    NetworkPlan,
    NetworkTrial,
    any_mode,
    make_plan,
    with_cpus,
)
from mansard.measuring.identity import read_environment, unset_notes
from mansard.sweeps.accuracies import int8_form
from mansard.sweeps.engine_builds import builds_files, choose_engine, is_stand_in
from mansard.sweeps.modes import ModePlan, plan_run
from mansard.sweeps.preparation import NetworkSettings, Preparation, keeping_scores
from mansard.sweeps.reporter import Reporter
from mansard.sweeps.rows import rows_of, start_key
from mansard.sweeps.sweep import (
    DryRun,
    SweepRequest,
    Swept,
    dry_run,
    reachable_hosts,
    sweep,
)
from mansard.sweeps.targets import BenchTarget, find_processor

if TYPE_CHECKING:
    from mansard.inference.engines.engine import EngineProbe
    from mansard.measuring.plan import PlannedTrial, RunPlan


RequestT = TypeVar("RequestT", bound="EngineRequest")
_TENSORRT = ("tensorrt", "trtexec")  # engines that images with TensorRT have, the better first


class EngineRequest(SweepRequest, frozen=True, kw_only=True):
    """How networks are run, where and in which modes."""

    settings: NetworkSettings = NetworkSettings()


class MeasureRequest(EngineRequest, frozen=True, kw_only=True):
    """Which networks are to be run, how, where and in which modes."""

    models: tuple[str, ...]  # ONNX files, or names of the zoo


def sweep_networks(request: MeasureRequest, preparation: Preparation, reporter: Reporter) -> Swept:
    """Measure what ``preparation`` makes of ``request.models`` in each mode; its scores are kept.

    One row for each network, precision, batch and mode. Raises any MansardError that keeps
    everything from being measured.
    """
    with keeping_scores(request.runs, preparation):
        if request.hosts:
            # Reports faults of hosts before anything else, and faults of networks once for all.
            reachable_hosts(request)
            preparation.prepare(request.models, reporter)
        return sweep(request, partial(_plan, request, preparation), reporter)


def dry_run_networks(
    request: MeasureRequest, preparation: Preparation, reporter: Reporter
) -> Iterator[DryRun]:
    """What ``sweep_networks`` would do on each board; nothing is built or written."""
    preparation.is_dry_run = True
    yield from dry_run(request, partial(_plan, request, preparation), reporter)


def with_image(request: RequestT) -> RequestT:
    """``request`` for an image that has the engine which it asks for.

    Where it names none, but the CPU or CUDA, that is ONNX Runtime. Raises UsageError for an engine
    that is not known.
    """
    if request.settings.engine is not None:
        find_engine(request.settings.engine)
    settings = request.settings
    is_for_ort = request.processor == "cpu" or settings.provider in {"cpu", "cuda"}
    if settings.engine is None and is_for_ort:
        settings = msgspec.structs.replace(settings, engine="ort")
    engine = settings.engine
    engines = _TENSORRT if engine is None else tuple({engine} & set(_TENSORRT))
    wanted = msgspec.structs.replace(request.wanted_image, engines=engines)
    return msgspec.structs.replace(request, settings=settings, wanted_image=wanted)


def _plan(
    request: MeasureRequest,
    preparation: Preparation,
    target: BenchTarget,
    modes: Sequence[PowerMode],
    reporter: Reporter,
) -> list[ModePlan]:
    machine = target.controller.identify()
    gpu = find_processor(target, machine, request.processor, reporter).gpu
    return plan_networks(preparation, request.models, target, modes, request, reporter, gpu=gpu)


def plan_networks(
    preparation: Preparation,
    models: Sequence[str],
    target: BenchTarget,
    modes: Sequence[PowerMode],
    request: SweepRequest,
    reporter: Reporter,
    *,
    gpu: Gpu | None,
    is_lenient: bool = False,
) -> list[ModePlan]:
    """The plan of each mode's networks, in the order of ``modes``.

    ``gpu``: that the kernels' probe found. ``is_lenient``: as for ``Preparation.prepare``. Raises
    MeasurementError where the engine is not there, before a network is looked at.
    """
    settings, machine = preparation.settings, target.controller.identify()
    probe = choose_engine(target, machine, settings.engine, reporter)
    has_gpu = gpu is not None or is_stand_in(probe)
    provider = choose_provider(probe, settings.provider, has_gpu=has_gpu, machine_kind=machine.kind)
    if gpu is not None and provider == "cpu" and settings.provider != "cpu":
        _require_cpu_is_meant(probe, gpu, machine, reporter, is_lenient=is_lenient)
        gpu = None
    form = int8_form(probe.engine, provider)
    later = preparation.later_partitions
    if any((*preparation.partitions, *later)) and provider != "cpu":
        raise UsageError(
            f"--cpus divides the CPU, and the networks run on {probe.engine} {provider}",
            fix="add --processor cpu, or leave --cpus out",
        )
    _check_used(settings, probe.engine, provider)
    preparation.prepare(models, reporter, is_lenient=is_lenient, form=form)
    _note_too_large(preparation.scores, machine, reporter)
    builds = preparation.builds(probe, device_name(gpu, machine))
    trials = preparation.trials(probe.engine, provider, builds)
    files = LoadedFiles(preparation, request, reporter)
    plans = [
        _plan_accuracy(trial, machine, probe, gpu, files)
        for trial in preparation.accuracy_trials(probe.engine, provider, builds)
    ]
    for mode, cpus in itertools.product(modes, preparation.partitions):
        plan = make_plan(
            NetworkPlan,
            machine,
            mode,
            trials,
            probe.versions,
            gpu,
            profile=request.profile,
            protocol=preparation.protocol,
        )
        for partition in later:
            with_cpus(plan, partition)
        plans.append(files.plan(with_cpus(plan, cpus), subject=preparation.title))
    files.build(builds.values(), probe, gpu, target, modes)
    return [planned for planned in plans if planned.plan.trials]


def _note_too_large(
    scores: Iterable[ModelScore], machine: MachineIdentity, reporter: Reporter
) -> None:
    """Say before it is tried what cannot fit; a card has memory of its own, which is not known."""
    if machine.kind == "gpu":
        return
    for score in scores:
        line = too_large_note(score, machine.memory_bytes, machine.name)
        if line is not None:
            reporter.note(f"note: {line}")


def _check_used(settings: NetworkSettings, engine: str, provider: str) -> None:
    """Raise UsageError for a setting that the engine or its provider would ignore."""
    if settings.with_graph and provider == "cpu":
        raise UsageError(
            f"{engine} on the CPU has no CUDA graph", fix="leave --graph out, or measure the GPU"
        )
    if settings.threads is not None and builds_files(engine):
        raise UsageError(
            f"{engine} runs networks on the GPU, with one thread of the host",
            fix="leave --threads out, or use --engine ort",
        )


def _plan_accuracy(
    trial: AccuracyTrial,
    machine: MachineIdentity,
    probe: EngineProbe,
    gpu: Gpu | None,
    files: LoadedFiles,
) -> ModePlan:
    """A run of ``trial`` alone.

    It is found again whatever else is asked for, and in whichever modes: the machine is left as it
    is.
    """
    mode = any_mode(machine)
    plan = make_plan(AccuracyPlan, machine, mode, (trial,), probe.versions, gpu, profile="brief")
    title = f"accuracy of {trial.network.model} in {trial.network.precision}"
    return files.plan(plan, subject=title, is_bounded=False)


def _require_cpu_is_meant(
    probe: EngineProbe, gpu: Gpu, machine: MachineIdentity, reporter: Reporter, *, is_lenient: bool
) -> None:
    """Say that the networks run on the CPU of a machine whose GPU was meant; raises UsageError.

    ``is_lenient``: beside kernels on the GPU their rows are told apart, so that a note is enough.
    """
    reasons = [f"{name}: {reason}" for name, reason in probe.absent.items()]
    what = f"{probe.engine} cannot run networks on {gpu.name} ({'; '.join(reasons)})"
    if not is_lenient:
        raise UsageError(
            what,
            fix="install an engine for the GPU (onnxruntime-gpu, or TensorRT and --engine "
            "tensorrt), or measure the CPU with --processor cpu",
        )
    reporter.note(f"note: {what}; the networks run on the CPU, {machine.name}")


class LoadedFiles:
    """What planned trials load on one board: ONNX files, samples, engine files; made where missing.

    The request's ``runs`` keeps the rows, and the engine files that were built.
    """

    def __init__(self, preparation: Preparation, request: SweepRequest, reporter: Reporter) -> None:
        self._preparation, self._runs, self._reporter = preparation, request.runs, reporter
        self._identity, names = request.identity, request.variables
        self._environment = read_environment(names)
        for line in unset_notes(names):
            reporter.note(line)
        self._folder = preparation.new_folder()
        self._engine_files: set[str] = set()  # that missing trials load

    def plan(self, plan: RunPlan, **fields: Any) -> ModePlan:
        """``plan`` with the files of the trials that the runs lack; ``fields``: of ``ModePlan``."""
        plan = msgspec.structs.replace(plan, environment=self._environment)
        planned = plan_run(plan, self._runs, self._identity, files=self._folder, **fields)
        networks = [network for trial in planned.missing for network in _networks_of(trial)]
        self._engine_files |= {network.engine_file for network in networks}
        write = partial(self._write, planned.missing, networks)
        return msgspec.structs.replace(planned, write_files=write)

    def build(
        self,
        builds: Iterable[BuildTrial],
        probe: EngineProbe,
        gpu: Gpu | None,
        target: BenchTarget,
        modes: Sequence[PowerMode],
    ) -> None:
        """Build those of ``builds`` that missing trials load and the runs lack."""
        wanted = [build for build in builds if build.engine_file in self._engine_files]
        self._preparation.build(
            wanted, probe, gpu, target, modes, runs=self._runs, reporter=self._reporter
        )

    def _write(self, trials: Sequence[PlannedTrial], networks: Sequence[NetworkTrial]) -> None:
        onnx = [trial for trial in networks if not trial.engine_file or trial.inputs_file]
        self._preparation.write(onnx, self._folder, self._reporter)
        built = {trial.engine_file for trial in networks}
        EngineFiles(self._runs).link(filter(None, built), self._folder)
        for trial in trials:
            if isinstance(trial, AccuracyTrial):
                self._preparation.write_samples(trial.samples.file, self._folder, self._reporter)


def _networks_of(trial: PlannedTrial) -> Sequence[NetworkTrial]:
    if isinstance(trial, MultiTrial):
        return trial.stage_networks
    network = trial.network if isinstance(trial, AccuracyTrial) else trial
    return (network,) if isinstance(network, NetworkTrial) else ()


def choose_provider(
    probe: EngineProbe, wanted: str | None, *, has_gpu: bool, machine_kind: str = "cpu"
) -> str:
    """The provider that is asked for, or the fastest: TensorRT, CUDA, the CPU.

    Raises MeasurementError where the engine is not there, UsageError for a provider that is not,
    or that needs a GPU where there is none.
    """
    if probe.providers is None:
        fix = install_remedy(machine_kind, has_gpu=has_gpu)
        if probe.engine != "ort":
            fix = "'mansard doctor' says what is missing; --engine ort needs onnxruntime alone"
        raise MeasurementError(
            f"networks cannot be run: {probe.unknown['providers']}",
            fix=fix,
        )
    if wanted is not None:
        if wanted not in probe.providers:
            raise UsageError(
                f"{probe.engine} has no provider {wanted!r} here",
                fix=f"it has {', '.join(probe.providers)}",
            )
        if wanted != "cpu" and not has_gpu:
            raise UsageError(
                f"provider {wanted!r} needs a GPU, but the CPU was requested",
                fix="name the provider cpu, or measure the GPU",
            )
        return wanted
    order = ("tensorrt", "cuda", "cpu") if has_gpu else ("cpu",)
    fastest = next((name for name in order if name in probe.providers), None)
    if fastest is None:
        raise UsageError(
            f"{probe.engine} runs only on the GPU, but the CPU was requested",
            fix="use --engine ort, or measure the GPU",
        )
    return fastest


def measured_rows(
    runs: Path, run_ids: Iterable[str], *, of_parts: bool = False
) -> list[tuple[Manifest, Measurement]]:
    """The rows of networks, or of their parts, in the order in which the runs were start_key."""
    return [
        (manifest, row)
        for manifest, row in sorted(rows_of(runs, run_ids, NETWORKS), key=start_key)
        if chain_length(row.model) is None and row.is_part == of_parts
    ]
