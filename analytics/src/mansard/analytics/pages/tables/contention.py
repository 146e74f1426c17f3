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


def sections(found: Sequence[VictimContention]) -> list[ContentionSection]:
    """One for each, in their order; the first ``MOST_FIGURES`` with a figure."""
    return [
        ContentionSection(
            sentence=contention_words(each),
            sources=(each.source,) if each.fit is None else (each.source, "modelled"),
            figures=_figures(number, each) if number < MOST_FIGURES else (),
            table=contention_table(each),
            note=display_text(each.remark) if each.remark else "",
        )
        for number, each in enumerate(found)
    ]


def _figures(number: int, found: VictimContention) -> Sequence[Figure]:
    from mansard.analytics.pages.figures.contention import (
        contention_figure,  # the command draws none
    )

    figure = contention_figure(f"contention-{number}", found, contention_table(found))
    return () if figure is None else (figure,)


def contention_table(found: VictimContention) -> Table:
    """Percent of its own speed that the victim keeps: a row for each of its demands."""
    title = f"{_title(found)}: percent of its own speed"
    surface = found.surface
    if surface is None:
        return Table(title, ("own demand",), ((found.unknown["surface"],),))
    columns = ["own demand"]
    columns += [f"beside {_rate(rate)}" for rate in surface.external_byte_per_s]
    rows = [
        (_rate(own), *(digits(100 * achieved / own, 3) for achieved in row))
        for own, row in zip(surface.own_byte_per_s, surface.achieved_byte_per_s, strict=True)
    ]
    return Table(title, tuple(columns), tuple(rows), frozenset(range(1, len(columns))))


def contention_words(found: VictimContention) -> str:
    """What the victim loses at worst, against the noise, and how well the fit describes it."""
    if found.worst_points is None or found.noise_points is None:
        return f"{_title(found)}: {found.unknown['is_contended']}."
    noise = f"with nothing beside it, its speed differs by up to {_points(found.noise_points)}"
    if found.is_contended:
        words = f"loses at worst {_points(found.worst_points)} of its speed; {noise}"
    else:
        words = f"no contention beyond the noise: {noise}"
    fit = found.fit
    if fit is not None and fit.error_points is not None:
        words += f". The fit (PCCS, modelled) is off by {_points(fit.error_points)} on average"
        if fit.left_out_points is not None:
            words += f", by {_points(fit.left_out_points)} on rows left out of it"
    if found.repeat_points is not None:
        words += f". Other runs of the same points differ by {_points(found.repeat_points)}"
    return f"{_title(found)}: {words}."


def _title(found: VictimContention) -> str:
    names = [display_name(each) for each in (found.victim, found.aggressor, found.mode)]
    return f"{display_name(found.device)}, {names[2]}: {names[0]} beside {names[1]}"


def _rate(byte_per_s: float) -> str:
    return quantity(byte_per_s, "B/s", n_digits=3) if byte_per_s else UNKNOWN


def _points(points: float) -> str:
    return f"{points:.1f}{NBSP}%"
