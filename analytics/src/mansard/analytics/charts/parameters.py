"""What a reader chooses for every chart of a page at once, as parameters of the charts.

A chart names the parameters it follows; the page sets them from its controls (report.js). Rows
that no choice tells apart hold "" in that column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import altair as alt

# "picked" is a mode too, but one that need not have been measured: any point of the grid.
Name = Literal["mode", "network", "precision", "batch", "device", "picked"]
EVERY = ""  # no network, no precision, no mode chosen


@dataclass(frozen=True)
class Chosen:
    """What the charts show before anybody chooses; see ``report.controls``."""

    mode: str = EVERY
    network: str = EVERY
    precision: str = EVERY
    batch: str = EVERY
    device: str = EVERY
    picked: str = EVERY

    def parameter(self, name: Name) -> alt.Parameter:
        """The parameter ``name`` at its first value. Nothing is bound to it: the page is."""
        return alt.param(name=name, value=getattr(self, name))


def equals(name: Name) -> str:
    """A filter: rows of the chosen ``name``."""
    return f"datum.{name} === {name}"


def equals_or_all(name: Name) -> str:
    """A filter: rows of the chosen ``name``, all where none is, and always those without one."""
    return f"({name} === '' || datum.{name} === '' || datum.{name} === {name})"
