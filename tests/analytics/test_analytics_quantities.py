from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.analytics.data.quantities import (
    capacity,
    digits,
    percent,
    quantity,
    relative,
    seconds,
)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("value", "n_digits", "text"),
    [
        (0, 4, "0"),
        (12.345678, 4, "12.35"),
        (0.0999996, 3, "0.100"),
        (1234.5, 3, "1,230"),
        (1e-7, 3, "1.00e-07"),
        (-2.5, 3, "-2.50"),
    ],
)
def test_digits(value: float, n_digits: int, text: str) -> None:
    assert digits(value, n_digits) == text


def test_quantity_has_a_prefix_and_a_spread() -> None:
    assert plain(quantity(128e9, "FLOP/s")) == "128.0 GFLOP/s"
    assert plain(quantity(128e9, "FLOP/s", 127.6e9, 128.3e9)) == "128.0 ± 0.4 GFLOP/s"
    assert plain(quantity(0.25, "FLOP/byte")) == "0.2500 FLOP/byte"
    assert quantity(None, "FLOP/s") == "unknown"


def test_the_printed_half_width_is_the_larger_and_rounded_up() -> None:
    # 16 - 15.941 = 0.059 and 16.02 - 16 = 0.02; four digits of 16 end at 0.01
    assert plain(quantity(16e9, "B/s", 15.941e9, 16.02e9)) == "16.00 ± 0.06 GB/s"


def test_a_wide_interval_takes_digits_from_the_value() -> None:
    # a half width of 3.2 with two digits ends at 0.1
    assert plain(quantity(16.123e9, "B/s", 12.923e9, 19.323e9)) == "16.1 ± 3.2 GB/s"


def test_seconds_choose_their_unit() -> None:
    assert plain(seconds(0.0123)) == "12.3 ms"
    assert plain(seconds(2.5e-6)) == "2.50 µs"
    assert plain(seconds(3.0)) == "3.00 s"
    assert plain(seconds(0.0)) == "0 ns"
    assert plain(seconds(0.0123, 0.0122, 0.0124)) == "12.30 ± 0.10 ms"


def test_capacities_are_binary() -> None:
    assert plain(capacity(65536)) == "64 KiB"
    assert plain(capacity(32 * 1024**2)) == "32 MiB"
    assert plain(capacity(512)) == "512 B"


def test_percent() -> None:
    assert plain(percent(0.424)) == "42 %"
    assert percent(None) == "unknown"
    assert plain(relative(0.0123)) == "1.2 %"
    assert plain(relative(1.234)) == "120 %"


@given(st.floats(min_value=1e-3, max_value=1e15), st.floats(min_value=0.0, max_value=0.9))
def test_the_printed_interval_covers_the_real_one(value: float, share: float) -> None:
    low, high = value * (1 - share), value * (1 + share)
    text = quantity(value, "", low, high)
    number, half = plain(text).replace(",", "").split(" ± ")
    half_number, _, prefix = half.partition(" ")
    factor = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0}[prefix.strip()]
    # the value itself is rounded by at most half of its last place
    last_place = 10.0 ** -len(number.partition(".")[2])
    reach = (float(half_number) + last_place) * factor
    assert float(number) * factor + reach >= high * (1 - 1e-9)
    assert float(number) * factor - reach <= low * (1 + 1e-9)
