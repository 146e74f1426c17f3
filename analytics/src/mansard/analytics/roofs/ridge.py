"""Where a compute and a memory ceiling meet."""

from __future__ import annotations

from mansard.analytics.roofs.ceilings import Ceiling, CeilingFamily
from mansard.core.records import Record


class Ridge(Record, frozen=True, kw_only=True):
    """Where compute and memory ceilings meet, FLOP/byte; the interval is the corners'."""

    precision: str
    family: CeilingFamily
    level: str
    value: float
    low: float | None
    high: float | None

    @property
    def name(self) -> str:
        """The peak it belongs to: fp16, fp16 tensor."""
        return f"{self.precision} tensor" if self.family == "tensor" else self.precision


def ridge_of(peak: Ceiling, roof: Ceiling) -> Ridge:
    """The ridge point of two ceilings that have values."""
    assert peak.value  # noqa: S101 - the caller keeps measured ceilings only
    assert roof.value  # noqa: S101 - as above
    known = peak.low and peak.high and roof.low and roof.high
    reason = "one of its ceilings has no interval"
    return Ridge(
        precision=peak.subject,
        family=peak.family,
        level=roof.subject,
        value=peak.value / roof.value,
        low=peak.low / roof.high if known else None,  # type: ignore[operator]
        high=peak.high / roof.low if known else None,  # type: ignore[operator]
        unknown={} if known else {"low": reason, "high": reason},
    )
