"""How well a row is known: what keeps it from being a good one, and which of two is the better.

Rows of all kinds name these faults alike: ``failure``, ``disturbances``, ``stability`` and
``stability_interval``. A field that a kind of rows lacks is a fault that it cannot have.
"""

from __future__ import annotations

import math

from mansard.core.records.base import Record


def doubts(row: Record, *, with_stability: bool = True) -> tuple[str, ...]:
    """Why measuring ``row`` again may give a better one, in words; empty where it is good.

    What could not be run at all has none: its kind says which failures may be temporary.
    ``with_stability``: whether an interval wider than the protocol's goal is a doubt.
    """
    if getattr(row, "failure", None):
        return ()
    disturbances = tuple(f"disturbed: {why}" for why in getattr(row, "disturbances", ()))
    if not with_stability or getattr(row, "stability", "stable") == "stable":
        return disturbances
    interval: float | None = getattr(row, "stability_interval", None)
    if interval is None:
        return (*disturbances, f"unstable: {row.unknown.get('stability_interval', 'not known')}")
    return (*disturbances, f"unstable: known to ±{interval:.1%} alone")


def quality(row: Record) -> tuple[bool, bool, bool, float]:
    """A key that is greater for the better of two rows of one trial; of equal ones take the newest.

    A row that ran is better than one that failed, then an undisturbed one, then a stable one, then
    the one with the narrower interval.
    """
    interval: float | None = getattr(row, "stability_interval", None)
    return (
        not getattr(row, "failure", None),
        not getattr(row, "disturbances", ()),
        getattr(row, "stability", "stable") == "stable",
        -math.inf if interval is None else -interval,
    )
