"""The origin of published figures, and the bounds of their values.

A figure outside of the bounds is a slip of a unit or of a key. They hold for anything from one core
to a rack. What a known module can do is narrower: see ``doubts``. docs/use/importing.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from mansard.core.hashing import content_hash
from mansard.core.records import (
    KernelCounters,
    Processor,
    PublishedLayer,
    PublishedRate,
    PublishedRun,
)

PublishedRow = PublishedRate | PublishedRun | PublishedLayer


class Bound(NamedTuple):
    """The range of a quantity in SI units, and its name in messages."""

    least: float
    most: float
    text: str

    def holds(self, value: float) -> bool:
        """Whether ``value`` is possible; NaN is not."""
        return self.least <= value <= self.most


SHARE = Bound(0.0, 1.0, "a share lies between 0 and 1")
BOUNDS: Mapping[str, Bound] = MappingProxyType(
    {  # by the dimension of a column
        "time": Bound(1e-9, 1e6, "a time lies between 1 ns and 1,000,000 s"),
        "power": Bound(1e-3, 1e6, "a power lies between 1 mW and 1 MW"),
        "energy": Bound(1e-12, 1e12, "an energy lies between 1 pJ and 1 TJ"),
        "frequency": Bound(1e5, 1e10, "a clock lies between 100 kHz and 10 GHz"),
        "work rate": Bound(1e3, 1e19, "a rate of work lies between 1 kFLOP/s and 10 EFLOP/s"),
        "byte rate": Bound(1e3, 1e16, "a bandwidth lies between 1 kB/s and 10 PB/s"),
        "images/s": Bound(1e-6, 1e10, "a throughput lies between 0.000001 and 10,000,000,000 /s"),
    }
)
_COUNT = Bound(0.0, 1e15, "a count lies between 0 and 1,000,000,000,000,000")
_DEVIATION = Bound(0.0, 1e6, "a deviation lies between 0 and 1,000,000 s")
_LOG_DEVIATION = Bound(0.0, 10.0, "a deviation of the logarithm lies between 0 and 10")
_ENDINGS = (
    ("log_deviation", _LOG_DEVIATION),
    ("deviation_s", _DEVIATION),
    ("_per_s", BOUNDS["images/s"]),
    ("_s", BOUNDS["time"]),
    ("_w", BOUNDS["power"]),
    ("_j", BOUNDS["energy"]),
)


def bound_of_figure(name: str) -> Bound:
    """The bound of a figure, by the unit that its name ends in; any other is a count."""
    return next((bound for ending, bound in _ENDINGS if name.endswith(ending)), _COUNT)


def table_id_of(rows: Sequence[PublishedRow | KernelCounters]) -> str:
    """The id of a table: the hash of its ``rows``, which have no id yet."""
    return content_hash(rows)


@dataclass(frozen=True, kw_only=True)
class PublishedOrigin:
    """The device that figures are of, and where they were published."""

    device: str
    processor: Processor
    citation: str
