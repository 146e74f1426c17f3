"""Hierarchical inference on a page: the sentence, the frontier, and tables of each answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.data.quantities import UNKNOWN, digits
from mansard.analytics.figures.figure import Figure
from mansard.analytics.figures.frontier import frontier_figure
from mansard.analytics.figures.regret import regret_figure
from mansard.analytics.figures.tables import Table, condensed
from mansard.analytics.hierarchical.records import Calibration, Hierarchical, HiPoint, ModeCosts
from mansard.analytics.hierarchical.wording import (
    accuracy_text,
    amount_text,
    calibration_text,
    share_text,
)

_COLUMNS = (
    *("Rule", "Mode", "Offloads below", "Offloaded", "Accuracy, 95 %", "Latency", "Energy"),
    *("Cost", "Limits"),
)
_NUMERIC = frozenset({2, 3, 4, 5, 6, 7})
_PARTS = ("local_s", "decision_s", "offload_s", "local_j", "decision_j", "offload_j")


@dataclass(frozen=True)
class Section:
    """What the page shows of one answer."""

    anchor: str
    title: str
    sentence: str
    sources: Sequence[str]
    figures: Sequence[Figure]
    tables: Sequence[Table]
    details: Sequence[Table]
    notes: Sequence[str]


def sections(answers: Mapping[str, Hierarchical]) -> list[Section]:
    """One for each answer, in the order of their names."""
    return [_section(number, name, answers[name]) for number, name in enumerate(sorted(answers))]


def _section(number: int, name: str, found: Hierarchical) -> Section:
    where = "held out" if found.is_held_out else "all"
    title = f"Rules and baselines on {found.n_judged:,} samples ({where})"
    tables = [_table(title, found.rules, found)]
    if len(found.modes) > 1:
        tables.append(_table("The best threshold of each mode", found.modes, found))
    return Section(
        anchor=f"offload-{number}",
        title=display_name(name),
        sentence=display_text(found.sentence),
        sources=_sources(found.costs),
        figures=[
            each
            for each in (
                frontier_figure(f"frontier-{number}", found),
                regret_figure(f"regret-{number}", found.replay),
            )
            if each is not None
        ],
        tables=[each for each in tables if each.rows],
        details=[_cost_table(found.costs), *map(_bin_table, found.calibration)],
        notes=list(map(display_text, found.notes)),
    )


def _sources(costs: Sequence[ModeCosts]) -> list[str]:
    amounts = [getattr(mode, part) for mode in costs for part in _PARTS]
    return in_order([each.source for each in amounts if each is not None])


def _table(caption: str, points: Sequence[HiPoint], found: Hierarchical) -> Table:
    rows = [
        [
            f"{each.rule} (chosen)" if each == found.chosen else each.rule,
            display_name(each.mode) if each.mode else "–",
            "–" if each.threshold is None else digits(each.threshold, 4),
            share_text(each),
            accuracy_text(each),
            _amount(each, "latency"),
            _amount(each, "energy"),
            "–" if each.cost is None else digits(each.cost, 4),
            ", ".join(f"{limit.quantity} {limit.holds}" for limit in each.limits) or "–",
        ]
        for each in points
    ]
    return condensed(Table(caption, _COLUMNS, rows, _NUMERIC), ())


def _amount(point: HiPoint, name: str) -> str:
    found = point.latency if name == "latency" else point.energy
    return UNKNOWN if found is None else amount_text(found, "s" if name == "latency" else "J")


def _cost_table(costs: Sequence[ModeCosts]) -> Table:
    columns = (
        *("Mode", "Local run", "Decision", "Offload"),
        *("Local energy", "Decision energy", "Offload energy"),
    )
    rows = []
    for mode in costs:
        cells = []
        for part in _PARTS:
            each = getattr(mode, part)
            text = amount_text(each, part[-1].upper() if part.endswith("j") else "s")
            cells.append(UNKNOWN if each is None else f"{text} ({each.source})")
        rows.append([display_name(mode.mode) if mode.mode else "all", *cells])
    return Table("What a sample costs", columns, rows, frozenset({1, 2, 3, 4, 5, 6}))


def _bin_table(found: Calibration) -> Table:
    text = calibration_text(found)
    caption = text[0].upper() + text[1:]
    rows = [
        [f"{edge:.3f} to {edge + 1 / found.n_bins:.3f}", f"{n:,}", f"{mean:.3f}", f"{share:.3f}"]
        for edge, n, mean, share in found.bins
    ]
    columns = ("Bin", "Samples", "Mean probability", "Share that is right")
    return Table(caption, columns, rows, frozenset({1, 2, 3}))
