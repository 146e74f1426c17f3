"""Which precisions may be recommended, by how often a network is right in them.

A drop belongs to a network in a precision, whatever the mode and the batch: so it is weighed before
anything is compared. A limit holds with ``Wanted.probability``, as others do; fp32 is what drops
are drops from. What is not known to hold is left out, and a note says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import polars as pl

from mansard.analytics.data.accuracies import REFERENCE, NetworkAccuracy, share_text
from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP
from mansard.analytics.decisions.records import Wanted
from mansard.core.errors import UsageError

Accuracies = Mapping[str, NetworkAccuracy]  # of one network on one device, by precision


def without_drops(
    predictions: pl.DataFrame, wanted: Wanted, known: Accuracies
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """``predictions`` of one network and device without precisions that may lose too much.

    And a note for each of these. Programs, which have no precision, stay. Raises UsageError unless
    the limit is between 0 and 1.
    """
    most = wanted.max_drop
    if most is None:
        return predictions, ()
    if not (math.isfinite(most) and 0 <= most < 1):
        raise UsageError(f"a drop of {most:g} bounds nothing", fix="give 1%, or 0.01")
    network = "" if predictions.is_empty() else display_name(str(predictions["network"][0]))
    notes, kept = [], []
    for precision in predictions["precision"].drop_nulls().unique().sort():
        why = _why_not(precision, most, wanted.probability, known.get(precision), network)
        if why:
            notes.append(f"{precision} is left out: {why}")
        else:
            kept.append(precision)
    if predictions["precision"].null_count():
        notes.append(f"the accuracy of {network}, which has no precision, is not limited")
    is_kept = pl.col("precision").is_null() | pl.col("precision").is_in(kept)
    return predictions.filter(is_kept), tuple(notes)


def _why_not(
    precision: str, most: float, probability: float, known: NetworkAccuracy | None, network: str
) -> str:
    """Why a precision may not be recommended; empty: it may."""
    if precision == REFERENCE:
        return ""
    if known is None or known.drop is None:
        reason = "" if known is None else f" ({known.unknown['drop']})"
        return (
            f"its accuracy against {REFERENCE} is not known{reason}; mansard measure {network} "
            f"--precision {REFERENCE},{precision} --data DATA measures it"
        )
    chance = known.drop.probability_at_most(most)
    if chance >= probability:
        return ""
    limit = f"{100 * most:g}{NBSP}%"
    return (
        f"its accuracy drops by {share_text(known.drop)} against {REFERENCE}, and the limit is "
        f"{limit}: that holds with a probability of {100 * chance:.0f}{NBSP}%, "
        f"{100 * probability:g}{NBSP}% is required"
    )
