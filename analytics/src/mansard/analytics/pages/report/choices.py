"""The modes of a device side by side: what each costs beside the highest, and its ceilings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP, UNKNOWN, counted, percent
from mansard.analytics.decisions.records import Recommendation
from mansard.analytics.models.roofs.levels import DRAM
from mansard.analytics.models.roofs.roofline import Roofline
from mansard.analytics.pages.figures.figure import evenly
from mansard.analytics.pages.figures.parameters import device_options, roof_devices
from mansard.analytics.pages.figures.tables import Bar, Table, value_text
from mansard.analytics.pages.report.opening import headline
from mansard.analytics.pages.results import Results

MOST_MODES = 12  # of one device
COSTS = {"energy_j": "Energy", "latency_s": "Time", "power_w": "Power"}
SETTINGS = ("SMs × MHz", "CPUs × MHz", "Memory MHz")
_SAME = ["network", "batch", "precision", "phase"]
Ratios: TypeAlias = Mapping[str, Mapping[str, float | None]]  # by mode, then by cost


def choice_tables(results: Results, first: str) -> list[Table]:
    """One table for each device with several modes, that of ``first`` before the others."""
    devices = sorted(device_options(results), key=lambda device: device != first)
    found = (_choice_table(results, device) for device in devices)
    return [table for table in found if table is not None]


def _choice_table(results: Results, device: str) -> Table | None:
    told = [each for each in results.recommendations if each.device == device and each.choice]
    devices = roof_devices(results)
    roofs = {roof.mode: roof for roof in results.roofs if devices[roof.label] == device}
    modes = results.modes.filter(pl.col("device") == device)
    wanted = [each.choice.mode for each in told if each.choice is not None]
    order = [*roofs, *(mode for mode in modes["mode"].to_list() if mode not in roofs)]
    listed = _listed(order, [*wanted, *_highest(told), *roofs])
    if len(listed) < 2:
        return None
    base = next(iter(_highest(told)), wanted[0] if wanted else "")
    ratios, n_networks, sources = _ratios(results, device, told, base)
    known = {row["mode"]: row for row in modes.iter_rows(named=True)}
    most = {
        cost: max((row.get(cost) or 0.0 for row in ratios.values()), default=0.0) for cost in COSTS
    }
    peaks = list(dict.fromkeys(peak.name for roof in roofs.values() for peak in headline(roof)))
    rows = [
        [
            f"{display_name(mode)}{' ★' if mode in wanted else ''}",
            *(_bar(ratios.get(mode, {}).get(cost), most[cost]) for cost in COSTS),
            *_ceiling_cells(roofs.get(mode), peaks),
            *_settings(known.get(mode)),
        ]
        for mode in listed
    ]
    columns = ["Mode", *COSTS.values(), *(f"{peak} peak" for peak in peaks), "DRAM", *SETTINGS]
    caption = f"Modes of {display_name(device)}"
    caption += "; ★ is recommended" if wanted else ""
    if n_networks:
        networks = counted(n_networks, "network")
        kind = "of" if n_networks == 1 else "medians over"
        where = " and ".join(sources)
        caption += f"; costs beside {display_name(base)}, {kind} {networks}, {where}"
    return Table(caption, columns, rows, frozenset(range(4, len(columns))))


def _settings(mode: Mapping[str, Any] | None) -> list[str]:
    """``16 × 1,300``, ``12 × 2,202``, ``3,199``; empty where nothing is known."""
    if mode is None:
        return [""] * len(SETTINGS)
    return [
        _times(mode["n_sms"], mode["gpu_hz"]),
        _times(mode["n_cpus"], mode["cpu_hz"]),
        _times(None, mode["memory_hz"]),
    ]


def _times(count: int | None, clock_hz: float | None) -> str:
    clock = f"{clock_hz / 1e6:,.4g}" if clock_hz else ""
    return f"{NBSP}×{NBSP}".join(filter(None, (str(count or ""), clock)))


def _listed(modes: Sequence[str], first: Sequence[str]) -> list[str]:
    """At most MOST_MODES of ``modes`` in their order, those of ``first`` before others."""
    wanted = list(dict.fromkeys(first))[:MOST_MODES]
    others = [mode for mode in modes if mode not in wanted]
    kept = {*wanted, *evenly(others, MOST_MODES - len(wanted))} if len(wanted) < 2 else {*wanted}
    return [mode for mode in dict.fromkeys([*modes, *wanted]) if mode in kept]


def _highest(told: Sequence[Recommendation]) -> list[str]:
    """The mode that savings are told against, if it is one for all."""
    modes = list(dict.fromkeys(each.savings[0].mode for each in told if each.savings))
    return modes if len(modes) == 1 else []


def _ratios(
    results: Results, device: str, told: Sequence[Recommendation], base: str
) -> tuple[Ratios, int, list[str]]:
    """Median cost of each mode over that of ``base``, of the networks in their recommended batch
    and precision; how many networks, and where their costs come from."""
    picks = [each.choice for each in told if each.choice is not None]
    keys = [(pick.network, pick.batch, pick.precision, pick.phase) for pick in picks]
    schema = {name: results.decided.schema[name] for name in _SAME}
    wanted = pl.DataFrame(keys, schema=schema, orient="row").unique()
    rows = results.decided.filter(pl.col("device") == device).join(
        wanted, on=_SAME, nulls_equal=True
    )
    against = rows.filter(pl.col("mode") == base).select(*_SAME, *COSTS)
    both = rows.join(against, on=_SAME, nulls_equal=True, suffix="_base")
    ratio = [(pl.col(cost) / pl.col(f"{cost}_base")).median().alias(cost) for cost in COSTS]
    found = both.group_by("mode").agg(*ratio)
    ratios = {row["mode"]: row for row in found.iter_rows(named=True)}
    return ratios, both["network"].n_unique(), sorted(both["source"].unique().to_list())


def _bar(ratio: float | None, most: float) -> str:
    if ratio is None or not most:
        return UNKNOWN
    return Bar(percent(ratio), ratio / most)


def _ceiling_cells(roof: Roofline | None, peaks: Sequence[str]) -> list[str]:
    if roof is None:
        return [UNKNOWN] * (len(peaks) + 1)
    own = {peak.name: peak for peak in roof.peaks}
    cells = [value_text(own[name]) if name in own else UNKNOWN for name in peaks]
    return [*cells, value_text(roof.bandwidth(DRAM))]
