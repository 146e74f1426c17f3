"""Several networks at once, in stages on several devices, in the modes of a board."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.accuracies import int8_form
from mansard.api.engine_builds import choose_engine, is_stand_in
from mansard.api.measurements import ModePlan
from mansard.api.multi_preparation import MultiPreparation, MultiSettings
from mansard.api.networks import EngineRequest, choose_provider, with_image, write_loaded
from mansard.api.preparation import NetworkSettings
from mansard.api.reporter import SILENT, Reporter
from mansard.api.scores import keep_scores, onnx_files
from mansard.api.sweeps import sweep
from mansard.api.targets import BenchTarget, find_processor
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.records import MachineIdentity, ModelScore, MultiRun, PowerMode
from mansard.core.text import printable
from mansard.inference.multi.mappings import (
    MappedNetwork,
    Mapping,
    StagePlace,
    check_mapping,
    with_device,
)
from mansard.inference.multi.plan import (
    device_cpus,
    is_cpu,
    is_dla,
    stage_networks,
)

if TYPE_CHECKING:
    from mansard.inference.engines.engine import EngineProbe
    from mansard.inference.preparing.quantising import Form


_LONGEST_S = 86_400  # a day


class MultiRequest(EngineRequest, frozen=True, kw_only=True):
    """How, where and in which modes mappings are run. At most one batch and one precision."""

    settings: NetworkSettings = NetworkSettings(waiting="block", with_layers=False)
    multi: MultiSettings = MultiSettings()


class MeasuredMulti(msgspec.Struct, frozen=True):
    """A row, and the mode that it was measured in."""

    machine: str
    mode: str
    row: MultiRun


class MultiResult(msgspec.Struct, frozen=True):
    """What ran, now or before, and what could not be measured."""

    rows: tuple[MeasuredMulti, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, or name the mappings that could not be run."""
        if self.failure is not None:
            raise self.failure
        failed = [found.row for found in self.rows if found.row.failure is not None]
        if failed:
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} mappings could not be run; the first: "
                f"{failed[0].failure}",
                fix="to try one again, move the folder of its run away",
            )


def single_names(models: Sequence[str]) -> list[str]:
    """The networks that ``models`` name, by a name of each: files, folders, names of the zoo.

    Raises InputError for a folder without any.
    """
    from mansard.estimator import zoo

    return [
        str(source)
        for model in models
        for source in onnx_files(model) or zoo.family(model) or (model,)
    ]


def whole_mapping(models: Sequence[str], devices: Sequence[str] = ()) -> Mapping:
    """Every network of ``models`` whole, on the devices in turn.

    Without devices on the GPU where there is one, else on the CPU. Raises as ``single_names``.
    """
    found = single_names(models)
    places = [StagePlace(device=device) for device in devices] or [StagePlace()]
    return Mapping(
        networks=tuple(
            MappedNetwork(model=model, stages=(places[number % len(places)],))
            for number, model in enumerate(found)
        )
    )


def run_mappings(
    request: MultiRequest, mappings: Sequence[Mapping], reporter: Reporter = SILENT
) -> MultiResult:
    """Run each of ``mappings`` in each mode, and keep every row in ``request.runs``.

    Mappings of the same networks that follow one another share their files and a run of each mode;
    the files are removed after it. What was measured before, or comes twice, is not measured
    again. Raises UsageError for a mapping that nothing could run, and any MansardError that keeps
    everything from being measured.
    """
    settings = request.settings
    if not 0 < request.multi.seconds_s <= _LONGEST_S:
        raise UsageError(f"--seconds is above 0 and at most {_LONGEST_S}", fix="use 30")
    if len(settings.batches) > 1 or len(settings.precisions) > 1:
        raise UsageError(
            "several networks at once have one batch size and one precision", fix="name one"
        )
    for mapping in mappings:
        check_mapping(mapping)
        if mapping.turns and request.multi.way == "processes":
            raise UsageError("networks in step run in threads", fix="leave --processes out")
    devices = {place.device for mapping in mappings for place in _places(mapping)}
    if devices and all(map(is_cpu, devices)):
        request = msgspec.structs.replace(request, processor="cpu")
    request = with_image(request)
    keep_scores(request.runs, ())  # a file of scores that cannot be read is an error now
    run_ids, failures = set[str](), list[MansardError]()
    n_after = len(mappings)
    for _, each in groupby(mappings, key=_models):
        group, preparation = tuple(each), MultiPreparation(settings)
        n_after -= len(group)
        plan = partial(_plan, request, preparation, group, n_after=n_after)
        with preparation:
            try:
                found = sweep(request, plan, reporter)
            finally:
                if request.runs.exists():
                    keep_scores(request.runs, preparation.scores)
        run_ids |= found.run_ids
        failures += [found.failure] if found.failure else []
    return MultiResult(tuple(_rows(request.runs, run_ids)), failures[0] if failures else None)


