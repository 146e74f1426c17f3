"""Rows of tables of networks that others ran, and of layers in a profile, as records.

Where several meters watch one board or card, all of their powers are kept, and none is chosen.

Of layers, a profile has times, a list of layers has types, formats and kernels:
``published_layers`` brings both together by the names of the layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean, median
from types import MappingProxyType
from typing import TYPE_CHECKING

from mansard.analytics.data.published.cells import (
    LARGEST_COUNT,
    NOT_SAID,
    Cells,
    LayerRow,
    TextTable,
    check_modes,
)
from mansard.analytics.data.published.columns import TAILS, KnownColumn
from mansard.analytics.data.published.origin import BOUNDS, SHARE, PublishedOrigin, bound_of_figure
from mansard.core.errors import InputError
from mansard.core.formats.tensorrt import LONGEST_LAYER_NAME, take_apart
from mansard.core.records import Phase, PublishedLayer, PublishedRun, with_known
from mansard.core.text import listed

if TYPE_CHECKING:
    import polars as pl


def read_layers(
    table: TextTable, columns: Sequence[KnownColumn], origin: PublishedOrigin
) -> Iterator[PublishedLayer]:
    """The layers of all rows, without their table's id yet; raises InputError."""
    for row in table.rows:
        if row.layers:
            cells = Cells(table, tuple(columns), row)
            values = _shared(cells, origin)
            for index, layer in enumerate(row.layers):
                yield _record(cells.where, values, index, layer)


def _shared(cells: Cells, origin: PublishedOrigin) -> dict[str, object]:
    """What all layers of a row have in common."""
    return {
        "table_id": "",
        "row": cells.row.line,
        "device": origin.device,
        "processor": origin.processor,
        "citation": origin.citation,
        "mode": cells.mode(),
        "network": cells.needed("network"),
        "batch": cells.count("batch"),
        "precision": cells.precision(),
        "method": cells.text("method"),
    }


def _record(where: str, shared: dict[str, object], index: int, layer: LayerRow) -> PublishedLayer:
    if not layer.name or len(layer.name) > LONGEST_LAYER_NAME:
        raise InputError(
            f"layer {index} has a name of {len(layer.name):,} characters",
            where=where,
            fix="export it again",
        )
    for what, value, bound in (
        ("time", layer.mean_s, BOUNDS["time"]),
        ("time", layer.median_s, BOUNDS["time"]),
        ("share", layer.share, SHARE),
    ):
        if value and not bound.holds(round(value, 6) if bound is SHARE else value):
            raise InputError(
                f"layer {index} has a {what} of {value:.4g}, which is impossible: {bound.text}",
                where=where,
                fix="export it again",
            )
    if layer.runs is not None and not 1 <= layer.runs <= LARGEST_COUNT:
        raise InputError(
            f"layer {index} is of {layer.runs} calls", where=where, fix="export it again"
        )
    fused = take_apart(layer.name, layer.metadata, is_copy=layer.is_copy)
    values = shared | {
        "index": index,
        "name": layer.name,
        "parts": fused.parts,
        "kind": fused.kind,
        "op_type": layer.op_type,
        "layer_precision": layer.precision,
        "tactic": layer.tactic,
        "mean_s": layer.mean_s,
        "median_s": layer.median_s,
        "share": layer.share,
        "runs": layer.runs,
    }
    unknown = {name: NOT_SAID for name, value in values.items() if value is None}
    return PublishedLayer(**values, unknown=unknown)  # type: ignore[arg-type]


_SAID = ("op_type", "layer_precision", "tactic")  # by a list of layers, and not by a profile


def published_layers(layers: Sequence[PublishedLayer]) -> pl.DataFrame:
    """PUBLISHED_LAYER_SCHEMA: a row for each layer that was timed, in the order of its file.

    What the profile does not say of a layer comes from a list of layers of the same network on the
    same device, by its name. The time is the median where the profile has it, else the mean.
    """
    import polars as pl

    from mansard.analytics.data.model_frames import PUBLISHED_LAYER_SCHEMA

    listed = {
        (layer.device, layer.network, layer.name): layer
        for layer in layers
        if layer.mean_s is None and layer.median_s is None
    }
    rows = []
    for layer in layers:
        seconds = layer.median_s if layer.median_s is not None else layer.mean_s
        if seconds is None:
            continue
        known = listed.get((layer.device, layer.network, layer.name), layer)
        # The list's metadata names the nodes; a profile has names alone.
        named = known if known.parts or known.kind == "engine" else layer
        rows.append(
            {name: getattr(layer, name, None) for name in PUBLISHED_LAYER_SCHEMA}
            | {
                name: mine if (mine := getattr(layer, name)) is not None else getattr(known, name)
                for name in _SAID
            }
            | {
                "mode": layer.mode.name,
                "seconds_s": seconds,
                "parts": list(named.parts),
                "kind": named.kind,
            }
        )
    return pl.DataFrame(rows, schema=PUBLISHED_LAYER_SCHEMA)


