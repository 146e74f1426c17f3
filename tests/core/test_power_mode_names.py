"""Frequencies and names of custom modes, as people write and read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import MansardError, UsageError
from mansard.core.power_mode import ModeSettings, custom_name, parse_custom_name
from mansard.core.units import (
    find_frequency,
    format_frequency,
    nearest_first,
    parse_frequency,
)

MHZ = st.integers(1, 9_999)


@pytest.mark.parametrize(
    ("text", "hz", "slack_hz"),
    [
        ("612MHz", 612e6, 1e6),
        ("612 mhz", 612e6, 1e6),
        ("1300.5MHz", 1300.5e6, 1e5),
        ("1190400kHz", 1190.4e6, 1e3),
        ("1300500000Hz", 1300.5e6, 1.0),
        ("1.19GHz", 1.19e9, 1e6),  # a unit of the last digit is 10 MHz, but 1 MHz is the limit
        ("1GHz", 1e9, 1e6),
    ],
)
def test_a_frequency_has_a_unit(text: str, hz: float, slack_hz: float) -> None:
    wanted = parse_frequency(text)
    assert wanted.hz == hz
    assert wanted.slack_hz == pytest.approx(slack_hz)


@pytest.mark.parametrize("text", ["", "612", "MHz", "-1MHz", "612MHzz", "1e3MHz", "١MHz", "nanHz"])
def test_what_is_no_frequency_says_how_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match="is not a frequency; write a number and its unit"):
        parse_frequency(text)


def test_a_clock_of_zero_is_none() -> None:
    with pytest.raises(UsageError, match="'0MHz' is not a clock"):
        parse_frequency("0MHz")


@pytest.mark.parametrize(
    ("text", "hz"),
    [
        ("1190MHz", 1190.4e6),  # cut
        ("115MHz", 114.75e6),  # rounded
        ("114MHz", 114.75e6),
        ("1300MHz", 1300.5e6),
        ("1.3GHz", 1300.5e6),
        ("1191.4MHz", None),  # written to 0.1 MHz, so it must be met as well as that
        ("1192MHz", None),
    ],
)
def test_tools_cut_and_round_frequencies(text: str, hz: float | None) -> None:
    assert find_frequency(parse_frequency(text), (114.75e6, 1190.4e6, 1300.5e6)) == hz


def test_what_is_available_comes_nearest_first() -> None:
    # From 600: 12, 90 and 192 away.
    assert nearest_first(600e6, (408e6, 510e6, 612e6)) == "612MHz, 510MHz, 408MHz"
    many = tuple(1e6 * step for step in range(100, 120))
    assert nearest_first(100e6, many).endswith("111MHz and 8 more")


def test_a_custom_name_says_every_clock_and_the_cores() -> None:
    # The CPU's table has 1190.4 MHz; it is cut, as the board's tools cut it.
    name = custom_name(4, gpu_hz=612e6, emc_hz=2133e6, cpu_hz=1190.4e6)
    assert name == "gpu612MHz_emc2133MHz_cpu1190MHz_4c"
    assert custom_name(2) == "2c"


@given(
    clocks=st.dictionaries(st.sampled_from(["gpu", "emc", "cpu", "dla"]), MHZ),
    n_cpus=st.integers(1, 999),
)
def test_a_custom_name_is_read_back(clocks: dict[str, int], n_cpus: int) -> None:
    name = custom_name(n_cpus, **{f"{key}_hz": mhz * 1e6 for key, mhz in clocks.items()})
    wanted = {key: parse_frequency(f"{mhz}MHz") for key, mhz in clocks.items()}
    assert parse_custom_name(name) == ModeSettings(n_cpus=n_cpus, **wanted)


@given(st.floats(1, 1e11))
def test_a_frequency_that_was_written_finds_itself(hz: float) -> None:
    assert find_frequency(parse_frequency(format_frequency(hz)), (hz,)) == hz


@pytest.mark.parametrize("name", ["15W", "MAXN", "4c_gpu612MHz", "gpu612_4c", "gpu1MHz_gpu2MHz_4c"])
def test_other_names_are_no_custom_names(name: str) -> None:
    assert parse_custom_name(name) is None


@given(st.text())
def test_any_text_is_a_frequency_or_our_error(text: str) -> None:
    parse_custom_name(text)
    try:
        parse_frequency(text)
    except MansardError:
        return
    assert text.strip()[0].isdigit()
