"""Layers and stages of networks, cut out and prepared to run alone, each as its own network."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.core.errors import UsageError
from mansard.core.records import Measurement, ModelScore, NetworkPart
from mansard.device.system import parse_cpu_list
from mansard.measuring.protocol import Protocol, find_protocol
from mansard.sweeps.preparation import Preparation
from mansard.sweeps.reporter import Reporter

if TYPE_CHECKING:
    from mansard.inference.plan import BuildTrial, NetworkTrial
    from mansard.inference.preparing import PreparedNetwork, PreparedPart
    from mansard.inference.preparing.quantising import Form


class LayerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which parts of the networks are run alone, and how long each is metered."""

    kind: Literal["layer", "stage"] = "layer"
    slowest: int | None = None  # number of layers of each network to measure; None: all
    window_s: float | None = None  # of an energy window; None: that of the profile
    boundary_s: float | None = None  # it runs before its first window; None: until power settles
    rest_s: float = 0.0  # nothing of ours runs before each part
    meter_period_s: float | None = None  # between two readings; None: the meters' own
    n_groups: int | None = None  # that stages are joined to; None: the finest stages
    with_transitions: bool = False  # also the network marked at each cut, and prefixes on a DLA
    partitions: tuple[tuple[int, ...], ...] = ()  # CPUs that parts run on; none: all of the mode

    def __post_init__(self) -> None:
        if self.kind != "stage" and (self.n_groups is not None or self.with_transitions):
            raise UsageError(
                "layers are no groups that follow one another", fix="use --each-layer stages"
            )


def parse_each_layer(text: str) -> tuple[Literal["layer", "stage"], int | None]:
    """``all``, ``stages`` or how many of the slowest layers; raises UsageError."""
    if text in {"all", "stages"}:
        return ("stage" if text == "stages" else "layer"), None
    if text.isascii() and text.isdigit() and int(text) > 0:
        return "layer", int(text)
    raise UsageError(
        f"--each-layer {text!r} names no layers",
        fix="use all, stages, or how many of the slowest: --each-layer 10",
    )


def parse_cpus(text: str) -> tuple[int, ...]:
    """The CPUs of ``2-3`` or ``0,2``; raises UsageError."""
    try:
        cpus = parse_cpu_list(text)
    except ValueError:
        cpus = ()
    if not cpus:
        raise UsageError(f"--cpus {text!r} names no CPUs", fix="write --cpus 0 or --cpus 2-3")
    return tuple(sorted(set(cpus)))


def _protocol(profile: str, alone: LayerSettings) -> Protocol:
    """That of the profile, with the windows of ``alone``."""
    protocol = find_protocol(profile)
    changes: dict[str, float] = {}
    if alone.window_s is not None:
        longest_s = max(protocol.energy_window_cap_s, 3 * alone.window_s)
        changes |= {"energy_window_s": alone.window_s, "energy_window_cap_s": longest_s}
    if alone.boundary_s is not None:
        changes |= dict.fromkeys(("settle_s", "settle_cap_s"), alone.boundary_s)
    return msgspec.structs.replace(protocol, **changes)


