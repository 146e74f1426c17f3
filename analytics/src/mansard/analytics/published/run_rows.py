"""Tables of networks that others ran: mode, network, time, and power or energy."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.analytics.published.cells import Cells, check_modes
from mansard.analytics.published.columns import Column
from mansard.analytics.published.csv_text import TextTable
from mansard.analytics.published.rate_rows import Origin
from mansard.analytics.published.vocabulary import parse_precision_name
from mansard.core.errors import InputError
from mansard.core.precision import PRECISIONS
from mansard.core.records import Phase, PublishedRun

AGREEING = 0.05  # energy and power × time of one row may differ by so much: rounding, and no more


def read_runs(
    table: TextTable, columns: Sequence[Column], origin: Origin
) -> tuple[PublishedRun, ...]:
    """All rows of ``table``, without their table's id yet; raises InputError."""
    if not any(c.field in {"time", "throughput", "power", "energy"} for c in columns):
        raise InputError(
            f"no column is a time, a power or an energy; it has "
            f"{', '.join(map(repr, table.columns))}",
            where=table.where,
            fix="name one: --column time_ms=NAME, throughput_fps=, power_w=, energy_j=",
        )
    runs: list[PublishedRun] = []
    seen: dict[tuple[object, ...], int] = {}
    for row in table.rows:
        run = _of_row(Cells(table, tuple(columns), row), origin)
        kind = (run.mode.name, run.network, run.batch, run.precision, run.phase)
        if kind in seen:
            raise InputError(
                f"lines {seen[kind]} and {row.line} are both {run.network!r}, "
                f"{'no batch' if run.batch is None else f'batch {run.batch}'}, "
                f"{run.precision or 'no precision'}, in mode {run.mode.name!r}",
                where=table.where,
                fix="keep one of them",
            )
        seen[kind] = row.line
        runs.append(run)
    check_modes([(run.row, run.mode) for run in runs], table.where)
    return tuple(runs)


def _of_row(cells: Cells, origin: Origin) -> PublishedRun:
    batch, precision = cells.count("batch"), _precision(cells)
    latency_s = _latency_s(cells, batch)
    power_w = _power_w(cells, batch, latency_s)
    if latency_s is None and power_w is None:
        raise InputError("has neither a time nor a power", where=cells.where, fix="remove the row")
    values: dict[str, object] = {
        "batch": batch,
        "precision": precision,
        "latency_s": latency_s,
        "power_w": power_w,
        "method": cells.text("method"),
        "remark": cells.text("remark"),
    }
    fields = ("batch", "precision", "time", "power", "method", "remark")
    unknown = cells.reasons(values, dict(zip(values, fields, strict=True)))
    return PublishedRun(
        table_id="",
        row=cells.row.line,
        device=origin.device,
        processor=origin.processor,
        citation=origin.citation,
        mode=cells.mode(),
        network=cells.needed("network"),
        phase=_phase(cells),
        **values,  # type: ignore[arg-type]
        unknown=unknown,
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
            fix="give that of a batch, under a name without 'per'",
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
            fix="leave one out, with --column energy= or --column power=",
        )
    return power_w if power_w is not None else energy_j / latency_s


def _precision(cells: Cells) -> str | None:
    text = cells.text("precision")
    if text is None:
        return None
    found = parse_precision_name(text)
    if found is None:
        raise InputError(
            f"unknown precision {text!r}", where=cells.where, fix=f"use {', '.join(PRECISIONS)}"
        )
    return found


def _phase(cells: Cells) -> Phase:
    text = (cells.text("phase") or "inference").casefold()
    if text not in {"inference", "training"}:
        raise InputError(
            f"unknown phase {text!r}", where=cells.where, fix="use inference or training"
        )
    return text  # type: ignore[return-value]