def write_run_files(
    result: MultiResult, runs: Path, folder: Path, *, replaces: bool = False
) -> tuple[Path, ...]:
    """Write what ran into ``folder`` as NN-Profiler does, a file of each row; returns their paths.

    ``runs``: the folder of runs, for the networks' scores. A file that Mansard did not write raises
    UsageError unless it ``replaces``. Raises StorageError.
    """
    from mansard.analytics.pages.report.nn_profiler_runs import run_files
    from mansard.api.profiler_files import write_profiler_files
    from mansard.core.jsonl import read_rows

    rows = [(each.machine, each.mode, each.row) for each in result.rows]
    files = run_files(rows, read_rows(runs / "scores.jsonl", ModelScore, runs).rows)
    return write_profiler_files(files, folder, replaces=replaces)


def _places(mapping: Mapping) -> list[StagePlace]:
    return [place for network in mapping.networks for place in network.stages]


def _models(mapping: Mapping) -> tuple[str, ...]:
    return tuple(sorted({network.model for network in mapping.networks}))


def _plan(
    request: MultiRequest,
    preparation: MultiPreparation,
    mappings: Sequence[Mapping],
    target: BenchTarget,
    modes: Sequence[PowerMode],
    reporter: Reporter,
    *,
    n_after: int,
) -> list[ModePlan]:
    """The plan of each mode; raises UsageError and MeasurementError for an absent device.

    ``n_after``: mappings that follow these.
    """
    from mansard.inference.builds import device_name
    from mansard.inference.multi.plan import MultiPlan
    from mansard.inference.planning import make_plan
    from mansard.measuring.runner import missing_trials

    machine = target.controller.identify()
    on_cpu = "run all of it on the CPU with --devices cpu"
    gpu = find_processor(target, machine, request.processor, reporter, on_cpu=on_cpu).gpu
    engines = _Engines(target, request, reporter, has_gpu=gpu is not None)
    mappings = [with_device(each, engines.default_device) for each in mappings]
    for mapping in mappings:
        check_mapping(mapping)
    devices = sorted({place.device for mapping in mappings for place in _places(mapping)})
    modes = _with_cpus(machine, modes, devices, reporter)
    used = {device: engines.find(device) for device in devices}
    gpu = None if all(map(is_cpu, devices)) else gpu
    preparation.cut(mappings, reporter, engines.form)
    built = preparation.builds_of(mappings, used, device_name(gpu, machine))
    found = [preparation.multi_trial(each, used, built, request.multi) for each in mappings]
    trials = list({each.trial_id: each for each in found}.values())  # two ends may mean one cut
    versions = {name: text for probe, _ in used.values() for name, text in probe.versions.items()}
    probe = msgspec.structs.replace(used[devices[-1]][0], versions=versions)
    files, plans, needed = preparation.new_folder(), list[ModePlan](), set[str]()
    for mode in modes:
        plan = make_plan(MultiPlan, machine, mode, trials, probe, gpu, profile=request.profile)
        ids = {trial.trial_id for trial in missing_trials(plan, request.runs)}
        missing = [trial for trial in trials if trial.trial_id in ids]
        stages = [each for trial in missing for each in stage_networks(trial)]
        needed |= {each.engine_file for each in stages}
        write = partial(write_loaded, preparation, stages, files, request.runs, reporter)
        plans.append(
            ModePlan(
                *(plan, len(missing), files, write, preparation.title),
                is_bounded=False,
                least_s=request.multi.seconds_s + plan.protocol.settle_s,
                n_after=n_after * len(modes),
            )
        )
    wanted = [build for build in built.values() if build.engine_file in needed]
    for each, _ in used.values():
        own = [build for build in wanted if build.engine == each.engine]
        preparation.build(own, each, gpu, target, modes, runs=request.runs, reporter=reporter)
        wanted = [build for build in wanted if build not in own]
    return plans


