"""``mansard measure MODEL``: each network's time and energy in each mode.

``mansard measure MODEL --each-layer``: networks, their parts alone, and the sum of these.
"""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from mansard import api
from mansard.analytics.data.quantities import seconds
from mansard.api import command_line, results
from mansard.cli.console import TerminalReporter, note, print_json, print_lines
from mansard.cli.data.network_runs import on_devices, run_tables, why_lines
from mansard.cli.data.summary import (
    accuracy_tables,
    group_tables,
    measured_tables,
    memory_tables,
    part_tables,
)
from mansard.cli.dry_runs import print_dry_runs
from mansard.cli.measuring.option_groups import (
    BuildGroup,
    ModeGroup,
    NetworkGroup,
    OutputGroup,
    PartGroup,
    PlaceGroup,
)
from mansard.cli.options import parse_dimensions, parse_precisions, parse_sizes
from mansard.cli.tables import print_tables
from mansard.cli.terminal import plain
from mansard.core.records import Measurement
from mansard.core.table import Table

_TERMS = (
    "Shares of the network's time. Calls: one engine call per part instead of one for all.",
    "Conversions: casts and reorders added at the cuts. Fusion: nodes that run as one layer in the",
    "network and separately here. Caches: data of a part that runs alone stay close. Rest: cost of",
    "profiling, start of nodes, noise.",
)


def measure_layers(
    models: Sequence[str],
    modes: ModeGroup,
    how: NetworkGroup,
    alone: PartGroup,
    place: PlaceGroup,
    output: OutputGroup,
) -> None:
    """Run networks, then their parts alone, in each mode; raises the error of what was not."""
    request = request_of(models, modes, how, place)
    if modes.dry_run:
        _print_dry_run(request, place, output)
        note("--each-layer then runs the parts; their number is unknown in a dry run")
        return
    kind, slowest = command_line.parse_each_layer(how.each_layer or "all")
    settings = api.LayerSettings(
        kind=kind,
        slowest=slowest,
        window_s=alone.window,
        boundary_s=alone.boundary,
        rest_s=alone.rest,
        meter_period_s=alone.meter_interval,
        n_groups=alone.groups,
        with_transitions=alone.transitions,
        partitions=tuple(map(command_line.parse_cpus, alone.cpus or [])),
    )
    result = api.measure_layers(request, settings, TerminalReporter(is_agreed=place.yes))
    print_layers(
        result,
        modes.runs,
        with_layers=how.layers,
        all_rows=output.all_rows,
        as_json=output.as_json,
    )


def print_layers(
    result: results.LayersResult,
    runs: Path,
    *,
    with_layers: bool,
    all_rows: bool,
    as_json: bool,
) -> None:
    """Print the networks, their parts and the sums; raises the error of what was not measured."""
    if as_json:
        print_json(
            "measure",
            {
                **as_dictionary(result.whole),
                "parts": result.parts,
                "sums": result.sums,
                "groups": result.groups,
            },
        )
    else:
        print_times(result.whole, with_layers=with_layers, all_rows=all_rows)
        print_tables(part_tables(result.sums, result.parts))
        print_tables(group_tables(result.groups))
        if result.sums:
            note(" ".join(_TERMS))
        for whole in result.sums:
            if whole.difference_s is None:
                note(f"{whole.network}: sum not compared: {whole.unknown['difference_s']}")
        _note_energy(result.parts)
        note_saved(runs)
    result.check()


def note_saved(runs: Path) -> None:
    """Note where the runs are, and the command that draws them."""
    note(f"saved in {runs}: mansard report --runs {shlex.quote(str(runs))} draws it")


def _note_energy(parts: Sequence[results.PartTimes]) -> None:
    """Why parts have no energy, each reason once."""
    reasons = Counter(row.unknown["energy_j"] for row in parts if row.energy_j is None)
    for why, n_parts in reasons.items():
        note(f"energy of {n_parts} of {len(parts)} parts unknown: {why}")


_MOST_NETWORKS = 20  # of the short tables
_MOST_LAYERS = 30  # of a table, the slowest


