"""Which precisions may be recommended, by how often a network is right in them.

A drop belongs to a network in a precision, whatever the mode and the batch: so it is weighed before
anything is compared. A limit holds with ``Wanted.probability``, as others do; fp32 is what drops
are drops from. What is not known to hold is left out, and a note says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from mansard.analytics.data.accuracies import REFERENCE, Drop, NetworkAccuracy, Share
from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP
from mansard.analytics.decide.records import UNKNOWN_PRECISION, Wanted
from mansard.core.errors import UsageError

Accuracies = Mapping[str, NetworkAccuracy]  # of one network on one device, by precision


@dataclass(frozen=True)
class Allowed:
    """Predictions whose precision may be recommended, and a note for each that may not."""

    predictions: pl.DataFrame
    notes: tuple[str, ...]


def without_drops(predictions: pl.DataFrame, wanted: Wanted, known: Accuracies) -> Allowed:
    """``predictions`` of one network and device without precisions that may lose too much.

    Raises UsageError unless the limit is between 0 and 1.
    """
    most = wanted.max_drop
    if most is None:
        return Allowed(predictions, ())
    if not (math.isfinite(most) and 0 <= most < 1):
        raise UsageError(f"a drop of {most:g} bounds nothing", fix="give 1%, or 0.01")
    network = "" if predictions.is_empty() else display_name(str(predictions["network"][0]))
    notes, kept = [], []
    named = predictions["precision"].fill_null(UNKNOWN_PRECISION)
    for precision in named.unique().sort():
        why = _why_not(precision, most, wanted.probability, known.get(precision), network)
        if why:
            notes.append(f"{precision} is left out: {why}")
        else:
            kept.append(precision)
    mask = named.is_in(kept)
    return Allowed(predictions.filter(mask), tuple(notes))


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
        f"its accuracy drops by {drop_words(known.drop)} against {REFERENCE}, and the limit is "
        f"{limit}: that holds with a probability of {100 * chance:.0f}{NBSP}%, "
        f"{100 * probability:g}{NBSP}% is asked"
    )


def accuracy_sentence(known: NetworkAccuracy | None) -> str:
    """What is known of the accuracy of the choice; empty: nothing."""
    if known is None or (known.top1 is None and known.agreement is None):
        return ""
    of = f"of {known.n_samples:,} samples of {known.dataset}"
    if known.top1 is None and known.agreement is not None:
        return (
            f" In {known.precision} it says as in {REFERENCE} for {_words(known.agreement)} {of}."
        )
    right = "" if known.top1 is None else _words(known.top1)
    drop = "" if known.drop is None else f", a drop of {drop_words(known.drop)} from {REFERENCE}"
    return f" In {known.precision} it is right for {right} {of}{drop}."


def open_note(precisions: list[str], known: Accuracies) -> str:
    """What each of several precisions that were open does to the results."""
    told = {name: share for name in precisions if (share := _top1(known.get(name)))}
    blind = [name for name in precisions if name not in told]
    if not told:
        return f"{', '.join(blind)} were open: what each does to the results is not known here"
    words = ", ".join(f"{name} is right for {share}" for name, share in told.items())
    rest = f"; of {', '.join(blind)} it is not known" if blind else ""
    return f"{', '.join(precisions)} were open: {words}{rest}"


def _top1(known: NetworkAccuracy | None) -> str:
    return "" if known is None or known.top1 is None else _words(known.top1)


def _words(share: Share) -> str:
    ends = f"{100 * share.low:.1f} to {100 * share.high:.1f}"
    return f"{100 * share.value:.1f} ({ends}){NBSP}%"


def drop_words(drop: Drop) -> str:
    """``0.7 (0.1 to 1.3) %``."""
    value, low, high = (
        f"{100 * each + 0.0:.1f}".replace("-", "−") for each in (drop.value, drop.low, drop.high)
    )
    return f"{value} ({low} to {high}){NBSP}%"
