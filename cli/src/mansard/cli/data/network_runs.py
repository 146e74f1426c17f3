"""Networks that were run: time, rate, energy and power by mode, and the recommended mode.

A table for each network where it ran in several modes, else one table for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from msgspec.structs import replace

from mansard.analytics import pages
from mansard.analytics.data import quantities
from mansard.api import results
from mansard.cli.data.summary import evenly, grouped, share_of, title_with_rest
from mansard.cli.tables import measured_source, without_silent
from mansard.core.table import Table
from mansard.core.text import listed
from mansard.core.units import ABOVE_ROOF, Interval

_HEADS = ("ms", "items/s", "mJ per item", "W", "modelled ms")
_OPTIONAL = frozenset((*_HEADS, "device", "label", "bound by"))
_MOST_MODES = 8  # of a network
_MOST_EQUALS = 3  # modes that are named
DISTURBED = "disturbed"
CHOSEN = "recommended"


class Best(NamedTuple):
    """The best mode of a network among those that it ran in."""

    row: results.NetworkTimes
    quantity: Literal["energy", "time"]  # in which it is best
    other: results.NetworkTimes  # the fastest, or the next best
    equals: Sequence[str]  # modes whose intervals overlap with its: then none is recommended


def run_tables(
    times: Sequence[results.NetworkTimes], most: int, bounds: Mapping[str, str] | None = None
) -> list[Table]:
    """``times`` as tables of at most ``most`` networks; ``bounds``: what limits each, by run."""
    by_network = list(grouped(times, _network_key).values())
    if not by_network:
        return []
    if all(len({row.mode for row in rows}) == 1 for rows in by_network):
        return [_of_one_mode(times[:most], len(times), bounds or {})]
    tables = [_by_mode(rows) for rows in by_network[:most]]
    if (n_left := len(by_network) - len(tables)) > 0:
        title = title_with_rest(tables[-1].title, f"{n_left} more networks")
        tables[-1] = replace(tables[-1], title=title)
    return tables


def why_lines(times: Sequence[results.NetworkTimes], most: int) -> Iterator[str]:
    """Why each mode is recommended, or why none is; and what "at best" means for real times."""
    where = on_devices(times)
    for rows in list(grouped(times, _network_key).values())[:most]:
        best = best_mode(rows)
        if best is not None:
            yield f"{_named(best.row)}{where[best.row.device]}: {_reason(best)}"
    above = [row for row in times if row.is_above_roof]
    for name in dict.fromkeys(f"{_named(row)}{where[row.device]}" for row in above):
        yield f"{name} {ABOVE_ROOF}"
    if any(row.predicted_interval == "roof" for row in times):
        yield f"≥: at best, by the roofs; {pages.ratio_words(times)}"


def best_mode(rows: Sequence[results.NetworkTimes]) -> Best | None:
    """The mode with the least energy, or the fastest where an energy is unknown.

    None for a single mode. Disturbed rows do not count.
    """
    counted = [row for row in rows if row.time_s is not None and not row.remark]
    if len({row.mode for row in counted}) < 2:
        return None
    is_metered = all(row.energy_j is not None for row in counted)
    measured = _energy if is_metered else _time
    best = min(counted, key=lambda row: measured(row).value)
    others = [row for row in counted if row.mode != best.mode]
    highest = measured(best).ends[1]
    return Best(
        best,
        "energy" if is_metered else "time",
        min(others, key=lambda row: _time(row).value),
        tuple(dict.fromkeys(row.mode for row in others if measured(row).ends[0] <= highest)),
    )


def _time(row: results.NetworkTimes) -> Interval:
    return Interval(row.time_s or 0.0, row.low_s, row.high_s)


def _energy(row: results.NetworkTimes) -> Interval:
    return Interval(row.energy_j or 0.0, row.energy_low_j, row.energy_high_j)


def _reason(best: Best) -> str:
    """Why the best mode is recommended, or why it is not."""
    is_energy = best.quantity == "energy"
    if best.equals:
        names = listed([best.row.mode, *best.equals])
        if len(best.equals) > _MOST_EQUALS:
            names = f"{best.row.mode} and {len(best.equals)} other modes"
        plural = "energies" if is_energy else "times"
        return f"{names} cannot be distinguished: the intervals of their {plural} overlap"
    claim = "uses the least energy" if is_energy else "is fastest"
    return f"{best.row.mode} {claim}{_compared(best)}"


def _compared(best: Best) -> str:
    """``; compared with MAXN: energy −31 %, time +49 %``."""
    pairs = (
        ("energy", best.row.energy_j, best.other.energy_j),
        ("time", best.row.time_s, best.other.time_s),
    )
    parts = [
        f"{name} {pages.change(mine / other)}" for name, mine, other in pairs if mine and other
    ]
    return f"; compared with {best.other.mode}: {', '.join(parts)}" if parts else ""


def _network_key(row: results.NetworkTimes) -> tuple[object, ...]:
    return (row.device, row.model_hash, row.batch, row.precision, row.engine, row.label)


def _named(row: results.NetworkTimes) -> str:
    """``resnet18 × 8 fp32``."""
    batch = "" if row.batch is None else f" × {row.batch}"
    return f"{row.network}{batch} {row.precision}"


class _OfDevice(Protocol):
    @property
    def device(self) -> str: ...


def device_cells(rows: Iterable[_OfDevice]) -> Mapping[str, str]:
    """The short name of each device in a table of ``rows``; empty if there is only one."""
    names = pages.short_devices(row.device for row in rows)
    return names if len(names) > 1 else dict.fromkeys(names, "")


def on_devices(rows: Iterable[_OfDevice]) -> Mapping[str, str]:
    """`` on NAME`` for each device of ``rows``; empty if there is only one."""
    return {device: name and f" on {name}" for device, name in device_cells(rows).items()}


def _of_one_mode(
    times: Sequence[results.NetworkTimes], n_all: int, bounds: Mapping[str, str]
) -> Table:
    names = device_cells(times)
    is_one = len(names) < 2
    rows = [
        (
            names[row.device],
            row.network,
            "–" if row.batch is None else str(row.batch),
            row.precision,
            row.engine,
            row.mode,
            row.label,
            *_cells(row),
            bounds.get(row.model_hash, "–"),
            measured_source(row.source),
            row.remark,
        )
        for row in times
    ]
    heads = ("device", "network", "batch", "precision", "engine", "mode", "label", *_HEADS)
    left = share_of(len(rows), n_all, "rows")
    where = f"Networks on {times[0].device}" if is_one else f"Networks on {len(names)} devices"
    title = title_with_rest(where, left)
    return without_silent(Table(title, (*heads, "bound by", "source", "remark"), rows), _OPTIONAL)


def _by_mode(rows: Sequence[results.NetworkTimes]) -> Table:
    """One network in its modes; the recommended one is marked."""
    first, best = rows[0], best_mode(rows)
    shown = _spread(rows, None if best is None else best.row)
    chosen = None if best is None or best.equals else best.row
    cells = [(row.mode, *_cells(row), CHOSEN if row is chosen else row.remark) for row in shown]
    label = f", {first.label}" if first.label else ""
    title = (
        f"{_named(first)} on {first.device}, {first.engine}{label}, {measured_source(first.source)}"
    )
    title = title_with_rest(title, share_of(len(shown), len(rows), "modes"))
    return without_silent(Table(title, ("mode", *_HEADS, "remark"), cells), _OPTIONAL)


def _spread(
    rows: Sequence[results.NetworkTimes], best: results.NetworkTimes | None
) -> list[results.NetworkTimes]:
    """At most eight rows, evenly spread, with the first, the last and the best."""
    places = set(evenly(range(len(rows)), _MOST_MODES))
    return [row for at, row in enumerate(rows) if at in places or row is best]


def _cells(row: results.NetworkTimes) -> tuple[str, ...]:
    n_items = row.batch or 1
    mark = f", {DISTURBED}" if row.disturbed_s else ""
    times_ms = (None if end_s is None else end_s / quantities.MILLI for end_s in row.shown_s)
    rate_s = None if row.shown_s[0] is None else n_items / row.shown_s[0]
    energies = (row.energy_j, row.energy_low_j, row.energy_high_j)
    modelled = (row.predicted_s, row.predicted_low_s, row.predicted_high_s)
    return (
        f"{quantities.plain_number(*times_ms)}{mark}",
        quantities.in_unit(rate_s),
        quantities.in_unit(*energies, "spread", unit=quantities.MILLI * n_items),
        quantities.in_unit(row.power_w, n_digits=3),
        quantities.in_unit(*modelled, row.predicted_interval, unit=quantities.MILLI),
    )