def measure_networks(
    models: Sequence[str],
    modes: ModeGroup,
    how: NetworkGroup,
    place: PlaceGroup,
    output: OutputGroup,
) -> None:
    """Run networks in each mode and print their times; raises the error of what failed."""
    request = request_of(models, modes, how, place)
    if modes.dry_run:
        _print_dry_run(request, place, output)
        return
    result = api.measure_networks(request, TerminalReporter(is_agreed=place.yes))
    print_networks(
        result,
        modes.runs,
        with_layers=how.layers,
        all_rows=output.all_rows,
        as_json=output.as_json,
    )


def _print_dry_run(request: api.MeasureRequest, place: PlaceGroup, output: OutputGroup) -> None:
    reporter = TerminalReporter(is_agreed=place.yes)
    print_dry_runs(api.dry_run(request, reporter), as_json=output.as_json)


def request_of(
    models: Sequence[str], modes: ModeGroup, how: NetworkGroup, place: PlaceGroup
) -> api.MeasureRequest:
    """The request that the options describe; raises UsageError for an invalid value."""
    settings = build_settings(
        how,
        provider=how.provider,
        inputs=how.inputs,
        accuracy=api.AccuracySettings(
            data=how.data,
            labels=how.labels,
            preprocess=how.preprocess,
            n_samples=how.samples,
            calibration=how.calibration,
        ),
        threads=how.threads,
        copies=how.copies,
        waiting=how.wait,
        with_graph=how.graph,
    )
    return api.MeasureRequest(
        models=tuple(models),
        settings=settings,
        mode=modes.mode,
        pick=modes.pick,
        profile=modes.profile,
        runs=modes.runs,
        label=modes.label,
        variables=tuple(modes.env or ()),
        is_again=modes.again,
        **place_of(place),
    )


def build_settings(
    how: BuildGroup, compute_capability: str | None = None, **others: Any
) -> api.NetworkSettings:
    """How engine files are built, with ``others`` of the settings; raises UsageError."""
    return api.NetworkSettings(
        engine=how.engine,
        batches=parse_sizes("--batch", how.batch) if how.batch else (),
        precisions=parse_precisions(how.precision),
        dims=parse_dimensions(how.dim or []),
        build=api.BuildSettings(
            optimization_level=how.opt_level,
            workspace_bytes=None if how.workspace is None else round(how.workspace),
            dla_core=how.dla,
            dla_nodes=() if how.dla_nodes is None else command_line.parse_nodes(how.dla_nodes),
            with_fallback=how.fallback,
            compute_capability=compute_capability,
        ),
        is_dynamic=how.dynamic,
        **others,
    )


def place_of(place: PlaceGroup) -> dict[str, Any]:
    """The fields of a request that say where it is done."""
    return {
        "board": place.board,
        "processor": place.processor,
        "is_local": place.local,
        "hosts": tuple(place.host or ()),
        "hosts_file": place.hosts_file,
        "wanted_image": api.WantedImage(
            name=place.image,
            table=place.images,
            is_offline=place.offline,
            engine=place.container_engine,
        ),
    }


def print_networks(
    result: results.MeasureResult, runs: Path, *, with_layers: bool, all_rows: bool, as_json: bool
) -> None:
    """Print what was measured and is kept in ``runs``; raises the error of what was not."""
    if as_json:
        print_json("measure", as_dictionary(result))
    else:
        print_times(result, with_layers=with_layers, all_rows=all_rows)
        _note_next(result, runs)
    result.check()


def as_dictionary(result: results.MeasureResult) -> dict[str, object]:
    """What ``--json`` prints of networks; lists of parts are empty where none ran alone."""
    names = ("times", "accuracies", "rows", "memory", "builds")
    measured = {name: getattr(result, name) for name in names}
    return {**measured, "parts": (), "sums": (), "groups": ()}


