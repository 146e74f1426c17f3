"""How published devices are called beside measured ones: never alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mansard.analytics.data.names import shown
from mansard.analytics.published.store import Published
from mansard.core.records import PublishedMode, PublishedRate, PublishedRun

Device = tuple[str, str]  # its name in the table, and the table's id
Rows = Sequence[PublishedRate | PublishedRun]


def device_names(published: Published) -> dict[Device, str]:
    """What each device of each table is called on pages and in frames.

    "(published)" keeps it from ever being the name of a measured one. Where several tables give
    rates of one device they are kept apart by the start of their ids: roofs of two authors are
    never one roof. A table of runs takes the name of the only table of rates, so that what was
    observed stands beside what its roofs predict, unless the two mean other clocks by a mode.
    """
    tables: dict[Device, list[PublishedRate | PublishedRun]] = {}
    for row in published.rows:
        tables.setdefault((row.device, row.table_id), []).append(row)
    plain = {key: _plain(rows) for key, rows in tables.items()}
    rated: dict[str, list[Device]] = {}
    for key, rows in tables.items():
        if isinstance(rows[0], PublishedRate):
            rated.setdefault(plain[key], []).append(key)
    return {key: plain[key] + (_mark(key, tables, rated.get(plain[key], []))) for key in tables}


def _plain(rows: Rows) -> str:
    return f"{shown(rows[0].device)}{' CPU' if rows[0].processor == 'cpu' else ''}"


def _mark(key: Device, tables: Mapping[Device, Rows], rated: Sequence[Device]) -> str:
    if key in rated:
        is_alone = len(rated) == 1
    else:
        is_alone = len(rated) != 1 or _agree(tables[key], tables[rated[0]])
    return " (published)" if is_alone else f" (published, {key[1][:6]})"


def _agree(some: Rows, others: Rows) -> bool:
    """Whether modes of one name have the same clocks, as far as both tables know them."""
    modes = {row.mode.name: row.mode for row in others}
    return all(_same(row.mode, modes[row.mode.name]) for row in some if row.mode.name in modes)


def _same(one: PublishedMode, other: PublishedMode) -> bool:
    pairs = (
        (one.gpu_hz, other.gpu_hz),
        (one.memory_hz, other.memory_hz),
        (one.cpu_hz, other.cpu_hz),
        (one.n_sms, other.n_sms),
        (one.n_cpus, other.n_cpus),
        (one.power_limit_w, other.power_limit_w),
    )
    return all(a is None or b is None or a == b for a, b in pairs)
