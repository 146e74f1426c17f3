"""How long a sweep will take, before it starts: from the caps of its protocol."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Protocol

MODE_CHANGE_S = 3.0  # nvpmodel, a query, the locks and their reading back: seconds on a board
ASSUMES = (
    "every trial uses up its time cap and, where there is a meter, as many energy windows as "
    "its protocol asks for at the least; cooling down between modes is not counted"
)
ASSUMES_MEASURED = "trials that are left take the median of those measured so far"


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


def sweep_time(
    plans: Iterable[tuple[TrialProtocol, int]],
    measured_s: Sequence[float] = (),
    *,
    has_meter: bool = True,
) -> float:
    """Seconds that a sweep takes: for each mode its protocol and how many trials it lacks.

    ``measured_s``: how long trials of this sweep took that are done already. ``ASSUMES`` and
    ``ASSUMES_MEASURED`` say in words what the figure rests on. A mode without missing trials
    is not visited, and takes no time.
    """
    total_s = 0.0
    for protocol, n_missing in plans:
        if n_missing < 1:
            continue
        idle_s = 3 * protocol.idle_s if has_meter else 0.0
        total_s += MODE_CHANGE_S + idle_s + n_missing * _trial_s(protocol, measured_s, has_meter)
    return total_s


def _trial_s(protocol: TrialProtocol, measured_s: Sequence[float], has_meter: bool) -> float:
    if measured_s:
        return statistics.median(measured_s)
    energy_s = protocol.n_energy_windows * protocol.energy_window_cap_s + protocol.settle_cap_s
    return protocol.time_cap_s + (energy_s if has_meter else 0.0)