def print_times(result: results.MeasureResult, *, with_layers: bool, all_rows: bool) -> None:
    """Print the tables of networks, and on stderr the doubts about their rows."""
    on_device = on_devices(result.times)
    where: dict[str, str] = defaultdict(str)  # by run
    where |= {run: on_device[row.device] for row in result.times for run in row.run_ids}
    if all_rows:
        print_tables(measured_tables(result.times))
    else:
        print_tables(run_tables(result.times, _MOST_NETWORKS))
        print_lines(why_lines(result.times, _MOST_NETWORKS))
    print_tables(accuracy_tables(result.accuracies))
    print_tables(memory_tables(result.memory) if all_rows else ())
    if with_layers:
        tables = [_layers(one, where[one.row.run_id]) for one in result.rows if one.row.layers]
        print_tables(tables)
    shown = {row.remark for row in result.times}
    times = {
        (run_id, *_setting(row)): plain(seconds(row.time_s, row.low_s, row.high_s, advise=False))
        for row in result.times
        for run_id in row.run_ids
    }
    for one in result.rows:
        _note_doubts(one, where[one.row.run_id], shown, times)
    for row in result.times:
        if row.energy_high_j is not None and row.energy_j is None and row.time_s is not None:
            name = f"{row.network} in {row.mode}{on_device[row.device]}"
            note(f"{name}: energy unknown: {row.unknown['energy_j']}")


def _layers(one: results.MeasuredNetwork, where: str) -> Table:
    layers = [(median(layer.seconds_s), layer) for layer in one.row.layers or () if layer.seconds_s]
    whole_s = sum(time_s for time_s, _ in layers)
    layers.sort(key=lambda timed: -timed[0])
    cells = [
        (
            str(layer.index),
            layer.op_type,
            "unknown" if layer.nodes is None else ", ".join(map(str, layer.nodes)) or "none",
            seconds(time_s),
            f"{time_s / whole_s:.1%}" if whole_s else "unknown",
        )
        for time_s, layer in layers[:_MOST_LAYERS]
    ]
    more = f", the slowest {_MOST_LAYERS} of {len(layers)}" if len(layers) > _MOST_LAYERS else ""
    title = (
        f"Layers of {_name(one)}{where}, while profiled; nodes: by their index in the score{more}"
    )
    return Table(title, ("layer", "operator", "nodes", "time", "share"), cells)


def _name(one: results.MeasuredNetwork) -> str:
    """``resnet18 × 8 fp32 in 15W``."""
    batch = "" if one.row.batch is None else f" × {one.row.batch}"
    return f"{one.row.model}{batch} {one.row.precision} in {one.mode}"


def _setting(row: Measurement | results.NetworkTimes) -> tuple[object, ...]:
    return (row.model_hash, row.batch, row.precision, row.phase)


def _note_doubts(
    one: results.MeasuredNetwork,
    where: str,
    shown: Collection[str],
    times: Mapping[tuple[object, ...], str],
) -> None:
    """Print the doubts about a row that no remark in the table, one of ``shown``, states.

    ``times``: with their intervals, by run id and ``_setting``.
    """
    name, row = f"{_name(one)}{where}", one.row
    if row.failure is not None:
        if row.failure not in shown:
            note(f"{name}: not run: {row.failure}")
        return
    disturbed = "; ".join(row.disturbances)
    if disturbed and row.seconds_s and disturbed not in shown:
        note(f"{name}: disturbed: {disturbed}")
    if not row.seconds_s:
        note(
            f"{name}: disturbed: other programs used the CPUs in every sample, so the time is not "
            "used for predictions; the same command measures it again"
        )
    elif row.stability == "unstable":
        why = row.unknown.get("stability_interval") or times.get(
            (row.run_id, *_setting(row)), "its blocks differ"
        )
        note(f"{name}: the time is uncertain: {why}")
    if row.layers is None:
        note(f"{name}: no layers: {row.unknown['layers']}")


def _note_next(result: results.MeasureResult, runs: Path) -> None:
    """Note how to get predictions if there are none, where the runs are, and how to draw them."""
    if not result.times:
        return
    if all(row.predicted_s is None for row in result.times):
        why, folder = result.times[0].unknown["predicted_s"], shlex.quote(str(runs))
        again = "" if result.times[0].is_unmodelled else " --again"
        note(f"no predictions: {why}; mansard bench{again} --runs {folder} measures the roofs")
    note_saved(runs)
