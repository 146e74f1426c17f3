from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mansard.analytics.data.quantities import (
    capacity,
    digits,
    fixed,
    is_wide,
    joules,
    limit_word,
    percent,
    percent_bound,
    plain_number,
    quantity,
    rate,
    relative,
    seconds,
    watts,
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


def test_a_number_keeps_its_middle_where_the_ends_differ() -> None:
    assert plain(plain_number(21.3, 20.6, 22.0)) == "21.30 ± 0.70"
    # 1.63 above and 1.37 below: no ± says both
    assert plain_number(6.67, 5.3, 8.3) == "6.67 (5.3 to 8.3)"
    assert plain_number(12.5, None, None) == "12.5"
    assert plain_number(None, None, None) == "unknown"


def test_capacities_are_binary() -> None:
    assert plain(capacity(65536)) == "64 KiB"
    assert plain(capacity(32 * 1024**2)) == "32 MiB"
    assert plain(capacity(512)) == "512 B"


def test_bounds_of_shares_are_rounded_outwards() -> None:
    assert plain(percent_bound(0.0058)) == "0.58 %"
    assert plain(percent_bound(0.00589)) == "0.58 %"
    assert plain(percent_bound(0.00581, up=True)) == "0.59 %"
    assert plain(percent_bound(0.1 + 0.2, up=True)) == "30 %"  # the sum is 0.30000000000000004
    assert plain(percent_bound(0.996)) == "99 %"
    assert plain(percent_bound(1.0, up=True)) == "100 %"
    assert plain(percent_bound(0.0)) == "0 %"


def test_percent() -> None:
    assert plain(percent(0.424)) == "42 %"
    assert percent(None) == "unknown"
    assert plain(relative(0.0123)) == "1.2 %"
    assert plain(relative(1.234)) == "120 %"


@pytest.mark.parametrize(
    ("value", "low", "high", "kind", "text"),
    [
        (26.1e-3, 25.7e-3, 26.5e-3, "spread", "26.10 ± 0.40 ms"),
        (26.1e-3, 25.9e-3, 28.4e-3, "spread", "25.9 to 28.4 ms"),  # 0.2 below, 2.3 above
        (26e-3, 9.13e-3, 61.2e-3, "spread", "9.1 to 62 ms"),  # 61.2 / 9.13 = 6.7
        (26e-3, 9.13e-3, 78.3e-3, "spread", "9.1 to 79 ms, measure more"),  # 78.3 / 9.13 = 8.6
        (115.9e-3, 100.2e-3, 135.7e-3, "spread", "100 to 136 ms"),  # 35.5 wide: to 1
        (1.1e-3, 0.913e-3, 1.381e-3, "spread", "910 µs to 1.39 ms"),  # 0.468 wide: to 0.01
        (26e-3, 1e-9, 1e6, "spread", "unknown, measure more"),
        (26e-3, 9e-3, 78e-3, "bounds", "between 9 and 78 ms"),
        (26e-3, 9e-3, 780e-3, "bounds", "between 9 and 780 ms"),  # certain, however wide
        (3.21e-3, 3.18e-3, 3.24e-3, "roof", "at best 3.21 ms"),  # 0.06 wide: three digits at most
        (3.21e-3, 2.58e-3, 3.84e-3, "roof", "at best 3.2 ms"),  # 1.26 wide: to 0.1, down
        (3.219e-3, None, None, "roof", "at best 3.21 ms"),
        (3.2e-3, None, None, "roof", "at best 3.20 ms"),
        (26e-3, 9.13e-3, float("inf"), "bounds", "at least 9.1 ms"),
        (26e-3, 9.13e-3, float("inf"), "spread", "unknown, measure more"),
        (26e-3, 9e-3, 78e-3, None, "26.0 ms"),
        (26e-3, None, None, "spread", "26.0 ms"),
        (None, None, None, "spread", "unknown"),
    ],
)
def test_a_predicted_time_is_printed_by_the_kind_of_its_interval(
    value: float | None, low: float | None, high: float | None, kind: str | None, text: str
) -> None:
    assert plain(seconds(value, low, high, kind)) == text


def test_energies_powers_and_rates_are_printed_likewise() -> None:
    assert plain(joules(0.5, 0.31, 0.8)) == "310 to 800 mJ"
    assert plain(watts(12.0, 7.25, 19.9)) == "7.2 to 20 W"
    assert plain(watts(0.5, 0.2, 1.25)) == "0.2 to 1.3 W"
    assert plain(rate(38.0, 12.8, 109.5)) == "12 to 110, measure more"
    assert plain(rate(38.0, 12.8, 109.5, advise=False)) == "12 to 110"


def test_a_roof_bounds_time_and_energy_below_rates_above_and_power_not_at_all() -> None:
    assert plain(joules(0.0586, 0.0586, 0.0586, "roof")) == "at best 58.6 mJ"
    assert plain(rate(312.4, 309.2, 315.6, "roof")) == "at most 313"
    assert plain(watts(12.34, None, None, "roof")) == "12.3 W at the roof"


def test_a_symmetric_interval_keeps_its_plus_minus_however_wide_it_is() -> None:
    # 2 ± 0.8 of least squares: both sides are 0.8, and the interval stays above 0
    assert plain(fixed(2.0, "pJ/B", 1.2, 2.8)) == "2.00 ± 0.80 pJ/B"
    assert plain(fixed(2.0, "pJ/B", -1.2, 5.2)) == "0 to 5.2 pJ/B"


def test_an_interval_never_reads_as_exact() -> None:
    # a half width of 0.00002 is less than the last place of four digits
    assert plain(fixed(9.765, "W", 9.76498, 9.76502)) == "9.765 ± 0.001 W"
    assert plain(fixed(9.765, "W", 9.765, 9.765)) == "9.765 W"
    assert plain(seconds(26.1e-3, 26.1e-3, 26.1e-3)) == "26.1 ms"


def test_only_a_spread_says_to_measure_more() -> None:
    assert is_wide(1.0, 7.1, "spread")
    assert not is_wide(1.0, 6.9, "spread")
    assert not is_wide(1.0, 100.0, "bounds")
    assert not is_wide(None, None, "spread")


_FACTORS = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "": 1.0, "m": 1e-3, "µ": 1e-6, "n": 1e-9}