class PartPreparation(Preparation):
    """The parts of networks that are prepared. ``ran``: rows of these, for the slowest."""

    def __init__(
        self,
        whole: Preparation,
        profile: str,
        alone: LayerSettings,
        ran: Sequence[Measurement],
    ) -> None:
        super().__init__(whole.settings)
        self.title = f"{alone.kind}s alone"
        self.protocol = _protocol(profile, alone)
        self._whole, self._alone, self._ran = whole, alone, ran
        self.partitions = alone.partitions or ((),)
        self._is_cut = False

    @property
    def scores(self) -> tuple[ModelScore, ...]:
        """Of the whole networks."""
        return self._whole.scores

    @property
    def store(self) -> Path:
        """The folder of the whole networks' files, which parts are cut out of."""
        return self._whole.store

    def prepare(
        self,
        models: Sequence[str],
        reporter: Reporter,
        *,
        is_lenient: bool = False,
        form: Form = "tensorrt",
    ) -> None:
        """Cut every network at every batch and precision; their whole files are written."""
        self._whole.prepare(models, reporter, is_lenient=is_lenient, form=form)
        with self._lock:
            if self._is_cut:
                return
            whole = self._whole.networks
            with reporter.progress("Cutting networks") as progress:
                for number, network in enumerate(whole):
                    progress.update(number, len(whole), None, network.model)
                    self.networks += self._parts(network, reporter)
                progress.update(len(whole), len(whole), None, "done")
            self._is_cut = True

    def trials(
        self, engine: str, provider: str, builds: Mapping[str, BuildTrial]
    ) -> tuple[NetworkTrial, ...]:
        """One for each part, with its rest and the meters' period."""
        period_s = self._alone.meter_period_s or 0.0
        return tuple(
            msgspec.structs.replace(trial, rest_s=self._alone.rest_s, meter_period_s=period_s)
            for trial in super().trials(engine, provider, builds)
        )

    def _parts(self, network: PreparedNetwork, reporter: Reporter) -> Sequence[PreparedPart]:
        from mansard.inference.preparing import cut, group_cuts, split

        alone = self._alone
        if alone.n_groups is None and not alone.with_transitions:
            layers = cut(network, self.store, alone.kind)
            for line in layers.left_out:
                reporter.note(f"note: {line}")
            return self._chosen(layers.parts, reporter)
        cuts = group_cuts(network, self.store, alone.n_groups or sys.maxsize)
        stages = split(network, self.store, cuts)
        if len(stages) < (alone.n_groups or 0):
            reporter.note(f"note: {network.model} has {len(stages)} stages, so as many groups")
        if not alone.with_transitions:
            return stages
        prefixes = split(network, self.store, cuts, "prefix")
        on_dla = self.settings.build.dla_core is not None
        parts = [*stages, *(prefixes[:1] if on_dla else ()), again(prefixes[-1], 0)]
        # A mark costs less than what may change in a minute: the unmarked network stands on both
        # sides of each.
        for number, marked in enumerate(split(network, self.store, cuts, "marked"), 1):
            begun = prefixes[number : number + 1] if on_dla and number < len(cuts) else ()
            parts += [marked, *begun, again(prefixes[-1], number)]
        return parts

    def _chosen(self, parts: Sequence[PreparedPart], reporter: Reporter) -> Sequence[PreparedPart]:
        """The slowest ones, or all, in the order in which they run."""
        most = self._alone.slowest
        if most is None or most >= len(parts):
            return parts
        first = parts[0]
        rows = [
            row
            for row in self._ran
            if (row.model_hash, row.precision) == (first.part.whole_hash, first.precision)
            and (row.batch, row.dimensions) == (first.batch, first.dimensions)
        ]
        seconds_s = [sum(_seconds_s(row, part.part) for row in rows) for part in parts]
        if not any(seconds_s):
            untraced = "the engine does not say which nodes its layers are" if rows else "it failed"
            why = next((row.unknown["layers"] for row in rows if row.layers is None), untraced)
            reporter.note(
                f"note: {first.part.whole}: every layer is run alone: the slowest ones are "
                f"unknown: {why}"
            )
            return parts
        order = sorted(range(len(parts)), key=lambda at: -seconds_s[at])
        return [parts[at] for at in sorted(order[:most])]


def again(whole: PreparedPart, times: int) -> PreparedPart:
    """The last prefix of a network, as the part that is run ``times`` times after the first."""
    number = whole.part.number + times
    part = msgspec.structs.replace(whole.part, number=number)
    return msgspec.structs.replace(whole, model=f"{part.whole} {part.kind} {number}", part=part)


def _seconds_s(row: Measurement, part: NetworkPart) -> float:
    """What the engine's layers take that hold nodes of ``part``, by their share of its nodes."""
    nodes, total_s = set(part.nodes), 0.0
    for layer in row.layers or ():
        if layer.nodes and layer.seconds_s:
            share = len(nodes.intersection(layer.nodes)) / len(layer.nodes)
            total_s += share * median(layer.seconds_s)
    return total_s
