"""The first table of a report: each network that ran, in the units that people plan with.

Milliseconds, items per second, millijoules per item and watts, each value with its source. Where no
network ran on a device, the table has the modelled ones, each bound with the range of real times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import (
    MEASURE_MORE,
    MILLI,
    UNKNOWN,
    in_unit,
    is_wide,
    plain_number,
)
from mansard.analytics.decisions.records import Recommendation
from mansard.analytics.models.predict.row_times import NetworkTimes
from mansard.analytics.pages.figures.parameters import Chosen, device_options, first_choice
from mansard.analytics.pages.figures.tables import Column, batch_text, condensed, tabulate
from mansard.analytics.pages.results import Results
from mansard.analytics.pages.tables.advice import is_certain
from mansard.analytics.pages.tables.practice import Practice, find_practices, practice_title
from mansard.core.table import Table
from mansard.core.text import listed
from mansard.core.units import Interval

MOST_ROWS = 12
ENDS = ("", "_low", "_high")
NO_ENERGY = "Energy and power are unknown."
NO_METER = "Energy and power are unknown: no power meter was read."
# By what the reasons of a measurement say, the first that matches: the kind of disturbance.
_DISTURBERS = (
    (r"^another (power mode|governor|setting)|^cores? \d", "changed settings"),
    (r"\bclock", "clocks outside the mode"),
    (r"throttled|over-current|temperature", "heat or current limits"),
    (r"process|program|threads waited|also running|swapped", "other programs"),
)


@dataclass(frozen=True)
class Headline:
    """The table of one device, and the sentences below it."""

    table: Table
    note: str


@dataclass(frozen=True)
class RunOutcome:
    """One row: a network in one mode. Energy of one item; ``interval`` as in ``Candidate``."""

    network: str
    batch: int | None
    precision: str
    engine: str
    mode: str
    recommended: str
    source: str
    latency_s: float | None
    low_s: float | None
    high_s: float | None
    interval: str | None
    item_energy: Interval | None  # J
    power_w: float | None
    remark: str = ""
    disturbances: tuple[str, ...] = ()

    @property
    def is_bound(self) -> bool:
        """Whether its latency is the bound of the roofs alone."""
        return self.interval == "roof"


def headlines(results: Results, chosen: Chosen) -> list[Headline]:
    """One table for each device with networks, that of ``chosen`` before the others."""
    devices = dict.fromkeys([*device_options(results), *(row.device for row in results.measured)])
    order = sorted(devices, key=lambda device: device != chosen.device)
    practices, is_named = find_practices(results), len(order) > 1
    tables = (
        _headline(results, device, chosen, practices.get(device, Practice()), is_named=is_named)
        for device in order
    )
    return [table for table in tables if table is not None]


def published_headlines(results: Results) -> list[Table]:
    """The tables of devices for which every row is published."""
    found = (headline.table for headline in headlines(results, first_choice(results)))
    return [
        condensed(table.without({"Source", "Recommended mode"}), tells_same=False)
        for table in found
        if set(table.column(list(table.columns).index("Source"))) == {"published"}
    ]


def _headline(
    results: Results, device: str, chosen: Chosen, practice: Practice, *, is_named: bool
) -> Headline | None:
    rows = _outcomes(results, device, chosen)
    if not rows:
        return None
    columns = [
        Column("Network", lambda row: display_name(row.network)),
        Column("Batch", lambda row: batch_text(row.batch), is_numeric=True),
        Column("Precision", lambda row: display_name(row.precision)),
        Column("Engine", lambda row: row.engine),
        Column("Mode", lambda row: display_name(row.mode)),
        Column("Latency, ms", _latency_text, is_numeric=True),
        Column(
            practice_title([practice]),
            lambda row: practice.text(row.latency_s) if row.is_bound else "",
            is_numeric=True,
        ),
        Column("Items/s", _rate_text, is_numeric=True),
        Column("mJ per item", _energy_text, is_numeric=True),
        Column("Power, W", _power_text, is_numeric=True),
        *(
            [Column("Recommended mode", lambda row: row.recommended)]
            if _has_modes(results, device)
            else []
        ),
        Column("Source", lambda row: row.source),
        Column("Remark", lambda row: row.remark),
    ]
    columns, same = _told_once(columns, rows)
    has_run = any(row.source != "modelled" for row in rows)
    what = "Networks that ran" if has_run else "Modelled networks; none ran"
    more = f", {MOST_ROWS} of {len(rows)}" if len(rows) > MOST_ROWS else ""
    where = f" on {display_name(device)}" if is_named or has_run else ""
    table = tabulate(f"{what}{where}{more}{same}", columns, rows[:MOST_ROWS])
    has_meter = any(run.total_rails is not None for run in results.dataset.all_manifests)
    unmetered = all(row.item_energy is None and row.power_w is None for row in rows)
    notes = [
        *([NO_ENERGY if has_meter else NO_METER] if unmetered else []),
        *([practice.note] if any(row.is_bound for row in rows) else []),
        *_disturbed_note(rows),
    ]
    return Headline(table, " ".join(notes))


def _disturbed_note(rows: Sequence[RunOutcome]) -> Iterator[str]:
    """What disturbed rows were disturbed by; nothing if none was."""
    reasons = [why for row in rows for why in row.disturbances]
    if not reasons:
        return
    kinds = (
        next((kind for pattern, kind in _DISTURBERS if re.search(pattern, why)), "other causes")
        for why in reasons
    )
    by = listed(list(dict.fromkeys(kinds)))
    yield f"Disturbed measurements ({by}) are in no conclusion."


_SETTINGS = ("Batch", "Precision", "Engine", "Mode")


def _told_once(columns: list[Column], rows: Sequence[RunOutcome]) -> tuple[list[Column], str]:
    """``columns`` without the settings that all rows share, and a text with these."""
    alike = {
        column.title: column.cell(rows[0])
        for column in columns
        if column.title in _SETTINGS and len({column.cell(row) for row in rows}) == 1
    }
    texts = [
        text if title in {"Precision", "Engine"} else f"{title.lower()} {text}"
        for title, text in alike.items()
        if text
    ]
    same = f": {', '.join(texts)}" if texts else ""
    return [column for column in columns if column.title not in alike], same


def _has_modes(results: Results, device: str) -> bool:
    """Whether there is more than one mode of ``device`` to choose from."""
    decided = results.decided.filter(pl.col("device") == device)["mode"]
    return len({*decided, *(row.mode for row in results.measured if row.device == device)}) > 1


def _outcomes(results: Results, device: str, chosen: Chosen) -> list[RunOutcome]:
    """Networks that ran here; those that ran elsewhere; else those that are modelled."""
    programs = {row.workload for row in results.programs}
    picks = [
        advised
        for advised in results.recommendations
        if advised.device == device and advised.choice and advised.network not in programs
    ]
    by_network = {
        advised.network: advised.choice.mode if advised.choice and _is_chosen(advised) else None
        for advised in picks
    }
    ran = list(_ran(results, device, by_network))
    names = {row.network for row in ran}
    of_batch = _of_batch(results, device, chosen.batch)
    others = [_predicted(pick, of_batch) for pick in picks if pick.network not in names]
    published = [row for row in others if row.source != "modelled"]
    return [*ran, *published] or others


def _ran(results: Results, device: str, wanted: dict[str, str | None]) -> Iterator[RunOutcome]:
    """Each network that ran on ``device`` in its recommended mode, else in its fastest."""
    groups: dict[tuple[object, ...], list[NetworkTimes]] = {}
    for row in results.measured:
        if row.device == device:
            key = (row.network, row.batch, row.precision, row.phase, row.engine)
            groups.setdefault(key, []).append(row)
    for rows in groups.values():
        mode = wanted.get(rows[0].network)
        best = min(rows, key=lambda row: (row.time_s is None, row.mode != mode, row.time_s or 0.0))
        recommended = MEASURE_MORE if rows[0].network in wanted else ""
        yield _measured(best, recommended if mode is None else display_name(mode))


def _measured(row: NetworkTimes, recommended: str) -> RunOutcome:
    time_s, low_s, high_s = row.shown_s
    doubt = "uncertain" if row.is_unsettled else ""
    if is_wide(low_s, high_s, "spread"):
        doubt = MEASURE_MORE
    n_items = row.batch or 1
    return RunOutcome(
        network=row.network,
        batch=row.batch,
        precision=row.precision,
        engine=row.engine,
        mode=row.mode,
        recommended=recommended,
        source=f"{row.source}, disturbed" if row.disturbed_s else row.source,
        latency_s=time_s,
        low_s=low_s,
        high_s=high_s,
        interval="spread",
        item_energy=_of_item(n_items, row.energy_j, row.energy_low_j, row.energy_high_j),
        power_w=row.power_w,
        remark=row.remark if row.remark and not row.disturbed_s else doubt,
        disturbances=tuple(row.remark.split("; ")) if row.disturbed_s else (),
    )


_Key: TypeAlias = tuple[str, str, str]  # network, mode, precision


def _is_chosen(pick: Recommendation) -> bool:
    """Whether its mode can be recommended: it is certain, and not ``lacks_rivals``."""
    return is_certain(pick) and not pick.lacks_rivals


def _of_batch(results: Results, device: str, batch: str) -> dict[_Key, dict[str, Any]]:
    """What is known of each network at the batch of the page."""
    known = results.decided.filter(
        pl.col("device") == device,
        pl.col("batch").cast(pl.String) == batch,
        pl.col("latency_s").is_not_null(),
    )
    return {(row["network"], row["mode"], row["precision"]): row for row in known.to_dicts()}


def _predicted(pick: Recommendation, of_batch: Mapping[_Key, dict[str, Any]]) -> RunOutcome:
    """A recommended mode at the batch of the page, else at that of the recommendation."""
    choice = pick.choice
    assert choice is not None  # noqa: S101 - the caller keeps those with a choice
    row = of_batch.get((choice.network, choice.mode, choice.precision))
    if row is None:
        row = {name: getattr(choice, name) for name in ("batch", "power_w", "interval", "source")}
        row |= {f"latency{end}_s": getattr(choice, f"latency{end}_s") for end in ENDS}
        energy = _of_item(1, choice.energy_j, choice.energy_low_j, choice.energy_high_j)
    else:
        energy = _of_item(row["batch"] or 1, *(row[f"energy{end}_j"] for end in ENDS))
    return RunOutcome(
        network=choice.network,
        batch=row["batch"],
        precision=choice.precision,
        engine="",
        mode=choice.mode,
        recommended=display_name(choice.mode) if _is_chosen(pick) else MEASURE_MORE,
        source=row["source"],
        latency_s=row["latency_s"],
        low_s=row["latency_low_s"],
        high_s=row["latency_high_s"],
        interval=row["interval"],
        item_energy=energy,
        power_w=row["power_w"],
    )


def _of_item(
    n_items: int, batch_j: float | None, low_j: float | None, high_j: float | None
) -> Interval | None:
    """The energy of one item with its interval; None where that of the batch is unknown."""
    return None if batch_j is None else Interval(batch_j, low_j, high_j).over(n_items)


def _latency_text(row: RunOutcome) -> str:
    if row.is_bound or row.interval == "bounds":
        return in_unit(row.latency_s, row.low_s, row.high_s, row.interval, unit=MILLI)
    ends = (None if end is None else end / MILLI for end in (row.latency_s, row.low_s, row.high_s))
    return plain_number(*ends)


def _rate_text(row: RunOutcome) -> str:
    if row.latency_s is None:
        return UNKNOWN
    rate = Interval(row.latency_s, row.low_s, row.high_s, row.interval).inverse(row.batch or 1)
    kind = row.interval if row.is_bound else None
    return in_unit(rate.value, rate.low, rate.high, kind, roof="≤", n_digits=3)


def _energy_text(row: RunOutcome) -> str:
    if row.item_energy is None:
        return UNKNOWN
    low, high = row.item_energy.low, row.item_energy.high
    return in_unit(row.item_energy.value, low, high, row.interval, unit=MILLI, n_digits=3)


def _power_text(row: RunOutcome) -> str:
    return in_unit(row.power_w, n_digits=3)
