"""What of a page is published by others: every figure with its source."""

from __future__ import annotations

from mansard.analytics.data.names import shown, shown_long
from mansard.analytics.data.quantities import UNKNOWN, quantity, seconds
from mansard.analytics.published.limits import hardware_limit, module_called
from mansard.analytics.published.names import device_names
from mansard.analytics.published.rooflines import MOST_ROOFS
from mansard.analytics.published.store import Published
from mansard.analytics.report.page_parts import Table
from mansard.core.records import PublishedRate

_UNITS = {"peak": "FLOP/s", "bandwidth": "B/s"}


def published_table(published: Published) -> Table:
    """One row for each figure of a device, with how it was come by; sources are another table's."""
    names = device_names(published)
    rows = [
        [
            shown(names[rate.device, rate.table_id]),
            shown(rate.mode.name),
            " ".join(filter(None, (rate.subject, rate.quantity))),
            _figure(rate),
            _limit(rate),
            "not said" if rate.method is None else shown_long(rate.method),
        ]
        for rate in published.rates
    ]
    columns = ("Device", "Mode", "Figure", "Value", "Hardware's limit", "How")
    return Table("Published figures", columns, rows, frozenset({3, 4}))


def source_table(published: Published) -> Table:
    """One row for each table that was imported: whose it is, and how much of it is here."""
    names = device_names(published)
    tables: dict[tuple[str, str, str], list[str]] = {}
    for row in published.rows:
        key = (names[row.device, row.table_id], row.citation, row.table_id)
        tables.setdefault(key, []).append(row.mode.name)
    rows = [
        [shown(device), shown_long(citation), str(len(modes)), _modes(modes), table_id]
        for (device, citation, table_id), modes in tables.items()
    ]
    columns = ("Device", "Published in", "Figures", "Modes", "Table")
    return Table("Sources of what is published", columns, rows, frozenset({2, 3}))


def _modes(modes: list[str]) -> str:
    n_modes = len(set(modes))
    if n_modes <= MOST_ROOFS:
        return str(n_modes)
    return f"{n_modes:,}, {MOST_ROOFS} of them with a roof"


def _limit(rate: PublishedRate) -> str:
    """What the device's hardware can do at the mode's clocks, where it is a module that we know."""
    limit = hardware_limit(rate, module_called(rate.device))
    return UNKNOWN if limit is None else quantity(limit, _UNITS[rate.quantity])


def _figure(rate: PublishedRate) -> str:
    if rate.quantity == "launch":
        return seconds(rate.value)
    return quantity(rate.value, _UNITS[rate.quantity])
