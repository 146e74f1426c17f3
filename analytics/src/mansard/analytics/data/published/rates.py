"""Rows of a table that say what a device does in a mode: FLOP/s, B/s, seconds of a launch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from mansard.analytics.data.published.cells import (
    Cells,
    TextTable,
    check_modes,
)
from mansard.analytics.data.published.columns import (
    KnownColumn,
    parse_level_name,
    parse_unit_name,
)
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.core.errors import InputError
from mansard.core.records import (
    Processor,
    PublishedRate,
    RateQuantity,
    RateWorkUnit,
)

# fp32 and fp64 are CUDA cores' unless a table says otherwise; tf32 exists on tensor cores alone.
_USUAL_UNITS: Mapping[str, RateWorkUnit] = MappingProxyType(
    {
        "fp64": "CUDA core",
        "fp32": "CUDA core",
        "tf32": "tensor core",
    }
)


def read_rates(
    table: TextTable, columns: Sequence[KnownColumn], origin: PublishedOrigin
) -> tuple[PublishedRate, ...]:
    """All figures of ``table``, without their table's id yet; raises InputError.

    A row may hold several: FLOP/s and GB/s, or a peak for each precision.
    """
    if not any(column.field in {"peak", "bandwidth", "launch"} for column in columns):
        raise InputError(
            f"no column is a rate or names networks; it has {', '.join(map(repr, table.columns))}",
            where=table.where,
            fix="name one: --column peak_gflop_per_s=NAME, bandwidth_gb_per_s=, network=",
        )
    rates: list[PublishedRate] = []
    seen: dict[tuple[str, ...], int] = {}
    for row in table.rows:
        cells = Cells(table, tuple(columns), row)
        of_row = list(_rates_of_row(cells, origin))
        if not of_row:
            raise InputError("has no figure", where=cells.where, fix="remove the row")
        for rate in of_row:
            kind = (rate.mode.name, rate.quantity, rate.subject, rate.unit)
            if kind in seen:
                raise InputError(
                    f"lines {seen[kind]} and {row.line} both give the {rate.quantity} of "
                    f"{' '.join(filter(None, (rate.subject, rate.unit)))} in mode {kind[0]!r}",
                    where=table.where,
                    fix="keep one of them",
                )
            seen[kind] = row.line
        rates += of_row
    check_modes([(rate.row, rate.mode) for rate in rates], table.where)
    return tuple(rates)


def _rates_of_row(cells: Cells, origin: PublishedOrigin) -> Iterator[PublishedRate]:
    for column in cells.columns_of("peak"):
        value = cells.amount(column)
        if value is not None:
            precision = column.precision or cells.precision() or cells.needed("precision")
            unit = _unit(cells, column, precision, origin.processor)
            yield _rate(cells, origin, "peak", precision, unit, value)
    for column in cells.columns_of("bandwidth"):
        value = cells.amount(column)
        if value is not None:
            yield _rate(cells, origin, "bandwidth", _level(cells, column), "", value)
    launch_s = cells.number("launch")
    if launch_s is not None:
        yield _rate(cells, origin, "launch", "", "", launch_s)


def _rate(
    cells: Cells,
    origin: PublishedOrigin,
    quantity: RateQuantity,
    subject: str,
    unit: RateWorkUnit,
    value: float,
) -> PublishedRate:
    method = cells.text("method")
    return PublishedRate(
        table_id="",
        row=cells.row.line,
        device=origin.device,
        processor=origin.processor,
        citation=origin.citation,
        mode=cells.mode(),
        quantity=quantity,
        subject=subject,
        unit=unit,
        value=value,
        method=method,
        unknown={} if method is not None else {"method": cells.why_not("method")},
    )


def _unit(cells: Cells, column: KnownColumn, precision: str, processor: Processor) -> RateWorkUnit:
    if column.unit is not None:
        return column.unit
    text = cells.text("unit")
    if text is None:
        usual: RateWorkUnit | None = (
            "CUDA core" if processor == "cpu" else _USUAL_UNITS.get(precision)
        )
        if usual is None:
            raise InputError(
                f"{precision} may be of tensor cores or of CUDA cores",
                where=cells.where,
                fix="say --fixed unit=tensor, or give a column 'unit'",
            )
        return usual
    unit = parse_unit_name(text)
    if unit is None:
        raise InputError(f"unknown unit {text!r}", where=cells.where, fix="use tensor or cuda")
    return unit


def _level(cells: Cells, column: KnownColumn) -> str:
    text = column.level or cells.text("level")
    if text is None:
        return "DRAM"
    level = parse_level_name(text)
    if level is None:
        raise InputError(
            f"unknown memory level {text!r}", where=cells.where, fix="use DRAM, L1, L2 or L3"
        )
    return level
