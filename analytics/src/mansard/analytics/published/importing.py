"""From a CSV file to published records, whose id is the hash of what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec.structs import replace as replace_record

from mansard.analytics.published.columns import find_columns
from mansard.analytics.published.csv_text import TextRow, TextTable, read_table
from mansard.analytics.published.rate_rows import Origin, read_rates
from mansard.analytics.published.run_rows import read_runs
from mansard.core.errors import UsageError
from mansard.core.hashing import content_hash
from mansard.core.records import PublishedRate, PublishedRun

# What a table of the other kind has no use for; it is named as not read.
_OF_RATES = frozenset({"peak", "bandwidth", "launch", "unit", "level"})
_OF_RUNS = frozenset({"batch", "phase", "remark", "time", "throughput", "power", "energy"})


@dataclass(frozen=True)
class Imported:
    """What a table held: ``rates`` or ``runs``, and the columns that nothing was read from."""

    table_id: str
    rates: tuple[PublishedRate, ...]
    runs: tuple[PublishedRun, ...]
    ignored: tuple[str, ...]

    @property
    def rows(self) -> tuple[PublishedRate | PublishedRun, ...]:
        """Rates, then runs."""
        return (*self.rates, *self.runs)


def import_table(
    path: Path,
    origin: Origin,
    *,
    said: Mapping[str, str] | None = None,
    fixed: Mapping[str, str] | None = None,
) -> Imported:
    """Read the table in ``path``; a table with networks holds runs, any other rates.

    ``said`` names columns (see ``find_columns``), ``fixed`` gives values that hold for all rows
    and have no column: {"precision": "fp16", "emc_mhz": "3199"}. Raises UsageError for what the
    caller said, InputError with the line for what the table holds.
    """
    table = _with_fixed(read_table(path), fixed or {})
    columns, ignored = find_columns(table.columns, said or {}, table.where)
    rates: tuple[PublishedRate, ...] = ()
    runs: tuple[PublishedRun, ...] = ()
    has_networks = any(column.field == "network" for column in columns)
    if has_networks:
        runs = read_runs(table, columns, origin)
    else:
        rates = read_rates(table, columns, origin)
    unread = _OF_RATES if has_networks else _OF_RUNS
    ignored = (*ignored, *(column.name for column in columns if column.field in unread))
    table_id = table_id_of((*rates, *runs))
    return Imported(
        table_id=table_id,
        rates=tuple(replace_record(rate, table_id=table_id) for rate in rates),
        runs=tuple(replace_record(run, table_id=table_id) for run in runs),
        ignored=ignored,
    )


def table_id_of(rows: Sequence[PublishedRate | PublishedRun]) -> str:
    """What a table of ``rows``, which have no id yet, is called: the hash of all they say."""
    return content_hash(rows)


def _with_fixed(table: TextTable, fixed: Mapping[str, str]) -> TextTable:
    """The table with a column for each fixed value; raises UsageError."""
    for name in fixed:
        if name in table.columns:
            raise UsageError(
                f"--fixed {name} would hide the column of that name", fix="leave it out"
            )
        if not find_columns([name], {}, "--fixed")[0]:
            raise UsageError(
                f"--fixed {name!r} is nothing that a table holds",
                fix="use mode, network, batch, precision, unit, gpu_mhz, emc_mhz, cpu_mhz, sms, …",
            )
    return replace(
        table,
        columns=(*table.columns, *fixed),
        rows=tuple(TextRow(row.line, {**row.cells, **fixed}) for row in table.rows),
    )
