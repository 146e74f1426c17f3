"""A page about the layers of engines: a strip by time, their roofline, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mansard.analytics.data.names import display_text, in_order
from mansard.analytics.models.layers.rows import RoofedLayers
from mansard.analytics.pages.figures.engine_layers import roofline_of_layers, time_strip
from mansard.analytics.pages.figures.figure import Figure, Missing, live_tables, pool
from mansard.analytics.pages.report.page import write_page
from mansard.analytics.pages.tables.engine_layers import (
    engine_layer_table,
    engine_layer_words,
    network_title,
)
from mansard.core.errors import UsageError
from mansard.core.table import Table

MOST_ROWS = 600  # layers listed of one engine: the page stays small
MOST_ENGINES = 12  # with charts of their own
_IN_CHARTS = ("Work", "Bytes", "Rate", "Bandwidth")  # the table under the roofline has them


@dataclass(frozen=True)
class LayersSection:
    """The part of a page about one engine."""

    anchor: str
    title: str
    sources: tuple[str, ...]
    sentences: tuple[str, ...]
    strip: Figure | Missing
    roofline: Figure | Missing
    table: Table
    notes: tuple[str, ...]

    @property
    def figures(self) -> list[Figure]:
        """The charts that there are."""
        return [figure for figure in (self.strip, self.roofline) if isinstance(figure, Figure)]


def layers_sections(
    results: Sequence[RoofedLayers], most: int = MOST_ENGINES, most_rows: int = MOST_ROWS
) -> list[LayersSection]:
    """A section for each engine, the first ``most`` of them."""
    sections = []
    for number, result in enumerate(results[:most]):
        left = len(result.layers) - most_rows
        notes = [*map(display_text, result.notes)]
        if left > 0:
            notes.append(f"{left} engine layers with smaller gaps are left out; --json has all.")
        roofs = result.roofs_source
        sections.append(
            LayersSection(
                anchor=f"engine-{number}",
                title=network_title(result),
                sources=tuple(in_order([result.source, *([roofs] if roofs else []), "modelled"])),
                sentences=tuple(engine_layer_words(result)),
                strip=time_strip(number, result),
                roofline=roofline_of_layers(number, result),
                table=engine_layer_table(result, most_rows).without(_IN_CHARTS),
                notes=tuple(notes),
            )
        )
    return sections


def write_layers_page(results: Sequence[RoofedLayers], path: Path) -> None:
    """Write the page to ``path``, whole or not at all; raises UsageError of none, StorageError."""
    if not results:
        raise UsageError("there are no layers to draw", fix="give what api.layers returned")
    sections = layers_sections(results)
    drawn = [figure for section in sections for figure in section.figures]
    left = len(results) - len(sections)
    context: dict[str, Any] = {
        "title": f"Layers of {sections[0].title}" if len(sections) == 1 else "Layers of engines",
        "engines": sections,
        "left_out": f"{left} more have no section of their own." if left > 0 else "",
        "figures": drawn,
        "datasets": pool(drawn),
        "tables": live_tables(drawn),
    }
    write_page("layers.html.j2", context, path)