METERS_SAY = "its meters say"
_AGREEING = 0.05  # as an energy and power x time of one row


def meters_of(cells: Cells) -> dict[str, float]:
    """Watts by the column they stand in, as figures: names that end in ``_w``."""
    columns = cells.columns_of("power")
    if len(columns) < 2:
        return {}
    amounts = {_figure(column.name): cells.amount(column) for column in columns}
    return {name: value for name, value in amounts.items() if value is not None}


def _figure(column: str) -> str:
    words = [word for word in re.findall(r"[a-z0-9]+", column.casefold()) if word not in _UNITS]
    return "_".join(["meter", *words, "w"])


_UNITS = frozenset({"w", "mw", "watt", "watts", "milliwatts"})


def agree(powers_w: Iterable[float]) -> bool:
    """Whether several meters are as near as rounding brings them."""
    values = list(powers_w)
    return max(values) <= (1 + _AGREEING) * min(values)


def meters_differ(powers_w: Mapping[str, float]) -> str:
    """The remark on several meters of one run that disagree."""
    low, high = min(powers_w.values()), max(powers_w.values())
    said = [f"{name} {value:.4g} W" for name, value in powers_w.items()]
    return f"{METERS_SAY} {listed(said)}, which differ by {high / low - 1:.0%}; none is chosen"


def mark_meters(
    runs: Sequence[PublishedRun], meters: Sequence[str | None]
) -> tuple[PublishedRun, ...]:
    """``runs`` with a remark on the power where several ``meters`` of one setting disagree."""
    groups: dict[tuple[object, ...], dict[str, list[float]]] = {}
    for run, meter in zip(runs, meters, strict=True):
        if meter is not None and run.power_w is not None:
            groups.setdefault(_setting(run), {}).setdefault(meter, []).append(run.power_w)
    doubts = {
        setting: meters_differ(powers_w)
        for setting, group in groups.items()
        if len(powers_w := {meter: median(values) for meter, values in group.items()}) > 1
        and not agree(powers_w.values())
    }
    return tuple(
        _remarked(run, doubts[_setting(run)], meter) if _setting(run) in doubts else run
        for run, meter in zip(runs, meters, strict=True)
    )


def _remarked(run: PublishedRun, doubt: str, meter: str | None) -> PublishedRun:
    if meter is None or run.remark is not None:
        return run
    return with_known(run, remark=doubt)


def _setting(run: PublishedRun) -> tuple[object, ...]:
    return (run.mode.name, run.network, run.batch, run.precision, run.phase)


AGREEING = 0.05  # energy and power × time of one row may differ by so much: rounding, and no more


def read_runs(
    table: TextTable, columns: Sequence[KnownColumn], origin: PublishedOrigin
) -> tuple[PublishedRun, ...]:
    """All rows of ``table``, without their table's id yet; raises InputError.

    Rows of one network in one mode are repeats where their cells of the field "repeat" differ.
    """
    has_time = any(c.field in {"time", "throughput", "power", "energy"} for c in columns)
    if not has_time and not any(row.figures for row in table.rows):
        raise InputError(
            f"no column is a time, a power or an energy; it has "
            f"{', '.join(map(repr, table.columns))}",
            where=table.where,
            fix="name one: --column time_ms=NAME, throughput_fps=, power_w=, energy_j=",
        )
    runs: list[PublishedRun] = []
    seen: dict[tuple[object, ...], int] = {}
    for row in table.rows:
        cells = Cells(table, tuple(columns), row)
        run = _run_of_row(cells, origin)
        setting = (*_setting(run), run.weights)
        telling = (*cells.columns_of("repeat"), *cells.columns_of("meter"))
        kind = (*setting, *(row.cells[column.name] for column in telling))
        if kind in seen:
            raise InputError(
                f"lines {seen[kind]} and {row.line} are both {run.network!r}, "
                f"{'no batch' if run.batch is None else f'batch {run.batch}'}, "
                f"{run.precision or 'no precision'}, in mode {run.mode.name!r}",
                where=table.where,
                fix="keep one of them, or name what tells repeats apart with --column repeat=NAME, "
                "or several meters with --column meter=NAME",
            )
        seen[kind] = row.line
        runs.append(run)
    check_modes([(run.row, run.mode) for run in runs], table.where)
    return mark_meters(
        runs, [Cells(table, tuple(columns), row).text("meter") for row in table.rows]
    )


