"""Contention in words and tables, for the report and the command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mansard.analytics.data.names import display_name, display_text
from mansard.analytics.data.quantities import NBSP, UNKNOWN, digits, quantity
from mansard.analytics.models.contention import VictimContention
from mansard.core.table import Table

if TYPE_CHECKING:
    from mansard.analytics.pages.figures.figure import Figure

MOST_FIGURES = 8  # a page stays under 2 MB


@dataclass(frozen=True)
class ContentionSection:
    """What the page shows of one accelerator beside another."""

    sentence: str
    sources: Sequence[str]
    figures: Sequence[Figure]  # one at most
    table: Table
    note: str


def sections(contended: Sequence[VictimContention]) -> list[ContentionSection]:
    """One for each, in their order; the first ``MOST_FIGURES`` with a figure."""
    return [
        ContentionSection(
            sentence=contention_words(measured),
            sources=(measured.source,) if measured.fit is None else (measured.source, "modelled"),
            figures=_figures(number, measured) if number < MOST_FIGURES else (),
            table=contention_table(measured),
            note=display_text(measured.remark) if measured.remark else "",
        )
        for number, measured in enumerate(contended)
    ]


def _figures(number: int, measured: VictimContention) -> Sequence[Figure]:
    from mansard.analytics.pages.figures.contention import (
        contention_figure,  # the command draws none
    )

    figure = contention_figure(f"contention-{number}", measured, contention_table(measured))
    return () if figure is None else (figure,)


def contention_table(measured: VictimContention) -> Table:
    """Percent of its own speed that the victim keeps: a row for each of its demands."""
    title = f"{_title(measured)}: percent of its own speed"
    surface = measured.surface
    if surface is None:
        return Table(title, ("own demand",), ((measured.unknown["surface"],),))
    columns = ["own demand"]
    columns += [f"beside {_rate(rate)}" for rate in surface.external_byte_per_s]
    rows = [
        (_rate(own_demand), *(digits(100 * achieved / own_demand, 3) for achieved in row))
        for own_demand, row in zip(surface.own_byte_per_s, surface.achieved_byte_per_s, strict=True)
    ]
    return Table(title, tuple(columns), tuple(rows), frozenset(range(1, len(columns))))


def contention_words(measured: VictimContention) -> str:
    """What the victim loses at worst, against the noise, and how well the fit describes it."""
    if measured.worst_points is None or measured.noise_points is None:
        return f"{_title(measured)}: {measured.unknown['is_contended']}."
    noise = f"with nothing beside it, its speed differs by up to {_points(measured.noise_points)}"
    if measured.is_contended:
        words = f"loses at worst {_points(measured.worst_points)} of its speed; {noise}"
    else:
        words = f"no contention beyond the noise: {noise}"
    fit = measured.fit
    if fit is not None and fit.error_points is not None:
        words += f". The fit (PCCS, modelled) is off by {_points(fit.error_points)} on average"
        if fit.left_out_points is not None:
            words += f", by {_points(fit.left_out_points)} on rows left out of it"
    if measured.repeat_points is not None:
        words += f". Other runs of the same points differ by {_points(measured.repeat_points)}"
    return f"{_title(measured)}: {words}."


def _title(measured: VictimContention) -> str:
    names = [display_name(name) for name in (measured.victim, measured.aggressor, measured.mode)]
    return f"{display_name(measured.device)}, {names[2]}: {names[0]} beside {names[1]}"


def _rate(byte_per_s: float) -> str:
    return quantity(byte_per_s, "B/s", n_digits=3) if byte_per_s else UNKNOWN


def _points(points: float) -> str:
    return f"{points:.1f}{NBSP}%"
