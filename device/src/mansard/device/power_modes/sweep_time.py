"""How long a sweep will take, before it starts: from the caps of its protocol."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

MODE_CHANGE_S = 3.0  # nvpmodel, a query, the locks and their reading back: seconds on a board


class TrialProtocol(Protocol):
    """What a trial may take; times are in seconds."""

    @property
    def time_cap_s(self) -> float:
        """Longest timing of one trial."""
        ...

    @property
    def n_energy_windows(self) -> int:
        """Energy windows of one trial."""
        ...

    @property
    def energy_window_cap_s(self) -> float:
        """Longest energy window."""
        ...

    @property
    def settle_cap_s(self) -> float:
        """Longest wait for a steady power before the first window."""
        ...

    @property
    def idle_s(self) -> float:
        """Length of one idle window; three of them bracket a mode's trials."""
        ...


def sweep_time(plans: Iterable[tuple[TrialProtocol, int]], *, has_meter: bool = True) -> float:
    """Seconds that a sweep takes at most: for each mode its protocol and how many trials it lacks.

    Every trial is taken to use up its caps. A mode without missing trials is not visited, and
    takes no time; cooling down between modes is not counted.
    """
    total_s = 0.0
    for protocol, n_missing in plans:
        if n_missing < 1:
            continue
        trial_s, idle_s = protocol.time_cap_s, 0.0
        if has_meter:
            trial_s += protocol.n_energy_windows * protocol.energy_window_cap_s
            trial_s += protocol.settle_cap_s
            idle_s = 3 * protocol.idle_s
        total_s += MODE_CHANGE_S + idle_s + n_missing * trial_s
    return total_s
