"""Networks that are run on an engine, in the modes of a board: alone, or within a bench."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from mansard.api.accuracies import int8_form, plan_accuracy
from mansard.api.engine_builds import choose_engine, is_stand_in
from mansard.api.measurements import ModePlan
from mansard.api.preparation import NetworkSettings, Preparation
from mansard.api.reporter import SILENT, Reporter
from mansard.api.scores import keep_scores
from mansard.api.sweeps import SweepRequest, Swept, chosen_hosts, sweep
from mansard.api.targets import BenchTarget, find_processor
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.records import Measurement, PowerMode, chain_length
from mansard.core.text import listed

if TYPE_CHECKING:
    from mansard.analytics.data.accuracies import NetworkAccuracy
    from mansard.analytics.models.predict.measured import NetworkTimes
    from mansard.analytics.models.predict.memory_use import MemoryTraffic
    from mansard.core.records import EngineBuild, Gpu, MachineIdentity
    from mansard.inference.accuracy.plan import AccuracyTrial
    from mansard.inference.engines.engine import EngineProbe
    from mansard.inference.plan import NetworkTrial


RequestT = TypeVar("RequestT", bound="EngineRequest")
_TENSORRT = ("tensorrt", "trtexec")  # engines that images with TensorRT have, the better first


class EngineRequest(SweepRequest, frozen=True, kw_only=True):
    """How networks are run, where and in which modes."""

    settings: NetworkSettings = NetworkSettings()


class MeasureRequest(EngineRequest, frozen=True, kw_only=True):
    """Which networks are to be run, how, where and in which modes."""

    models: tuple[str, ...]  # ONNX files, or names of the zoo


class MeasuredNetwork(msgspec.Struct, frozen=True):
    """A row, and the mode that it was measured in."""

    machine: str
    mode: str
    row: Measurement


class MeasureResult(msgspec.Struct, frozen=True):
    """What was measured, now or before, beside what is predicted, and what could not be.

    ``times``: of the newest row of each network in each mode; ``accuracies``: of networks that were
    fed with samples. Both are empty where the folder as a whole cannot be read, which a note says.
    """

    rows: tuple[MeasuredNetwork, ...]
    times: tuple[NetworkTimes, ...]
    accuracies: tuple[NetworkAccuracy, ...]
    failure: MansardError | None
    memory: tuple[MemoryTraffic, ...] = ()  # of boards that report their memory's use
    builds: tuple[EngineBuild, ...] = ()  # of the engine files that were needed to measure

    def check(self) -> None:
        """Raise ``failure``, if there is one, or name the networks that could not be run."""
        from mansard.inference.failures import NOT_BUILT, is_for_now

        if self.failure is not None:
            raise self.failure
        failed = [found for found in self.rows if found.row.failure is not None]
        wrong = [found for found in self.accuracies if found.remark]
        if wrong and not failed:
            first = wrong[0]
            raise MeasurementError(
                f"the accuracy of {first.network} in {first.precision} could not be measured: "
                f"{first.remark}",
                fix="to try again, move the folder of its run away",
            )
        if failed:
            reasons = [str(found.row.failure) for found in failed]
            names = listed(list(dict.fromkeys(found.row.model for found in failed)))
            lasting = [why for why in reasons if not is_for_now(why)]
            again = "to try one again, move the folder of its run away"
            if any(why.startswith(NOT_BUILT) for why in lasting):
                again += ", and of what could not be built also the .json in RUNS/engines"
            if not lasting:
                again = "the same command tries again"
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} measurements failed, of {names}",
                fix=f"the remarks above say why; {again}",
            )


def measure_networks(request: MeasureRequest, reporter: Reporter = SILENT) -> MeasureResult:
    """Run ``request.models`` in each mode, and keep every row in ``request.runs``.

    One row for each network, precision, batch and mode; what was measured before is not measured
    again. Raises any MansardError that keeps everything from being measured.
    """
    request = with_image(request)
    with Preparation(request.settings) as preparation:
        return measure_prepared(request, preparation, reporter)


def measure_prepared(
    request: MeasureRequest, preparation: Preparation, reporter: Reporter
) -> MeasureResult:
    """As ``measure_networks``, with what ``preparation`` makes of ``request.models``."""
    keep_scores(request.runs, ())  # a file of scores that cannot be read is an error now
    try:
        swept = sweep_networks(request, preparation, reporter)
    finally:
        if request.runs.exists():  # something was measured
            keep_scores(request.runs, preparation.scores)
    rows = tuple(measured_rows(request.runs, swept.run_ids))
    times, accuracies, memory = _known(request.runs, swept.run_ids, reporter)
    builds = tuple(preparation.built.values())
    return MeasureResult(rows, times, accuracies, swept.failure, memory, builds)


def sweep_networks(request: MeasureRequest, preparation: Preparation, reporter: Reporter) -> Swept:
    """Measure what ``preparation`` makes of ``request.models`` in each mode."""
    if request.hosts:
        chosen_hosts(request)  # what is wrong with them is said first
        preparation.prepare(request.models, reporter)  # faults first, and once for all boards
    return sweep(request, partial(_plan, request, preparation), reporter)


def with_image(request: RequestT) -> RequestT:
    """``request`` for an image that has the engine which it asks for.

    Where it names none, but the CPU or CUDA, that is ONNX Runtime. Raises UsageError for an engine
    that is not known.
    """
    from mansard.inference.engines import find_engine

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
    found = find_processor(target, machine, request.processor, reporter)
    return plan_networks(
        preparation, request.models, target, modes, request, reporter, gpu=found.gpu
    )


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
    from mansard.inference.builds import device_name
    from mansard.inference.plan import NetworkPlan
    from mansard.inference.planning import kept_to, make_plan
    from mansard.measuring.runner import missing_trials

    settings, machine = preparation.settings, target.controller.identify()
    probe = choose_engine(target, machine, settings.engine, reporter)
    has_gpu = gpu is not None or is_stand_in(probe)
    provider = choose_provider(probe, settings.provider, has_gpu=has_gpu)
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
    preparation.prepare(models, reporter, is_lenient=is_lenient, form=form)
    builds = preparation.builds(probe, device_name(gpu, machine))
    trials = preparation.trials(probe.engine, provider, builds)
    files = preparation.new_folder()
    plans, needed = [], set[str]()
    for spec in preparation.accuracy_trials(probe.engine, provider, builds):
        write = partial(_write_accuracy, preparation, spec, files, request.runs, reporter)
        plans.append(
            plan_accuracy(spec, machine, probe, request.runs, gpu=gpu, files=files, write=write)
        )
        needed |= {spec.network.engine_file} if plans[-1].n_missing else set()
    for mode, cpus in itertools.product(modes, preparation.partitions):
        plan = make_plan(
            NetworkPlan,
            machine,
            mode,
            trials,
            probe,
            gpu,
            profile=request.profile,
            protocol=preparation.protocol,
        )
        for each in later:
            kept_to(plan, each)
        plan = kept_to(plan, cpus)
        ids = {spec.trial_id for spec in missing_trials(plan, request.runs)}
        missing = [spec for spec in plan.trials if spec.trial_id in ids]
        needed |= {spec.engine_file for spec in missing}
        write_files = partial(write_loaded, preparation, missing, files, request.runs, reporter)
        plans.append(ModePlan(plan, len(missing), files, write_files, of=preparation.title))
    wanted = [build for build in builds.values() if build.engine_file in needed]
    preparation.build(wanted, probe, gpu, target, modes, runs=request.runs, reporter=reporter)
    return [each for each in plans if each.plan.trials]


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


def write_loaded(
    preparation: Preparation,
    trials: Sequence[NetworkTrial],
    folder: Path,
    runs: Path,
    reporter: Reporter,
) -> None:
    """Write what an engine loads of ``trials`` into ``folder``: ONNX files, or engine files."""
    from mansard.inference.engine_files import EngineFiles

    own = [trial for trial in trials if not trial.engine_file or trial.inputs_file]
    preparation.write(own, folder, reporter)
    EngineFiles(runs).link(filter(None, {trial.engine_file for trial in trials}), folder)


def _write_accuracy(
    preparation: Preparation, trial: AccuracyTrial, folder: Path, runs: Path, reporter: Reporter
) -> None:
    """Write the network of ``trial`` and its samples into ``folder``."""
    write_loaded(preparation, [trial.network], folder, runs, reporter)
    preparation.write_samples(trial.samples.file, folder, reporter)


def choose_provider(probe: EngineProbe, wanted: str | None, *, has_gpu: bool) -> str:
    """The provider that is asked for, or the fastest: TensorRT, CUDA, the CPU.

    Raises MeasurementError where the engine is not there, UsageError for a provider that it
    lacks, or that needs a GPU where there is none.
    """
    if probe.providers is None:
        fix = "install onnxruntime, or leave the networks out"
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
                f"provider {wanted!r} needs a GPU, and the CPU is to be measured",
                fix="name the provider cpu, or measure the GPU",
            )
        return wanted
    order = ("tensorrt", "cuda", "cpu") if has_gpu else ("cpu",)
    found = next((name for name in order if name in probe.providers), None)
    if found is None:
        raise UsageError(
            f"{probe.engine} runs on the GPU alone, and the CPU is to be measured",
            fix="use --engine ort, or measure the GPU",
        )
    return found


def _known(
    runs: Path, run_ids: frozenset[str], reporter: Reporter
) -> tuple[tuple[NetworkTimes, ...], tuple[NetworkAccuracy, ...], tuple[MemoryTraffic, ...]]:
    """What these runs measured beside what the folder's other runs predict of it, and the use of
    the memory."""
    from mansard.analytics.data.accuracies import network_accuracies
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.models.predict.measured import measured_networks
    from mansard.analytics.models.predict.memory_use import memory_traffic
    from mansard.analytics.models.predict.prediction import NetworkSelection, predict
    from mansard.analytics.models.scaling.observations import network_measurements

    try:
        dataset = open_runs([runs], newest_only=True)
        rows = [row for row in network_measurements(dataset) if row.run_id in run_ids]
        wanted = [NetworkSelection(name=name) for name in dict.fromkeys(row.model for row in rows)]
        found = measured_networks(dataset, predict(dataset, wanted).predictions)
        memory = memory_traffic(dataset)
    except MansardError as error:
        reporter.note(f"note: what was measured is kept, but not compared: {error}")
        return (), (), ()
    return (
        tuple(each for each in found if not run_ids.isdisjoint(each.run_ids)),
        tuple(each for each in network_accuracies(dataset, run_ids) if each.run_id in run_ids),
        tuple(each for each in memory if each.run_id in run_ids),
    )


def measured_rows(
    runs: Path, run_ids: frozenset[str], *, of_parts: bool = False
) -> list[MeasuredNetwork]:
    """The rows of networks, or of their parts, in the order in which the runs were begun."""
    from mansard.core.documents import read_document
    from mansard.core.jsonl import read_rows
    from mansard.core.records import Manifest

    manifests = [
        read_document(runs / run_id / "manifest.json", Manifest, runs) for run_id in run_ids
    ]
    return [
        MeasuredNetwork(manifest.machine.name, manifest.mode_read_back.name, row)
        for manifest in sorted(manifests, key=lambda each: (each.started_utc, each.run_id))
        if manifest.kind == "networks"
        for row in read_rows(runs / manifest.run_id / "measurements.jsonl", Measurement, runs).rows
        if chain_length(row.model) is None and row.is_part == of_parts
    ]
