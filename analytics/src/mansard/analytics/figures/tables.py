"""Tables and the texts of their cells."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field

from mansard.analytics.data.quantities import (
    NBSP,
    UNKNOWN,
    digits,
    percent,
    quantity,
)
from mansard.analytics.roofs.ceilings import Ceiling


@dataclass(frozen=True)
class Table:
    """A table with a caption; the first column of each row is its header."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: frozenset[int] = field(default_factory=frozenset)


MOST_TABLE_ROWS = 200  # of the table under a chart


def shortened(table: Table) -> Table:
    """``table`` with at most MOST_TABLE_ROWS rows, which its caption says."""
    n_rows = len(table.rows)
    if n_rows <= MOST_TABLE_ROWS:
        return table
    caption = f"{table.caption}, the first {MOST_TABLE_ROWS} of {n_rows:,} rows"
    return dataclasses.replace(table, caption=caption, rows=table.rows[:MOST_TABLE_ROWS])


def ceiling_text(ceiling: Ceiling) -> str:
    """A ceiling in words: "16.0 ± 0.1 GB/s (read)"."""
    text = quantity(ceiling.value, ceiling.unit, ceiling.low, ceiling.high)
    return f"{text} ({ceiling.kernel})" if ceiling.unit == "B/s" and ceiling.kernel else text


def value_text(ceiling: Ceiling) -> str:
    """A ceiling without its interval: "16.00 GB/s"."""
    return quantity(ceiling.value, ceiling.unit)


def batch_text(batch: int | None) -> str:
    """A batch size, or that the model has none."""
    return "none" if batch is None else str(batch)


def bound_text(bound: str | None, share: float | None) -> str:
    """What bounds a network, and the share of its time for which that holds if there is one."""
    if bound is None:
        return "unknown"
    return bound if share is None else f"{bound}{NBSP}{percent(share)}"


def clock_text(clock_hz: float | None) -> str:
    """A clock in MHz, four digits."""
    return UNKNOWN if clock_hz is None else f"{digits(clock_hz / 1e6)}\u00a0MHz"


def percent_fine(share: float | None) -> str:
    """A share of a limit in percent, with one digit behind the point: 97 and 98 differ."""
    return UNKNOWN if share is None else f"{100 * share:.1f}\u00a0%"
