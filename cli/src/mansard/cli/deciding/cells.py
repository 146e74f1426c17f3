"""Cells of a table: what a network takes in a mode, as its interval allows to say it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mansard.analytics.data import quantities
from mansard.core.units import Interval


@dataclass(frozen=True, kw_only=True)
class PredictedCells:
    """Time of a batch, power, energy of an item, items in a second, and what is to be remarked."""

    time: str
    power: str
    energy: str
    rate: str
    remarks: tuple[str, ...]


def predicted_cells(field: Callable[[str], Any], rate: float | None) -> PredictedCells:
    """The cells of a prediction, ``field`` being its fields by the names of ``Candidate``."""
    kind, n_items = field("interval"), field("batch")
    time, power, energy = (
        (field(f"{name}_{unit}"), field(f"{name}_low_{unit}"), field(f"{name}_high_{unit}"))
        for name, unit in (("latency", "s"), ("power", "w"), ("energy", "j"))
    )
    items = Interval(*time, kind).inverse(n_items)
    is_wide = any(quantities.is_wide(low, high, kind) for _, low, high in (time, power, energy))
    return PredictedCells(
        time=quantities.seconds(*time, kind, advise=False),
        power=quantities.watts(*power, kind, advise=False),
        energy=quantities.joules(*energy, kind, advise=False),
        rate=quantities.rate(rate, items.low, items.high, kind, advise=False),
        remarks=(quantities.MEASURE_MORE,) if is_wide else (),
    )
