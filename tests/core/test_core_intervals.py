"""A value with its bounds: its ends, what is told of it, and the same of an item or as a rate."""

from __future__ import annotations

import math

import pytest

from mansard.core.errors import UsageError
from mansard.core.units import Interval, parse_interval


def test_ends_contain_the_value() -> None:
    assert Interval(2.0, 1.5, 3.0).ends == (1.5, 3.0)
    assert Interval(2.0).ends == (2.0, 2.0)
    assert Interval(2.0, 2.1, 3.0).ends == (2.0, 3.0)


def test_what_is_told_of_an_interval() -> None:
    assert Interval(2.0, 1.9, 2.1).is_symmetric
    assert not Interval(2.0, 1.0, 9.0).is_symmetric
    assert Interval(2.0, 1.0, 7.1).is_wide  # 7.1 > 7
    assert not Interval(2.0, 1.0, 7.1, "bounds").is_wide
    assert not Interval(2.0, 1.0).is_bounded
    assert not Interval(2.0, 1.0, 3.0, None).is_bounded


def test_the_time_of_a_batch_as_that_of_an_item_and_as_a_rate() -> None:
    batch = Interval(4.0, 2.0, 8.0, "bounds")
    assert batch.over(4) == Interval(1.0, 0.5, 2.0, "bounds")
    # 8 items in 4 s are 2 items/s, in 8 s 1, in 2 s 4.
    assert batch.inverse(8) == Interval(2.0, 1.0, 4.0, "bounds")
    assert Interval(0.0, 0.0, 4.0).inverse() == Interval(math.inf, 0.25, None)


def test_an_interval_as_it_is_written() -> None:
    # 8 % of 1.2 ms are 0.096 ms.
    spread = parse_interval("--local-latency", "1.2ms±8%", "time")
    assert (spread.value, spread.kind) == (1.2e-3, "spread")
    assert spread.ends == pytest.approx((1.104e-3, 1.296e-3))
    assert parse_interval("", "3J +- 0", "energy") == Interval(3.0, 3.0, 3.0)
    assert parse_interval("", "3J", "energy") == Interval(3.0, kind=None)
    with pytest.raises(UsageError, match="may be below 0"):
        parse_interval("--local-latency", "1ms±2ms", "time")
