"""Layers and stages of networks that are cut out and run alone, each as a network of its own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

import msgspec

from mansard.api.networks import (
    MeasuredNetwork,
    MeasureRequest,
    MeasureResult,
    measure_prepared,
    measured_rows,
    sweep_networks,
    with_image,
)
from mansard.api.preparation import Preparation
from mansard.api.reporter import SILENT, Reporter
from mansard.core.errors import MansardError, MeasurementError, UsageError
from mansard.core.records import Measurement, NetworkPart
from mansard.core.text import listed
from mansard.device.system import parse_cpu_list

if TYPE_CHECKING:
    from mansard.analytics.models.predict.group_times import GroupTimes
    from mansard.analytics.models.predict.parts import PartSum, PartTimes
    from mansard.inference.plan import BuildTrial, NetworkTrial
    from mansard.inference.preparing import PreparedNetwork, PreparedPart
    from mansard.inference.preparing.quantising import Form
    from mansard.measuring.protocol import Protocol


class LayerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which parts of the networks are run alone, and how long each is metered."""

    kind: Literal["layer", "stage"] = "layer"
    slowest: int | None = None  # only so many of each network; None: all
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


class LayersResult(msgspec.Struct, frozen=True):
    """Whole networks and their parts, and the sum of these against the whole.

    ``parts``: of the newest row of each part in each mode.
    """

    whole: MeasureResult
    rows: tuple[MeasuredNetwork, ...]  # of the parts
    parts: tuple[PartTimes, ...]
    sums: tuple[PartSum, ...]
    groups: tuple[GroupTimes, ...]  # stages and groups by accelerator, where some of these were run
    failure: MansardError | None

    def check(self) -> None:
        """Raise what could not be measured."""
        self.whole.check()
        if self.failure is not None:
            raise self.failure
        failed = [found.row.model for found in self.rows if found.row.failure is not None]
        if failed:
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} measurements failed, of "
                f"{listed(list(dict.fromkeys(failed)))}",
                fix="the remarks above say why; to try one again, move the folder of its run away",
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


def measure_layers(
    request: MeasureRequest, alone: LayerSettings, reporter: Reporter = SILENT
) -> LayersResult:
    """Run ``request.models`` whole, then their layers or stages one by one, in each mode.

    Networks are measured as by ``measure_networks``, and kept in the same runs; parts have a run
    of their own in each mode. An int8 network has its ranges in its file, as its parts have: those
    that a builder finds itself are of the whole alone. Raises any MansardError that keeps
    everything from being measured.
    """
    if request.settings.is_dynamic:
        raise UsageError("a layer has the shapes of its batch", fix="leave --dynamic out")
    settings = msgspec.structs.replace(request.settings, has_scales=True)
    request = msgspec.structs.replace(request, settings=settings)
    request = with_image(request)
    with Preparation(request.settings) as prepared:
        prepared.later_partitions = alone.partitions
        whole = measure_prepared(request, prepared, reporter)
        ran = [found.row for found in whole.rows if found.row.failure is None]
        with _PartPreparation(prepared, request.profile, alone, ran) as preparation:
            swept = sweep_networks(request, preparation, reporter)
    rows = tuple(measured_rows(request.runs, swept.run_ids, of_parts=True))
    parts, sums, groups = _compared(request.runs, swept.run_ids, reporter)
    return LayersResult(whole, rows, parts, sums, groups, swept.failure)


def _protocol(profile: str, alone: LayerSettings) -> Protocol:
    """That of the profile, with the windows of ``alone``."""
    from mansard.measuring.protocol import find_protocol

    protocol = find_protocol(profile)
    changes: dict[str, float] = {}
    if alone.window_s is not None:
        longest_s = max(protocol.energy_window_cap_s, 3 * alone.window_s)
        changes |= {"energy_window_s": alone.window_s, "energy_window_cap_s": longest_s}
    if alone.boundary_s is not None:
        changes |= dict.fromkeys(("settle_s", "settle_cap_s"), alone.boundary_s)
    return msgspec.structs.replace(protocol, **changes)


class _PartPreparation(Preparation):
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
            msgspec.structs.replace(each, rest_s=self._alone.rest_s, meter_period_s=period_s)
            for each in super().trials(engine, provider, builds)
        )

    def _parts(self, network: PreparedNetwork, reporter: Reporter) -> Sequence[PreparedPart]:
        from mansard.inference.preparing import cut, group_cuts, split

        alone = self._alone
        if alone.n_groups is None and not alone.with_transitions:
            found = cut(network, self.store, alone.kind)
            for line in found.left_out:
                reporter.note(f"note: {line}")
            return self._chosen(found.parts, reporter)
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
        seconds_s = [sum(_seconds_s(row, each.part) for row in rows) for each in parts]
        if not any(seconds_s):
            untraced = "the engine does not say which nodes its layers are" if rows else "it failed"
            why = next((row.unknown["layers"] for row in rows if row.layers is None), untraced)
            reporter.note(
                f"note: {first.part.whole}: every layer is run alone: which are the slowest is not "
                f"known: {why}"
            )
            return parts
        order = sorted(range(len(parts)), key=lambda at: -seconds_s[at])
        return [parts[at] for at in sorted(order[:most])]


def again(whole: PreparedPart, times: int) -> PreparedPart:
    """The last prefix of a network, as the part that is run so many times after the first."""
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


def _compared(
    runs: Path, run_ids: frozenset[str], reporter: Reporter
) -> tuple[tuple[PartTimes, ...], tuple[PartSum, ...], tuple[GroupTimes, ...]]:
    """The parts of these runs, their sums beside whole networks that the folder holds, groups."""
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.models.predict.group_times import group_times
    from mansard.analytics.models.predict.parts import measured_parts, part_sums
    from mansard.api.counters import group_bytes_in

    try:
        dataset = open_runs([runs], newest_only=True)
        parts = [each for each in measured_parts(dataset) if each.run_id in run_ids]
        counted = group_bytes_in([runs], dataset.scores)
        return tuple(parts), part_sums(dataset, run_ids), group_times(dataset, run_ids, counted)
    except MansardError as error:
        reporter.note(f"note: what was measured is kept, but not compared: {error}")
        return (), (), ()


def write_nn_profiler(runs: Path, folder: Path, *, replaces: bool = False) -> tuple[Path, ...]:
    """Write all parts in the folder ``runs`` into ``folder`` as NN-Profiler does, a file of a mode.

    Returns their paths. A file that Mansard did not write raises UsageError unless it
    ``replaces``. Raises StorageError, and what is wrong with the runs.
    """
    from mansard.analytics.data.opening import open_runs
    from mansard.analytics.pages.report.nn_profiler import mode_files, parts_of
    from mansard.api.profiler_files import write_profiler_files

    files = mode_files(parts_of(open_runs([runs], newest_only=True)))
    return write_profiler_files(files, folder, replaces=replaces)
