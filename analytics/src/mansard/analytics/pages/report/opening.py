"""The first screen of a report.

For one mode: the ceilings of the machine, and what limits its networks. For several: the modes side
by side, with costs relative to the highest, and their ceilings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import (
    MEASURE_MORE,
    MIXED,
    NBSP,
    UNKNOWN,
    counted,
    limit_word,
    percent,
    quantity,
)
from mansard.analytics.decisions.records import Recommendation
from mansard.analytics.models.roofs.ceilings import DRAM, Ceiling
from mansard.analytics.models.roofs.roofline import Ridge, Roofline
from mansard.analytics.pages.figures.figure import evenly
from mansard.analytics.pages.figures.parameters import (
    Chosen,
    device_options,
    mode_labels,
    roof_devices,
)
from mansard.analytics.pages.figures.tables import Bar, ceiling_text, value_text
from mansard.analytics.pages.results import Results
from mansard.analytics.pages.tables.advice import is_certain
from mansard.analytics.pages.tables.modes import settings_words
from mansard.core.precision import work_unit
from mansard.core.table import Table
from mansard.core.text import capitalized, listed
from mansard.core.units import ABOVE_ROOF, WIDEST

MOST_MODES = 12  # of one device
COSTS = {"energy_j": "Energy", "latency_s": "Time", "power_w": "Power"}
SETTINGS = ("SMs × MHz", "CPUs × MHz", "Memory MHz")
_SAME = ["network", "batch", "precision", "phase"]
# By mode, then by cost; "is_wide" where a cost is left out for its wide interval.
Ratios: TypeAlias = Mapping[str, Mapping[str, float | None]]


def choice_tables(results: Results, first: str) -> list[Table]:
    """One table for each device with several modes, that of ``first`` before the others."""
    devices = sorted(device_options(results), key=lambda device: device != first)
    by_device = (_choice_table(results, device) for device in devices)
    return [table for table in by_device if table is not None]


def _choice_table(results: Results, device: str) -> Table | None:
    recommended = [
        advised
        for advised in results.recommendations
        if advised.device == device and is_certain(advised)
    ]
    devices = roof_devices(results)
    roofs = {roof.mode: roof for roof in results.roofs if devices[roof.label] == device}
    modes = results.modes.filter(pl.col("device") == device)
    wanted = [advised.choice.mode for advised in recommended if advised.choice is not None]
    starred = {
        advised.choice.mode
        for advised in recommended
        if advised.choice is not None and not advised.lacks_rivals
    }
    order = [*roofs, *(mode for mode in modes["mode"].to_list() if mode not in roofs)]
    listed = _listed(order, [*wanted, *_highest(recommended), *roofs])
    if len(listed) < 2:
        return None
    base = next(iter(_highest(recommended)), wanted[0] if wanted else "")
    ratios, n_networks, sources = _ratios(results, device, recommended, base)
    known = {row["mode"]: row for row in modes.iter_rows(named=True)}
    most = {
        cost: max((row.get(cost) or 0.0 for row in ratios.values()), default=0.0) for cost in COSTS
    }
    peaks = list(dict.fromkeys(peak.name for roof in roofs.values() for peak in headline(roof)))
    rows = [
        [
            f"{display_name(mode)}{' ★' if mode in starred else ''}",
            *(_bar(ratios.get(mode, {}), cost, most[cost]) for cost in COSTS),
            *_ceiling_cells(roofs.get(mode), peaks),
            *_settings(known.get(mode)),
        ]
        for mode in listed
    ]
    columns = ["Mode", *COSTS.values(), *(f"{peak} peak" for peak in peaks), "DRAM", *SETTINGS]
    caption = f"Modes of {display_name(device)}"
    caption += "; ★ is recommended" if starred else ""
    if n_networks:
        networks = counted(n_networks, "network")
        kind = "of" if n_networks == 1 else "medians over"
        where = " and ".join(sources)
        caption += f"; costs relative to {display_name(base)}, {kind} {networks}, {where}"
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
    shown = {*wanted, *evenly(others, MOST_MODES - len(wanted))} if len(wanted) < 2 else {*wanted}
    return [mode for mode in dict.fromkeys([*modes, *wanted]) if mode in shown]


def _highest(recommended: Sequence[Recommendation]) -> list[str]:
    """The mode that all savings are relative to, if it is the same for all."""
    modes = list(dict.fromkeys(answer.savings[0].mode for answer in recommended if answer.savings))
    return modes if len(modes) == 1 else []


def _ratios(
    results: Results, device: str, recommended: Sequence[Recommendation], base: str
) -> tuple[Ratios, int, list[str]]:
    """Median cost of each mode over that of ``base``, of the networks in their recommended batch
    and precision; how many networks, and where their costs come from."""
    picks = [advised.choice for advised in recommended if advised.choice is not None]
    keys = [(pick.network, pick.batch, pick.precision, pick.phase) for pick in picks]
    schema = {name: results.decided.schema[name] for name in _SAME}
    wanted = pl.DataFrame(keys, schema=schema, orient="row").unique()
    rows = results.decided.filter(pl.col("device") == device).join(
        wanted, on=_SAME, nulls_equal=True
    )
    wide = {cost: _is_wide(*cost.split("_")) for cost in COSTS}
    rows = rows.with_columns(
        *(pl.when(~is_wide).then(cost).alias(cost) for cost, is_wide in wide.items()),
        *(is_wide.alias(f"{cost}_is_wide") for cost, is_wide in wide.items()),
    )
    against = rows.filter(pl.col("mode") == base).select(*_SAME, *COSTS)
    both = rows.join(against, on=_SAME, nulls_equal=True, suffix="_base")
    ratio = [(pl.col(cost) / pl.col(f"{cost}_base")).median().alias(cost) for cost in COSTS]
    ratio_rows = both.group_by("mode").agg(
        *ratio, *(pl.col(f"{cost}_is_wide").any().cast(pl.Float64) for cost in COSTS)
    )
    ratios = {row["mode"]: row for row in ratio_rows.iter_rows(named=True)}
    return ratios, both["network"].n_unique(), sorted(both["source"].unique().to_list())


def _is_wide(cost: str, unit: str) -> pl.Expr:
    """Rows whose cost is known too roughly to compare modes by it."""
    low, high = pl.col(f"{cost}_low_{unit}"), pl.col(f"{cost}_high_{unit}")
    is_known = (pl.col("interval") == "roof") | (high <= WIDEST * low)
    return ~is_known.fill_null(value=True)


def _bar(ratios: Mapping[str, float | None], cost: str, most: float) -> str:
    ratio = ratios.get(cost)
    if ratio is None or not most:
        return MEASURE_MORE if ratios.get(f"{cost}_is_wide") else UNKNOWN
    return Bar(percent(ratio), ratio / most)


def _ceiling_cells(roof: Roofline | None, peaks: Sequence[str]) -> list[str]:
    if roof is None:
        return [UNKNOWN] * (len(peaks) + 1)
    of_name = {peak.name: peak for peak in roof.peaks}
    cells = [value_text(of_name[name]) if name in of_name else UNKNOWN for name in peaks]
    return [*cells, value_text(roof.bandwidth(DRAM))]


MOST_ROOFS = 3  # that the first screen tells in sentences
_LIMITS = {
    "compute": "arithmetic",
    "memory": "memory bandwidth",
    "launch": "kernel launches",
    "power": "the power limit",
    MIXED: "a mix of resources",
}


@dataclass(frozen=True)
class Fact:
    """One sentence of the first screen, its heading, and where its figures come from."""

    heading: str
    sentence: str
    sources: Sequence[str]
    is_stable: bool = True


def ceilings(results: Results, chosen: Chosen) -> list[Fact]:
    """The peaks and bandwidths of each roof in a sentence, the chosen one first."""
    roofs = sorted(results.roofs, key=lambda roof: roof.label != chosen.mode)
    return [_ceilings(results, roof) for roof in roofs[:MOST_ROOFS]]


def _ceilings(results: Results, roof: Roofline) -> Fact:
    used = (*roof.peaks, *(roof.bandwidth(level.name) for level in roof.levels))
    return Fact(
        heading="What it does",
        sentence=f"{_subject(results, roof)} {_does(roof)}",
        sources=[roof.source],
        is_stable=all(ceiling.stable is not False for ceiling in used),
    )


def _subject(results: Results, roof: Roofline) -> str:
    """``2c (2 CPU cores, clocks as found)``."""
    words = settings_words(results, roof)
    return f"{display_name(roof.label)}{f' ({words})' if words else ''}"


def _does(roof: Roofline) -> str:
    first = headline(roof)
    peaks = [f"{ceiling_text(peak)} in {_where(peak)}" for peak in first]
    computes = listed(peaks) if peaks else "at an unknown rate"
    dram = roof.bandwidth(DRAM)
    moved = quantity(dram.value, dram.unit, dram.low, dram.high)
    no_dram = f"its main memory bandwidth is unknown ({dram.unknown.get('value')})"
    if roof.source == "published":
        moves = f"moved {moved}" if dram.value else no_dram
        return f"computed {computes} and {moves} in published measurements."
    moves = f"moves up to {moved} to and from main memory" if dram.value else no_dram
    ridge = next(
        (ridge for peak in first if (ridge := roof.ridge(peak.subject, family=peak.family))), None
    )
    turn = "."
    if ridge is not None:
        intensity = quantity(ridge.value, work_unit(ridge.precision), n_digits=3)
        turn = f": below {intensity} per byte, a layer in {_where(ridge)} is bound by memory."
    return f"computes at most {computes} and {moves}{turn}"


def _where(ceiling: Ceiling | Ridge) -> str:
    precision = ceiling.subject if isinstance(ceiling, Ceiling) else ceiling.precision
    return f"{precision} on tensor cores" if ceiling.family == "tensor" else precision


def headline(roof: Roofline) -> list[Ceiling]:
    """The most important peaks: all of a CPU, of a GPU single precision and the tensor cores."""
    measured = [peak for peak in roof.peaks if peak.value]
    if roof.processor == "cpu":
        return measured
    chosen = []
    for family, precision in (("fma", "fp32"), ("tensor", "fp16")):
        same_family = [peak for peak in measured if peak.family == family]
        chosen += [peak for peak in same_family if peak.subject == precision][:1] or same_family[:1]
    return chosen


def limits(results: Results, chosen: Chosen) -> list[Fact]:
    """What the roofs of the chosen mode limit in each network, and how near those that ran came."""
    rows = results.networks.filter((pl.col("label") == chosen.mode) & pl.col("bound").is_not_null())
    if rows.is_empty():
        return []
    smallest = pl.col("batch").fill_null(0).min().over("model", "model_hash")
    alike = rows.filter(pl.col("batch").fill_null(0) == smallest)
    fastest = alike.sort("time_s").unique(["model", "model_hash"], keep="first")
    bounds = Counter(map(limit_word, fastest["bound"], fastest["bound_share"]))
    ranked = sorted(bounds.items(), key=lambda item: (item[0] == MIXED, -item[1], item[0]))
    sentence = _limit_sentence(ranked, [display_name(name) for name in fastest["network"]])
    reached, sources = _reached(results, chosen)
    return [Fact("What limits", f"{sentence}{reached}", ["modelled", *sources])]


def _limit_sentence(ranked: Sequence[tuple[str, int]], names: Sequence[str]) -> str:
    """``ranked``: what limits how many of the networks ``names``."""
    first, n_first = ranked[0]
    if len(ranked) > 1:
        verb = "is" if n_first == 1 else "are"
        shares = [f"{n:,} by {_LIMITS.get(bound, bound)}" for bound, n in ranked[1:]]
        shares.insert(0, f"{n_first:,} {verb} limited by {_LIMITS.get(first, first)}")
        return f"Of {counted(len(names), 'network')}, {listed(shares)} (by the roofs)."
    what = capitalized(_LIMITS.get(first, first))
    verb = "limit" if first == "launch" else "limits"
    who = names[0] if len(names) == 1 else f"all {len(names):,} networks"
    return f"{what} {verb} {'both networks' if len(names) == 2 else who} (by the roofs)."


def _reached(results: Results, chosen: Chosen) -> tuple[str, list[str]]:
    """The share of the roofs' speed that networks reached where they were run."""
    labels = mode_labels(results)
    ran = [
        (row, row.predicted_s / row.time_s)
        for row in results.measured
        if row.time_s and row.predicted_s and labels.get((row.device, row.mode)) == chosen.mode
    ]
    if not ran:
        return "", []
    shares = sorted(share for _, share in ran)
    names = sorted({row.network for row, _ in ran})
    who = display_name(names[0]) if len(names) == 1 else f"The {len(names)} that ran"
    low, high = percent(shares[0]), percent(shares[-1])
    verb, whose = ("reaches", "its") if len(names) == 1 else ("reach", "their")
    reached = low if low == high else f"{low.split()[0]} to {high}"
    above = sorted({display_name(row.network) for row, _ in ran if row.is_above_roof})
    too_low = "".join(f" {name} {ABOVE_ROOF}." for name in above)
    return (
        f" {who} {verb} {reached} of the speed that the roofs of {whose} layers allow.{too_low}",
        sorted({row.source for row, _ in ran}),
    )
