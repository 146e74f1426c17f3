"""One parser of quantities: prefixes of SI and of bytes, bare numbers, ends, and refusals."""

from __future__ import annotations

import pytest

from mansard.core.errors import UsageError
from mansard.core.units import (
    QuantityKind,
    format_quantity,
    parse_bytes,
    parse_quantity,
    parse_share,
    parse_within,
)


@pytest.mark.parametrize(
    ("text", "kind", "bare", "value"),
    [
        ("20ms", "time", None, 0.02),
        ("20 µs", "time", None, 20e-6),
        ("5min", "time", None, 300.0),
        ("20", "time", "ms", 0.02),
        ("1.5kW", "power", None, 1500.0),
        ("500mJ", "energy", None, 0.5),
        ("99Wh", "energy", None, 356400.0),  # 99 · 3,600 J
        ("1.5kWh", "energy", None, 5.4e6),
        ("30", "rate", "/s", 30.0),
        ("6/min", "rate", None, 0.1),
        ("50GB/s", "bandwidth", None, 50e9),
        ("1 GiB", "size", "MB", 1073741824.0),  # 2^30
        ("64", "size", "MB", 64e6),
    ],
)
def test_a_number_with_its_unit(
    text: str, kind: QuantityKind, bare: str | None, value: float
) -> None:
    assert parse_quantity("--option", text, kind, bare=bare) == value


@pytest.mark.parametrize(
    ("text", "kind", "refusal"),
    [
        ("20", "time", "--option '20' has no unit; write 20ms; units are s, ms, us"),
        ("3W", "time", "--option '3W' has the unit 'W'; write 20ms; units are s, ms, us"),
        ("-1J", "energy", "--option '-1J' is not a valid energy; write --option 500mJ"),
        ("0J", "energy", "--option '0J' bounds nothing; write a quantity above 0"),
        ("1gb", "size", "has the unit 'gb'; write 4MiB; units are B, kB, MB, GB, KiB, MiB, GiB"),
    ],
)
def test_what_is_no_quantity_is_refused_in_one_line(
    text: str, kind: QuantityKind, refusal: str
) -> None:
    with pytest.raises(UsageError) as caught:
        parse_quantity("--option", text, kind)
    assert refusal in str(caught.value)


def test_a_quantity_outside_its_ends_is_refused() -> None:
    ends = ("50ms", "1h")
    assert parse_within("--window", "5", "time", bare="s", ends=ends) == 5.0
    assert parse_within("--window", "20min", "time", bare="s", ends=ends) == 1200.0
    for text in ("0", "10ms", "2h", "many"):
        with pytest.raises(UsageError, match="write --window 50ms or more, up to 1h"):
            parse_within("--window", text, "time", bare="s", ends=ends)


def test_sizes_and_shares() -> None:
    assert parse_bytes("512KiB") == 524288
    assert parse_bytes("1000") == 1000
    assert (parse_share("--max-drop", "8.3%"), parse_share("--max-drop", ".5")) == (0.083, 0.5)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.02, "time", "20ms"),
        (1e-7, "time", "0.1us"),
        (12e3, "energy", "12000J"),
        (50e9, "bandwidth", "50GB/s"),
    ],
)
def test_what_is_written_is_read_back(value: float, kind: QuantityKind, text: str) -> None:
    assert format_quantity(value, kind) == text
    assert parse_quantity("", text, kind) == value
