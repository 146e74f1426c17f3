"""What of a page is published by others: every figure with its source."""

from __future__ import annotations

from mansard.analytics.data.names import shown, shown_long
from mansard.analytics.data.quantities import quantity, seconds
from mansard.analytics.published.names import device_names
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
            "not said" if rate.method is None else shown_long(rate.method),
        ]
        for rate in published.rates
    ]
    columns = ("Device", "Mode", "Figure", "Value", "How")
    return Table("Published figures", columns, rows, frozenset({3}))


def source_table(published: Published) -> Table:
    """One row for each table that was imported: whose it is, and how much of it is here."""
    names = device_names(published)
    tables: dict[tuple[str, str, str], int] = {}
    for row in published.rows:
        key = (names[row.device, row.table_id], row.citation, row.table_id)
        tables[key] = tables.get(key, 0) + 1
    rows = [
        [shown(device), shown_long(citation), str(count), table_id]
        for (device, citation, table_id), count in tables.items()
    ]
    columns = ("Device", "Published in", "Figures", "Table")
    return Table("Sources of what is published", columns, rows, frozenset({2}))


def _figure(rate: PublishedRate) -> str:
    if rate.quantity == "launch":
        return seconds(rate.value)
    return quantity(rate.value, _UNITS[rate.quantity])
