"""Several networks at once, in stages on several devices, in the modes of a board.

Stages are cut out of the networks as the mappings have them, and prepared for their devices.
"""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.core.records import MachineIdentity, ModelScore, PowerMode
from mansard.core.text import listed, printable
from mansard.estimator import is_functional
from mansard.inference.builds import device_name
from mansard.inference.multi.mappings import (
    MappedNetwork,
    Mapping,
    StagePlace,
    check_mapping,
    device_cpus,
    dla_of,
    in_one_engine,
    is_cpu,
    with_device,
)
from mansard.inference.plan import (
    MultiNetwork,
    MultiPlan,
    MultiStage,
    MultiTrial,
    Order,
    Way,
    make_plan,
)
from mansard.measuring.plan import cpus_of
from mansard.sweeps.accuracies import int8_form
from mansard.sweeps.engine_builds import Builds, builds_files, choose_engine, is_stand_in
from mansard.sweeps.modes import ModePlan
from mansard.sweeps.networks import EngineRequest, LoadedFiles, choose_provider, with_image
from mansard.sweeps.preparation import NetworkSettings, Preparation, keeping_scores, sources_of
from mansard.sweeps.reporter import Reporter
from mansard.sweeps.sweep import Swept, sweep
from mansard.sweeps.targets import BenchTarget, find_processor

if TYPE_CHECKING:
    from mansard.inference.engines.engine import EngineProbe
    from mansard.inference.plan import BuildTrial
    from mansard.inference.preparing import CutChoice, PreparedNetwork
    from mansard.inference.preparing.quantising import Form


class MultiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How several networks are run; the defaults are those of the command."""

    seconds_s: float = 30.0  # of the window, after warming up
    way: Way = "threads"
    order: Order = "in turn"  # of a mapping without turns
    is_exclusive: bool = False  # a device runs one stage at a time
    meter_period_s: float | None = None  # between two readings; None: the meters' own
    is_one_engine: bool = False  # of a network's stages on the GPU and a DLA core


class MultiPreparation(Preparation):
    """Networks, and the stages that mappings cut out of them."""

    title = "several networks"

    def __init__(self, settings: NetworkSettings) -> None:
        super().__init__(msgspec.structs.replace(settings, has_scales=True))
        self._wholes: dict[str, PreparedNetwork] = {}  # by their names in mappings
        # By the network and where its stages end, but for the last.
        self._parts: dict[tuple[str, tuple[int, ...]], tuple[PreparedNetwork, ...]] = {}

    @property
    def scores(self) -> tuple[ModelScore, ...]:
        """Of the whole networks."""
        return tuple(network.score for network in self._wholes.values())

    def cut(self, mappings: Sequence[Mapping], reporter: Reporter, form: Form) -> None:
        """Look at each network once, and cut it as the mappings have it.

        Raises UsageError for a name of several networks, and for a stage that ends at no cut;
        ModelError for a network without one.
        """
        models = tuple(dict.fromkeys(n.model for mapping in mappings for n in mapping.networks))
        self.prepare(models, reporter, form=form)
        with self._lock:
            if not self._wholes and len(self.networks) != len(models):
                raise UsageError(
                    f"{listed(models)} are {len(self.networks)} networks",
                    fix="name each network of a mapping by itself",
                )
            self._wholes = self._wholes or dict(zip(models, self.networks, strict=True))
            for network in (network for mapping in mappings for network in mapping.networks):
                key = (network.model, _ends(network))
                if key not in self._parts:
                    self._parts[key] = self._cut(*key)
                    self.networks += self._parts[key] if key[1] else ()

    def _cut(self, model: str, ends: tuple[int, ...]) -> tuple[PreparedNetwork, ...]:
        from mansard.inference.preparing import cut_choices, split

        whole = self._wholes[model]
        if not ends:
            return (whole,)
        choices = cut_choices(whole, self.store)
        if not choices:
            raise ModelError(
                f"{whole.model} has no cut: nowhere inside it one tensor alone lives",
                fix="run it whole",
            )
        cuts = [_cut_at(whole, choices, end) for end in ends]
        if len(set(cuts)) < len(cuts):
            raise UsageError(f"two stages of {whole.model} end at one cut", fix="name one of them")
        return split(whole, self.store, cuts)

    def _stages(self, network: MappedNetwork) -> tuple[PreparedNetwork, ...]:
        """The stages of a network in their order."""
        return self._parts[network.model, _ends(network)]

    def builds_of(
        self,
        mappings: Sequence[Mapping],
        used: Dict[str, tuple[EngineProbe, str]],
        device_name: str,
    ) -> dict[_Placed, BuildTrial]:
        """The engine file of each stage that needs one, by its ONNX file and place."""
        built: dict[_Placed, BuildTrial] = {}
        stages = [
            (place, stage)
            for mapping in mappings
            for network in mapping.networks
            for place, stage in zip(network.stages, self._stages(network), strict=True)
        ]
        with self._lock:
            for place, stage in stages:
                probe, _ = used[place.device]
                key = _placed(stage, place)
                if is_cpu(place.device) or not builds_files(probe.engine) or key in built:
                    continue
                core = dla_of(place.device)
                settings = msgspec.structs.replace(
                    self.settings.build,
                    dla_core=int(core[3:]) if core else None,
                    dla_nodes=_nodes_on_dla(stage, place),
                    unknown={},
                )
                builds = Builds(settings, self.settings.dims, has_scales=True)
                trials = builds.trials([stage], probe, device_name)
                self._builds.others |= builds.others
                self.samples |= builds.samples
                built[key] = trials[stage.file]
        return built

    def multi_trial(
        self,
        mapping: Mapping,
        used: Dict[str, tuple[EngineProbe, str]],
        built: Dict[_Placed, BuildTrial],
        multi: MultiSettings,
    ) -> MultiTrial:
        """A mapping as one trial of a plan."""
        networks, settings = [], self.settings
        for network in mapping.networks:
            stages = []
            for place, stage in zip(network.stages, self._stages(network), strict=True):
                probe, provider = used[place.device]
                build = built.get(_placed(stage, place))
                trial = stage.trial(
                    engine=probe.engine,
                    provider=provider,
                    n_threads=settings.threads,
                    waiting=settings.waiting,
                    with_graph=settings.with_graph,
                    with_layers=False,
                    engine_file="" if build is None else build.engine_file,
                )
                stages.append(MultiStage(network=trial, device=place.device))
            networks.append(MultiNetwork(stages=tuple(stages)))
        return MultiTrial(
            mapping=_name(mapping, networks),
            mapped=tuple(networks),
            seconds_s=multi.seconds_s,
            way=multi.way,
            order="in step" if mapping.turns else multi.order,
            is_exclusive=multi.is_exclusive,
            turns=mapping.turns,
            has_rounds=mapping.has_rounds,
            meter_period_s=multi.meter_period_s or 0.0,
        )


# The ONNX file of a stage, its device, and which stretches of it are on the DLA.
_Placed = tuple[str, str, tuple[tuple[int, int | None], ...]]


def _placed(stage: PreparedNetwork, place: StagePlace) -> _Placed:
    return (stage.file, place.device, place.on_dla)


def _nodes_on_dla(stage: PreparedNetwork, place: StagePlace) -> tuple[int, ...]:
    """The nodes of a whole network that one engine for the GPU and a DLA runs on the DLA."""
    return tuple(
        row.index
        for row in stage.score.layers
        if any(
            first <= row.index and (last is None or row.index <= last)
            for first, last in place.on_dla
        )
    )


def _ends(network: MappedNetwork) -> tuple[int, ...]:
    """The last nodes of its stages, but for the last one."""
    return tuple(stage.end for stage in network.stages[:-1] if stage.end is not None)


def _cut_at(whole: PreparedNetwork, choices: Sequence[CutChoice], end: int) -> int:
    """The cut behind the node ``end``, or behind what follows it and neither works nor moves.

    Raises UsageError for a node behind which no cut is, with the nearest.
    """
    working = [row.index for row in whole.score.layers if not row.scope and is_functional(row)]
    for choice in choices:
        if choice.node >= end and not any(end < node <= choice.node for node in working):
            return choice.number
    nodes = sorted(choice.node for choice in choices)
    near = [*[node for node in nodes if node < end][-1:], *[n for n in nodes if n > end][:1]]
    raise UsageError(
        f"{whole.model} has no cut behind node {end}",
        fix=f"the nearest: behind {' and '.join(map(str, near))}",
    )


def _name(mapping: Mapping, networks: Sequence[MultiNetwork]) -> str:
    """What a mapping is called: ``resnet50: 57 gpu, dla0; alexnet: cpu``."""
    names = [
        f"{whole.model}: "
        + ", ".join(
            f"{_stretches(stage)}{stage.device}"
            if stage.end is None
            else f"{stage.end} {stage.device}"
            for stage in network.stages
        )
        for network, whole in zip(mapping.networks, networks, strict=True)
    ]
    return "; ".join([*names, *([f"beside {mapping.beside}"] if mapping.beside else [])])


def _stretches(place: StagePlace) -> str:
    """The nodes of one engine that run on a DLA, as the name has them: ``58- on the DLA of ``."""
    nodes = [f"{first}-{'' if last is None else last}" for first, last in place.on_dla]
    return f"{'+'.join(nodes)} on the DLA of " if nodes else ""


_LONGEST_S = 86_400  # a day


class MultiRequest(EngineRequest, frozen=True, kw_only=True):
    """How, where and in which modes mappings are run. At most one batch and one precision."""

    settings: NetworkSettings = NetworkSettings(waiting="block", with_layers=False)
    multi: MultiSettings = MultiSettings()


def whole_mapping(models: Sequence[str], devices: Sequence[str] = ()) -> Mapping:
    """Every network of ``models`` whole, on the devices in turn.

    Without devices on the GPU where there is one, else on the CPU. Raises as ``sources_of``.
    """
    names = [str(source) for model in models for source in sources_of(model)]
    places = [StagePlace(device=device) for device in devices] or [StagePlace()]
    return Mapping(
        networks=tuple(
            MappedNetwork(model=model, stages=(places[number % len(places)],))
            for number, model in enumerate(names)
        )
    )


def sweep_mappings(request: MultiRequest, mappings: Sequence[Mapping], reporter: Reporter) -> Swept:
    """Run each of ``mappings`` in each mode; the failure is the first one.

    Mappings of the same networks that follow one another share their files and a run of each mode;
    the files are removed after it. Raises UsageError for a mapping that nothing could run, and any
    MansardError that keeps everything from being measured.
    """
    settings = request.settings
    if not 0 < request.multi.seconds_s <= _LONGEST_S:
        raise UsageError(f"--duration is above 0 and at most {_LONGEST_S}", fix="use 30")
    if len(settings.batches) > 1 or len(settings.precisions) > 1:
        raise UsageError(
            "several networks at once have one batch size and one precision", fix="name one"
        )
    if request.multi.is_one_engine:
        mappings = list(map(in_one_engine, mappings))
    for mapping in mappings:
        check_mapping(mapping)
        if mapping.turns and request.multi.way == "processes":
            raise UsageError("networks in step run in threads", fix="leave --processes out")
    devices = {place.device for mapping in mappings for place in _places(mapping)}
    if devices and all(map(is_cpu, devices)):
        request = msgspec.structs.replace(request, processor="cpu")
    request = with_image(request)
    run_ids, failure = list[str](), None
    n_after = len(mappings)
    for _, alike in groupby(mappings, key=_models):
        group = tuple(alike)
        n_after -= len(group)
        with (
            MultiPreparation(settings) as preparation,
            keeping_scores(request.runs, preparation),
        ):
            plan = partial(_plan, request, preparation, group, n_after=n_after)
            swept = sweep(request, plan, reporter)
        run_ids += swept.run_ids
        failure = failure or swept.failure
    return Swept(tuple(dict.fromkeys(run_ids)), failure)


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
    machine = target.controller.identify()
    on_cpu = "run all of it on the CPU with --devices cpu"
    gpu = find_processor(target, machine, request.processor, reporter, on_cpu=on_cpu).gpu
    engines = _Engines(target, request, reporter, has_gpu=gpu is not None)
    mappings = [with_device(asked, engines.default_device) for asked in mappings]
    for mapping in mappings:
        check_mapping(mapping)
    devices = sorted({place.device for mapping in mappings for place in _places(mapping)})
    modes = _with_cpus(machine, modes, devices, reporter)
    used = {device: engines.find(device) for device in devices}
    gpu = None if all(map(is_cpu, devices)) else gpu
    preparation.cut(mappings, reporter, engines.form)
    built = preparation.builds_of(mappings, used, device_name(gpu, machine))
    drafts = [preparation.multi_trial(mapping, used, built, request.multi) for mapping in mappings]
    trials = list({trial.trial_id: trial for trial in drafts}.values())  # two ends, one cut
    versions = {name: text for probe, _ in used.values() for name, text in probe.versions.items()}
    probe = msgspec.structs.replace(used[devices[-1]][0], versions=versions)
    files, plans = LoadedFiles(preparation, request, reporter), list[ModePlan]()
    for mode in modes:
        plan = make_plan(
            MultiPlan, machine, mode, trials, probe.versions, gpu, profile=request.profile
        )
        plans.append(
            files.plan(
                plan,
                subject=preparation.title,
                is_bounded=False,
                least_s=request.multi.seconds_s + plan.protocol.settle_s,
                n_after=n_after * len(modes),
            )
        )
    for engine, probe in {probe.engine: probe for probe, _ in used.values()}.items():
        of_engine = [build for build in built.values() if build.engine == engine]
        files.build(of_engine, probe, gpu, target, modes)
    return plans


def _with_cpus(
    machine: MachineIdentity,
    modes: Sequence[PowerMode],
    devices: Sequence[str],
    reporter: Reporter,
) -> list[PowerMode]:
    """The modes that have all CPUs of the devices; raises UsageError where none has."""
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
        if probe.engine == "trtexec" or (dla_of(device) and probe.engine != "tensorrt"):
            raise UsageError(
                f"{probe.engine} cannot run a stage on {device!r}",
                fix="use --engine tensorrt, which needs TensorRT's Python bindings",
            )
        return probe, provider
