"""What is missing to answer, and why: limits, values, and modes without a prediction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from mansard.analytics.data.names import display_name
from mansard.analytics.decisions.limits import Mask, Screen
from mansard.analytics.decisions.records import Wanted
from mansard.analytics.decisions.values import Values
from mansard.core.text import listed

_NO_ROW = "nothing that was measured tells of it"
_SHOWN = 3


@dataclass(frozen=True)
class UnknownModes:
    """``reasons``: by mode, why it has no time. A decision without them may be another one."""

    reasons: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.reasons)

    def words(self) -> str:
        """``MAXN is not known: its clocks are not``; empty where all are known."""
        by_reason: dict[str, list[str]] = {}
        for mode, reason in self.reasons.items():
            by_reason.setdefault(reason, []).append(display_name(mode))
        return "; ".join(f"{_names(modes)} not known: {why}" for why, modes in by_reason.items())

    def sentence(self) -> str:
        """The same as a sentence that follows another; empty where all are known."""
        return f" {self.words()}." if self.reasons else ""


def _names(modes: Sequence[str]) -> str:
    rest = len(modes) - _SHOWN
    shown = [*modes[:_SHOWN], *([f"{rest} more modes"] if rest > 0 else [])]
    return f"{listed(shown)} {'is' if len(modes) == 1 else 'are'}"


def unknown_modes(
    predictions: pl.DataFrame, asked: Sequence[str], batches: Sequence[int] | None = None
) -> UnknownModes:
    """Those of the modes ``asked`` for in which no row of ``predictions`` has a time.

    ``predictions``: PREDICTION_SCHEMA of one network on one device; ``batches``: those that are
    open, None for any.
    """
    rows = predictions
    if batches is not None:
        rows = rows.filter(pl.col("batch").fill_null(1).is_in(list(batches)))
    has_time = pl.col("latency_s").is_finite() & (pl.col("latency_s") > 0)
    known = set(rows.filter(has_time.fill_null(value=False))["mode"].to_list())
    said = dict(rows.filter(pl.col("reason").is_not_null()).select("mode", "reason").iter_rows())
    missing = (mode for mode in dict.fromkeys(asked) if mode not in known)
    return UnknownModes({mode: said.get(mode, _NO_ROW) for mode in missing})


def why_missing(values: Values, rows: Mask) -> str:
    """The reason that most of ``rows`` have, in parentheses' words; empty where none is said."""
    reasons = values.frame["reason"].to_list()
    said = [reasons[at] for at in np.flatnonzero(rows) if reasons[at]]
    return max(sorted(set(said)), key=said.count) if said else ""


def missing_quantity(values: Values, screened: Screen, wanted: Wanted, rows: Mask) -> str:
    """What ``rows`` lack to be compared: "power", "energy", or both."""
    limited = {quantity for quantity, _ in screened.limits}
    lacks = []
    for name, band in (("energy", values.energy), ("power", values.power)):
        is_used = name in limited or wanted.minimise in (name, "edp" if name == "energy" else name)
        if is_used and np.isnan(band.value[rows]).any():
            lacks.append(name)
    return " and ".join(lacks) or wanted.minimise


def without_energy(predictions: pl.DataFrame, whys: Mapping[tuple[str, str], str]) -> pl.DataFrame:
    """PREDICTION_SCHEMA without the energies and powers that cannot be true.

    ``whys``: the reason by device and network.
    """
    for (device, network), why in whys.items():
        is_it = (pl.col("device") == device) & (pl.col("network") == network)
        lost = [name for name in predictions.columns if name.startswith(("energy_", "power_"))]
        predictions = predictions.with_columns(
            *(pl.when(~is_it).then(pl.col(name)).alias(name) for name in lost),
            reason=pl.when(is_it).then(pl.lit(why)).otherwise("reason"),
        )
    return predictions
