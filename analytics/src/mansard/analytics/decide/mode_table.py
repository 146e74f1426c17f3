"""The modes that a decision is about, as rows of MODE_SCHEMA: from a board, or from a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import polars as pl

from mansard.analytics.data.model_frames import MODE_SCHEMA
from mansard.analytics.published.cells import Cells, check_modes
from mansard.analytics.published.columns import find_columns
from mansard.analytics.published.csv_text import read_table
from mansard.core.errors import InputError
from mansard.core.records import PowerMode, PublishedMode

_SETTINGS = tuple(name for name in MODE_SCHEMA if name not in ("device", "mode"))

ModeFrame: TypeAlias = pl.DataFrame  # of MODE_SCHEMA


def mode_frame(modes: Sequence[PowerMode | PublishedMode], device: str) -> ModeFrame:
    """A row for each of ``modes``, all of ``device``."""
    rows = [
        {"device": device, "mode": mode.name, **{name: getattr(mode, name) for name in _SETTINGS}}
        for mode in modes
    ]
    return pl.DataFrame(rows, schema=MODE_SCHEMA)


def read_mode_table(path: Path, device: str) -> ModeFrame:
    """The modes that the CSV file ``path`` lists, each once, in its order.

    Columns: ``mode``, and of ``gpu_hz``, ``memory_hz``, ``cpu_hz`` (or ``_mhz``), ``n_sms``,
    ``n_cpus``, ``power_limit_w`` those that there are, named as for an imported table; others
    do not matter. Without ``mode`` they are called by their clocks. Raises InputError for what
    is no such table, StorageError where it cannot be read.
    """
    table = read_table(path)
    columns, _ = find_columns(table.columns, {}, table.where)
    if all(column.field not in _FIELDS for column in columns):
        raise InputError(
            "no column is a clock, a count or a power limit",
            where=table.where,
            fix="give mode and some of gpu_hz, memory_hz, cpu_hz, n_sms, n_cpus, power_limit_w",
        )
    modes = [(row.line, Cells(table, columns, row).mode()) for row in table.rows]
    check_modes(modes, table.where)
    named = {mode.name: mode for _, mode in modes}
    return mode_frame(list(named.values()), device)


_FIELDS = frozenset({"gpu", "emc", "cpu", "sms", "cpus", "power_limit"})
