"""How often a network is right, in words."""

from __future__ import annotations

from mansard.analytics.data.accuracies import REFERENCE, NetworkAccuracy, share_text
from mansard.analytics.decisions.limits import Accuracies


def accuracy_sentence(known: NetworkAccuracy | None) -> str:
    """What is known of the accuracy of the choice; empty: nothing."""
    words = _words(known)
    if known is None or not words:
        return ""
    drop = "" if known.drop is None else f", a drop of {share_text(known.drop)} from {REFERENCE}"
    return (
        f" In {known.precision} it is {words} of {known.n_samples:,} samples of {known.dataset}, "
        f"on {known.engine_words}{drop}."
    )


def open_note(precisions: list[str], known: Accuracies) -> str:
    """What each of several precisions that were open does to the results."""
    rights = {name: words for name in precisions if (words := _words(known.get(name)))}
    others = [name for name in precisions if name not in rights]
    if not rights:
        return f"{', '.join(others)} were open: what each does to the results is not known here"
    words = ", ".join(f"{name} is {what}" for name, what in rights.items())
    rest = f"; of {', '.join(others)} it is not known" if others else ""
    return f"{', '.join(precisions)} were open: {words}{rest}"


def _words(known: NetworkAccuracy | None) -> str:
    """How often it is right, or at least as in fp32; empty: neither is known."""
    if known is None or (known.top1 is None and known.agreement is None):
        return ""
    if known.top1 is not None:
        return f"right for {share_text(known.top1)}"
    return f"as in {REFERENCE} for {share_text(known.agreement)}"
