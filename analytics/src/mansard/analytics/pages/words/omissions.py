"""What a recommendation leaves out, and why: precisions, and predictions without a time."""

from __future__ import annotations

from mansard.analytics.data.accuracies import REFERENCE, NetworkAccuracy, share_text
from mansard.analytics.data.names import display_name
from mansard.analytics.data.quantities import NBSP
from mansard.analytics.decisions.limits import DropScreen
from mansard.analytics.decisions.values import OmittedRows

_MOST_REASONS = 3  # in one line


def drop_notes(drops: DropScreen | None) -> tuple[str, ...]:
    """A note for each precision whose accuracy may drop too much."""
    if drops is None:
        return ()
    network = display_name(drops.network)
    notes = [
        f"{precision} is left out: {_why_left_out(drops, network, precision, accuracy)}"
        for precision, accuracy in drops.left_out.items()
    ]
    if drops.is_partial:
        notes.append(f"the accuracy of {network}, which has no precision, is not limited")
    return tuple(notes)


def _why_left_out(
    drops: DropScreen, network: str, precision: str, accuracy: NetworkAccuracy | None
) -> str:
    if accuracy is None or accuracy.drop is None:
        reason = "" if accuracy is None else f" ({accuracy.unknown['drop']})"
        return (
            f"its accuracy against {REFERENCE} is not known{reason}; mansard measure {network} "
            f"--precision {REFERENCE},{precision} --data DATA measures it"
        )
    chance = accuracy.drop.probability_at_most(drops.most)
    limit = f"{100 * drops.most:g}{NBSP}%"
    return (
        f"its accuracy drops by {share_text(accuracy.drop)} against {REFERENCE}, and the limit is "
        f"{limit}: that holds with a probability of {100 * chance:.0f}{NBSP}%, "
        f"{100 * drops.probability:g}{NBSP}% is required"
    )


def omitted_notes(rows: OmittedRows | None) -> tuple[str, ...]:
    """How many predictions have no time, of which modes, and their reasons; empty for none."""
    if rows is None:
        return ()
    more = ", …" if len(rows.modes) > 3 else ""
    where = f" (of modes {', '.join(rows.modes[:3])}{more})" if rows.modes else ""
    reasons = [
        reason if n == rows.n else f"{reason} ({n} of them)"
        for reason, n in rows.reasons[:_MOST_REASONS]
    ]
    why = f": {'; '.join(reasons)}" if reasons else ""
    return (f"{rows.n} of {rows.n_all} predictions have no time and are left out{where}{why}",)