def _run_of_row(cells: Cells, origin: PublishedOrigin) -> PublishedRun:
    batch, precision = cells.count("batch"), cells.precision()
    latency_s = _latency_s(cells, batch)
    meters = meters_of(cells)
    is_doubtful = len(meters) > 1 and not agree(meters.values())
    if len(meters) > 1:
        power_w = None if is_doubtful else fmean(meters.values())
    else:
        power_w = _power_w(cells, batch, latency_s)
    figures = {**cells.row.figures, **(meters if len(meters) > 1 else {})}
    if (deviation_s := cells.deviation()) is not None:
        figures["deviation_s"] = deviation_s
    figures |= {f"{tail}_s": tail_s for tail in TAILS if (tail_s := cells.number(tail)) is not None}
    if latency_s is None and power_w is None and not figures:
        raise InputError("has neither a time nor a power", where=cells.where, fix="remove the row")
    values: dict[str, object] = {
        "batch": batch,
        "precision": precision,
        "latency_s": latency_s,
        "power_w": power_w,
        "method": cells.text("method"),
        "remark": cells.text("remark"),
    }
    _check_bounds(cells.where, {**figures, "time_s": latency_s, "power_w": power_w})
    unknown = cells.reasons(values, _FIELDS)
    if is_doubtful:
        values["remark"] = values["remark"] or meters_differ(meters)
        unknown = unknown | {"power_w": str(values["remark"])}
        unknown.pop("remark", None)
    return PublishedRun(
        table_id="",
        row=cells.row.line,
        device=origin.device,
        processor=origin.processor,
        citation=origin.citation,
        mode=cells.mode(),
        network=cells.needed("network"),
        phase=_phase(cells),
        figures=figures,
        weights=cells.weights(),
        **values,  # type: ignore[arg-type]
        unknown=unknown,
    )


def _check_bounds(where: str, figures: Mapping[str, float | None]) -> None:
    """Raises InputError for the first of ``figures`` that is impossible."""
    for name, value in figures.items():
        bound = bound_of_figure(name)
        if value is not None and not bound.holds(value):
            raise InputError(
                f"its {name} is {value:.4g}, which is impossible: {bound.text}",
                where=where,
                fix="correct it, or export the file again",
            )


_FIELDS = MappingProxyType(
    {"latency_s": "time", "power_w": "power"}
    | {name: name for name in ("batch", "precision", "method", "remark")}
)


def _latency_s(cells: Cells, batch: int | None) -> float | None:
    """Seconds of one batch: as given, or the batch over the images of a second."""
    time_s, images_hz = _of_batch(cells, "time", batch), cells.number("throughput")
    if images_hz is None:
        return time_s
    if batch is None:
        raise InputError(
            "images a second are no time without the batch",
            where=cells.where,
            fix="say --fixed batch=1, or give a column 'batch'",
        )
    if time_s is not None and abs(batch / images_hz / time_s - 1) > AGREEING:
        raise InputError(
            f"its batch over its images a second is {batch / images_hz:.4g} s, its time "
            f"{time_s:.4g} s",
            where=cells.where,
            fix="leave one out, with --column throughput= or --column time=",
        )
    return time_s if time_s is not None else batch / images_hz


def _of_batch(cells: Cells, field: str, batch: int | None) -> float | None:
    """A time or an energy, which has to be a batch's; some say "per inference"."""
    value = cells.number(field)
    if value is not None and batch != 1 and any(c.is_per_item for c in cells.columns_of(field)):
        name = cells.columns_of(field)[0].name
        raise InputError(
            f"{name} may be of one item or of the batch of {batch or 'unknown size'}",
            where=cells.where,
            fix="give the value of a whole batch, in a column without 'per' in its name",
        )
    return value


def _power_w(cells: Cells, batch: int | None, latency_s: float | None) -> float | None:
    """Mean watts: as given, or the energy of a batch over its time."""
    power_w, energy_j = cells.number("power"), _of_batch(cells, "energy", batch)
    if energy_j is None:
        return power_w
    if latency_s is None:
        raise InputError(
            "an energy without a time gives no power", where=cells.where, fix="add the time"
        )
    if power_w is not None and abs(energy_j / latency_s / power_w - 1) > AGREEING:
        raise InputError(
            f"its energy over its time is {energy_j / latency_s:.4g} W, its power {power_w:.4g} W",
            where=cells.where,
            fix="leave one out, with --column energy= or --column power=, or give the raw samples "
            "of the rails beside it",
        )
    return power_w if power_w is not None else energy_j / latency_s


def _phase(cells: Cells) -> Phase:
    text = (cells.text("phase") or "inference").casefold()
    if text not in {"inference", "training"}:
        raise InputError(
            f"unknown phase {text!r}", where=cells.where, fix="use inference or training"
        )
    return text  # type: ignore[return-value]


def lacks_batch(run: PublishedRun) -> bool:
    """Whether a tool's file does not say of which batch the time is: no model uses it then.

    A row without a batch in a table that a person wrote is of something without batches.
    """
    return run.latency_s is not None and run.unknown.get("batch") == NOT_SAID


def without_batch(times: str) -> str:
    """The note on a number of ``times`` without a batch."""
    return f"no model uses {times} without a batch: import the file with --fixed batch=N"
