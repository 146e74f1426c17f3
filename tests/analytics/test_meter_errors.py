"""What the steps of an energy counter add to what is said of a network's power."""

from __future__ import annotations

import msgspec
import pytest

from mansard.analytics.data.totals import meter_deviation
from mansard.core.records import EnergyWindow
from tests.analytics.factory import window


def stepped(error_j: float | None) -> EnergyWindow:
    """20 W for 2 s, 40 J, by a counter whose steps may be ``error_j`` of it."""
    plain = window({"gpu0": 20.0}, ("gpu0",), repetitions=10)
    unknown = {name: why for name, why in plain.unknown.items() if name != "error_j"}
    if error_j is None:
        return plain
    return msgspec.structs.replace(plain, error_j=error_j, unknown=unknown)


def test_the_deviation_of_windows_is_that_of_a_step_somewhere_within_its_bound() -> None:
    # 1.2 J of 40 J are 3 %; over the root of 3 that is 1.732 %, and of four windows half of it.
    assert meter_deviation([stepped(1.2)]) == pytest.approx(0.0173205, rel=1e-5)
    assert meter_deviation([stepped(1.2)] * 4) == pytest.approx(0.00866025, rel=1e-5)
    assert meter_deviation([stepped(None)]) == 0
    assert meter_deviation([]) == 0
