"""Logs as other programs write them around tegrastats' lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from mansard.device.tegrastats import parse_line
from mansard.device.tegrastats.files import read_lines
from mansard.device.tegrastats.sessions import Times, time_of

LINE = (
    "RAM 2458/7620MB (lfb 4x4MB) SWAP 0/3810MB (cached 0MB) CPU [1%@729,off] EMC_FREQ 0%@2133 "
    "GR3D_FREQ 0%@[305] cpu@48.4C VDD_IN 4750mW/4750mW VDD_SOC 1438mW/1438mW"
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("\x1b[32m", "\x1b[0m"),
        ("\x1b[1;31m\x1b[K", "\x1b[m\x1b(B"),
        ("\x1b[0m[INFO] [1700000000.1]: ", "\x1b[0m"),
        ('"', '"'),
        ('"', '\\n",'),
        ("b'", "\\n'"),
        ('{"log":"', '\\n","stream":"stdout","time":"2026-11-21T17:04:22.5Z"}'),
        ('{"log":"', '\\n","attrs":{"tag":"x"},"stream":"stdout"}'),
    ],
)
def test_breaker_what_is_wrapped_around_a_line_costs_no_field(before: str, after: str) -> None:
    plain, wrapped = parse_line(LINE), parse_line(f"{before}{LINE}{after}")
    assert wrapped.unparsed == ()
    assert (wrapped.ram, wrapped.cpus, wrapped.rails) == (plain.ram, plain.cpus, plain.rails)


def test_breaker_dockers_time_is_the_lines_time() -> None:
    entry = f'{{"log":"{LINE}\\n","stream":"stdout","time":"1970-01-02T00:00:01.5Z"}}'
    moment = time_of(parse_line(entry).prefix)
    assert moment is not None
    assert moment.time_s == 86_401.5  # one day, one second and a half


@pytest.mark.parametrize("junk", ['{"log":1}', '{"log":', "{", '{"log":"' + "[" * 9999, '"', "b'"])
def test_breaker_half_a_wrapping_is_kept_with_the_line(junk: str) -> None:
    sample = parse_line(f"{junk} {LINE}")
    assert [rail.name for rail in sample.rails] == ["VDD_IN", "VDD_SOC"]


def test_breaker_lines_that_end_with_a_carriage_return_alone(tmp_path: Path) -> None:
    log = tmp_path / "screen.log"
    log.write_bytes(f"{LINE}\r{LINE}\r\n{LINE}\n".encode())
    assert list(read_lines(log)) == [LINE, LINE, LINE]


@pytest.mark.parametrize(
    ("prefix", "time_s"),
    [
        ("1/2/1970 12:00:00 AM ", 86_400.0),  # midnight, one day after 1970 began
        ("1/2/1970 12:00:00 PM ", 129_600.0),  # noon: 12 hours more
        ("1/2/1970 1:00:00 pm ", 133_200.0),
        ("1/2/1970 13:00:00 ", 133_200.0),
        ("11:59:59 PM ", 86_399.0),
    ],
)
def test_breaker_clocks_of_twelve_hours(prefix: str, time_s: float) -> None:
    moment = time_of(prefix)
    assert moment is not None
    assert moment.time_s == time_s


def test_breaker_a_clock_without_a_date_goes_past_midnight() -> None:
    times = Times()
    prefixes = ["Nov 21 23:59:59 orin: ", "Nov 22 00:00:01 orin: ", "23:59:58 ", "00:00:02 "]
    seen = [moment.time_s for prefix in prefixes if (moment := times.of(prefix)) is not None]
    # The second is 2 s later; then the clock is set back by 3 s, which shows as going backwards.
    assert seen == [86_399.0, 86_401.0, 86_398.0, 86_402.0]
    assert times.of("no time here") is None
