"""The card's own energy among what was metered: other rails are the host's."""

from __future__ import annotations

from collections.abc import Sequence

from mansard.core.records import EnergyWindow

RAIL = "gpu0"  # the first card, as NVML's meter calls it
# Values of the counter in a window: the error that they leave stands beside its energy.
N_CHANGED = 8


def joules_of(window: EnergyWindow) -> float | None:
    """The energy of the card in a window; of the total where no rail is the card's."""
    of_card = [rail.energy_j for rail in window.rails if rail.rail == RAIL]
    return of_card[0] if of_card else window.total_j


def watts_of(windows: Sequence[EnergyWindow] | None) -> float | None:
    """The mean power of the windows whose energy is known; None where there is none."""
    known = [(joules, one.window_s) for one in windows or () if (joules := joules_of(one))]
    seconds = sum(window_s for _, window_s in known)
    return sum(joules for joules, _ in known) / seconds if seconds else None