def number(text: str, unit: str, default: str | None = None) -> float:
    """What ``12.3 mJ`` says in J; ``default`` is the unit of a number without one."""
    digits_, _, shown = text.partition(" ")
    shown = shown or default or ""
    return float(digits_.replace(",", "")) * _FACTORS[shown.removesuffix(unit)]


def printed_ends(text: str, unit: str) -> tuple[float, float]:
    """The ends that a text with an interval says."""
    text = plain(text).removesuffix(", measure more").removeprefix("between ")
    if " ± " in text:
        middle, half = text.split(" ± ")
        value, spread = number(middle, unit, half.partition(" ")[2]), number(half, unit)
        # the value itself is rounded by at most half of its last place
        places = len(middle.partition(".")[2])
        last = 10.0**-places * _FACTORS[half.partition(" ")[2].removesuffix(unit)]
        return value - spread - last, value + spread + last
    first, last_end = text.replace(" and ", " to ").split(" to ")
    return number(first, unit, last_end.partition(" ")[2]), number(last_end, unit)


POSITIVE = st.floats(min_value=1e-9, max_value=1e6)
RATIO = st.floats(min_value=1.0 + 1e-6, max_value=50.0)


@given(POSITIVE, RATIO, RATIO, st.sampled_from(["spread", "bounds"]))
def test_the_printed_ends_contain_the_true_ones(
    value: float, below: float, above: float, kind: str
) -> None:
    low, high = value / below, value * above
    for text, unit in (
        (seconds(value, low, high, kind), "s"),
        (joules(value, low, high, kind), "J"),
    ):
        assert "-" not in text
        assert "\u2212" not in text
        first, last = printed_ends(text, unit)
        assert first <= low * (1 + 1e-9)
        assert last >= high * (1 - 1e-9)
        # and are not much wider: two digits are at most a tenth off, of an end or of the width
        assert first >= low / 1.12 - 0.12 * (high - low) - 1e-11
        assert last <= high * 1.12 + 1e-11


@given(POSITIVE, RATIO, RATIO)
def test_a_roof_never_promises_more_than_its_value(
    value: float, below: float, above: float
) -> None:
    low, high = value / below, value * above
    least = number(plain(seconds(value, low, high, "roof")).removeprefix("at best "), "s")
    most = number(plain(rate(value, low, high, "roof")).removeprefix("at most "), "")
    assert value / 1.12 <= least <= value * (1 + 1e-9)
    assert value * (1 - 1e-9) <= most <= value * 1.12


def test_ends_without_a_unit_have_one_prefix() -> None:
    # 661 × 0.5 = 330.5, rounded down to 330; 661 × 1.5 = 991.5, rounded up to 1,000
    assert plain(quantity(661.0, "", 330.5, 991.5)) == "0.33 to 1 k"
    assert plain(quantity(661.0, "W", 330.5, 991.5)) == "330 W to 1 kW"
    assert plain(quantity(661.0, "", 0.0, 991.5)) == "0 to 1 k"


@example(661.0, 0.5)
@given(st.floats(min_value=1e-3, max_value=1e15), st.floats(min_value=1e-6, max_value=0.9))
def test_the_printed_interval_covers_the_real_one(value: float, share: float) -> None:
    low, high = value * (1 - share), value * (1 + share)
    first, last = printed_ends(quantity(value, "", low, high), "")
    assert first <= low * (1 + 1e-9)
    assert last >= high * (1 - 1e-9)


def test_a_limit_of_less_than_sixty_percent_of_the_time_is_mixed() -> None:
    assert limit_word("memory", 0.6) == "memory"
    assert limit_word("memory", 0.51) == "mixed"
    assert limit_word("power", None) == "power"  # of the network as a whole
