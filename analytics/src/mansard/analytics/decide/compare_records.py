"""What changed between two runs: boards, modes, or the same one twice."""

from __future__ import annotations

from typing import Literal

from mansard.core.records import Record

Kind = Literal["peak", "bandwidth", "energy", "network"]
Test = Literal["ranks of blocks", "intervals"]


class Change(Record, frozen=True, kw_only=True):
    """One quantity on both sides: second over first, with its 95 % interval.

    ``p``: of no difference, by ``test``; ``p_corrected`` for all quantities that were tested.
    ``is_significant``: that is below 0.05.
    """

    kind: Kind
    quantity: str
    unit: str
    first: float
    first_low: float | None
    first_high: float | None
    second: float
    second_low: float | None
    second_high: float | None
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    test: Test | None
    p: float | None
    p_corrected: float | None
    is_significant: bool | None


class Comparison(Record, frozen=True, kw_only=True):
    """Two runs side by side. ``differences``: what else is not the same, such as a version."""

    first: str
    second: str
    changes: tuple[Change, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    differences: tuple[str, ...]
