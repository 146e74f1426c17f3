"""The stages that mappings of several networks cut out of them, prepared for their devices."""

from __future__ import annotations

from collections.abc import Mapping as Dict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mansard.core.errors import ModelError, UsageError
from mansard.core.records import ModelScore
from mansard.core.text import listed
from mansard.inference.multi.plan import (
    MappedNetwork,
    Mapping,
    MultiNetwork,
    MultiStage,
    MultiTrial,
    Order,
    Way,
    is_cpu,
    is_dla,
)
from mansard.sweeps.engine_builds import Builds, builds_files
from mansard.sweeps.preparation import NetworkSettings, Preparation
from mansard.sweeps.reporter import Reporter

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
        models = tuple(dict.fromkeys(n.model for each in mappings for n in each.networks))
        self.prepare(models, reporter, form=form)
        with self._lock:
            if not self._wholes and len(self.networks) != len(models):
                raise UsageError(
                    f"{listed(models)} are {len(self.networks)} networks",
                    fix="name each network of a mapping by itself",
                )
            self._wholes = self._wholes or dict(zip(models, self.networks, strict=True))
            for network in (network for each in mappings for network in each.networks):
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
    ) -> dict[tuple[str, str], BuildTrial]:
        """The engine file of each stage that needs one, by its ONNX file and device."""
        built: dict[tuple[str, str], BuildTrial] = {}
        stages = [
            (place.device, stage)
            for mapping in mappings
            for network in mapping.networks
            for place, stage in zip(network.stages, self._stages(network), strict=True)
        ]
        with self._lock:
            for device, (probe, _) in used.items():
                if is_cpu(device) or not builds_files(probe.engine):
                    continue
                core = int(device[3:]) if is_dla(device) else None
                settings = msgspec.structs.replace(self.settings.build, dla_core=core, unknown={})
                builds = Builds(settings, self.settings.dims, has_scales=True)
                on_device = [stage for on, stage in stages if on == device]
                trials = builds.trials(on_device, probe, device_name)
                self._builds.others |= builds.others
                self.samples |= builds.samples
                built |= {(file, device): trial for file, trial in trials.items()}
        return built

    def multi_trial(
        self,
        mapping: Mapping,
        used: Dict[str, tuple[EngineProbe, str]],
        built: Dict[tuple[str, str], BuildTrial],
        multi: MultiSettings,
    ) -> MultiTrial:
        """A mapping as one trial of a plan."""
        networks, settings = [], self.settings
        for network in mapping.networks:
            stages = []
            for place, stage in zip(network.stages, self._stages(network), strict=True):
                probe, provider = used[place.device]
                build = built.get((stage.file, place.device))
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
        )


def _ends(network: MappedNetwork) -> tuple[int, ...]:
    """The last nodes of its stages, but for the last one."""
    return tuple(stage.end for stage in network.stages[:-1] if stage.end is not None)


def _cut_at(whole: PreparedNetwork, choices: Sequence[CutChoice], end: int) -> int:
    """The cut behind the node ``end``, or behind what follows it and neither works nor moves.

    Raises UsageError for a node behind which no cut is, with the nearest.
    """
    from mansard.estimator import is_functional

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
            each.device if each.end is None else f"{each.end} {each.device}"
            for each in network.stages
        )
        for network, whole in zip(mapping.networks, networks, strict=True)
    ]
    return "; ".join([*names, *([f"beside {mapping.beside}"] if mapping.beside else [])])
