"""Hierarchical inference on a page: the sentence, the frontier, and details of each answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mansard.analytics.data.names import display_name, display_text, in_order
from mansard.analytics.data.quantities import UNKNOWN
from mansard.analytics.decisions.offload.records import Calibration, Hierarchical, ModeCosts
from mansard.analytics.pages.figures.figure import Figure
from mansard.analytics.pages.figures.offload import frontier_figure, regret_figure
from mansard.analytics.pages.words.offload import amount_text, calibration_text
from mansard.core.table import Table

_PARTS = ("local_s", "decision_s", "offload_s", "local_j", "decision_j", "offload_j")


@dataclass(frozen=True)
class OffloadSection:
    """What the page shows of one answer."""

    anchor: str
    title: str
    sentence: str
    sources: Sequence[str]
    figures: Sequence[Figure]
    details: Sequence[Table]
    notes: Sequence[str]


def sections(answers: Mapping[str, Hierarchical]) -> list[OffloadSection]:
    """One for each answer, in the order of their names."""
    return [_section(number, name, answers[name]) for number, name in enumerate(sorted(answers))]


def _section(number: int, name: str, answer: Hierarchical) -> OffloadSection:
    return OffloadSection(
        anchor=f"offload-{number}",
        title=display_name(name),
        sentence=display_text(answer.sentence),
        sources=_sources(answer.costs),
        figures=[
            figure
            for figure in (
                frontier_figure(f"frontier-{number}", answer),
                regret_figure(f"regret-{number}", answer.replay),
            )
            if figure is not None
        ],
        details=[_cost_table(answer.costs), *map(_bin_table, answer.calibration)],
        notes=list(map(display_text, answer.notes)),
    )


def _sources(costs: Sequence[ModeCosts]) -> list[str]:
    amounts = [getattr(mode, part) for mode in costs for part in _PARTS]
    return in_order([amount.source for amount in amounts if amount is not None])


def _cost_table(costs: Sequence[ModeCosts]) -> Table:
    columns = (
        *("Mode", "Local run", "Decision", "Offload"),
        *("Local energy", "Decision energy", "Offload energy"),
    )
    rows = []
    for mode in costs:
        cells = []
        for part in _PARTS:
            amount = getattr(mode, part)
            text = amount_text(amount, part[-1].upper() if part.endswith("j") else "s")
            cells.append(UNKNOWN if amount is None else f"{text} ({amount.source})")
        rows.append([display_name(mode.mode) if mode.mode else "all", *cells])
    return Table("What a sample costs", columns, rows, frozenset({1, 2, 3, 4, 5, 6}))


def _bin_table(calibration: Calibration) -> Table:
    text = calibration_text(calibration)
    caption = text[0].upper() + text[1:]
    rows = [
        [
            f"{edge:.3f} to {edge + 1 / calibration.n_bins:.3f}",
            f"{n:,}",
            f"{mean:.3f}",
            f"{share:.3f}",
        ]
        for edge, n, mean, share in calibration.bins
    ]
    columns = ("Bin", "Samples", "Mean probability", "Share that is right")
    return Table(caption, columns, rows, frozenset({1, 2, 3}))
