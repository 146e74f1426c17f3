"""One page about one answer of hierarchical inference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mansard.analytics.data.names import display_name
from mansard.analytics.decisions.offload.records import Hierarchical
from mansard.analytics.pages.figures.figure import live_tables, pool
from mansard.analytics.pages.report.page import write_page
from mansard.analytics.pages.tables.offloads import sections


def write_offload_page(found: Hierarchical, name: str, path: Path) -> None:
    """Write the page to ``path``, whole or not at all; raises StorageError."""
    own = sections({name: found})
    drawn = [figure for each in own for figure in each.figures]
    context: dict[str, Any] = {
        "title": f"Hierarchical inference: {display_name(name)}",
        "offloads": own,
        "figures": drawn,
        "datasets": pool(drawn),
        "tables": live_tables(drawn),
    }
    write_page("offloads.html.j2", context, path)