def _with_cpus(
    machine: MachineIdentity,
    modes: Sequence[PowerMode],
    devices: Sequence[str],
    reporter: Reporter,
) -> list[PowerMode]:
    """The modes that have all CPUs of the devices; raises UsageError where none has."""
    from mansard.measuring.plan import cpus_of

    errors = dict[str, UsageError]()
    for mode in modes:
        try:
            for device in devices:
                device_cpus(device, cpus_of(machine, mode))
        except UsageError as error:
            errors[mode.name] = error
    if len(errors) == len(modes):
        raise next(iter(errors.values()))
    for name, why in errors.items():
        reporter.note(f"{printable(name)}: left out: {why}")
    return [mode for mode in modes if mode.name not in errors]


class _Engines:
    """Which engine and provider run what is on a device."""

    def __init__(
        self, target: BenchTarget, request: MultiRequest, reporter: Reporter, *, has_gpu: bool
    ) -> None:
        settings, machine = request.settings, target.controller.identify()
        self._target, self._wanted = target, settings.provider
        self._main = choose_engine(target, machine, settings.engine, reporter)
        self._has_gpu = has_gpu or is_stand_in(self._main)

    @property
    def default_device(self) -> str:
        """That of a stage without one."""
        is_wanted = self._has_gpu and self._wanted != "cpu"
        return "gpu" if is_wanted and set(self._main.providers or ()) - {"cpu"} else "cpu"

    @property
    def form(self) -> Form:
        """Of int8: what every engine in use can run."""
        return int8_form(self._main.engine, self._wanted or "")

    def find(self, device: str) -> tuple[EngineProbe, str]:
        """The engine and its provider; raises UsageError for a device that they cannot use."""
        probe, wanted = self._main, self._wanted
        if is_cpu(device):
            probe, wanted = self._target.engine_probe("ort"), "cpu"
        provider = choose_provider(probe, wanted, has_gpu=self._has_gpu)
        if not is_cpu(device) and provider == "cpu":
            raise UsageError(
                f"there is no device {device!r}: no GPU that {probe.engine} can use",
                fix="map the stages to cpu, or see 'mansard doctor'",
            )
        if probe.engine == "trtexec" or (is_dla(device) and probe.engine != "tensorrt"):
            raise UsageError(
                f"{probe.engine} cannot run a stage on {device!r}",
                fix="use --engine tensorrt, which needs TensorRT's Python bindings",
            )
        return probe, provider


def _rows(runs: Path, run_ids: Collection[str]) -> list[MeasuredMulti]:
    """The rows in the order in which the runs were begun."""
    from mansard.core.documents import read_document
    from mansard.core.jsonl import read_rows
    from mansard.core.records import Manifest

    manifests = [
        read_document(runs / run_id / "manifest.json", Manifest, runs) for run_id in run_ids
    ]
    return [
        MeasuredMulti(manifest.machine.name, manifest.mode_read_back.name, row)
        for manifest in sorted(manifests, key=lambda each: (each.started_utc, each.run_id))
        for row in read_rows(runs / manifest.run_id / "multi.jsonl", MultiRun, runs).rows
    ]
