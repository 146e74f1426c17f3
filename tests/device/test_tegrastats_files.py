"""Logs as they lie on disk: zipped, with other line ends, cut off, or no text at all."""

from __future__ import annotations

import codecs
import gzip
import os
import random
from pathlib import Path

import pytest

from mansard.core.errors import InputError, StorageError
from mansard.device.tegrastats import stream
from mansard.device.tegrastats.files import read_lines
from mansard.device.tegrastats.sessions import Moment, time_of
from tests.device.tegrastats_lines import LINES
from tests.device.tegrastats_render import render

WHOLE = list(LINES.values())


def rendered(path: Path) -> list[str]:
    return [render(sample) for sample in stream(read_lines(path))]


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "\n\n"])
def test_line_ends_of_all_kinds(tmp_path: Path, end: str) -> None:
    log = tmp_path / "a.log"
    log.write_bytes("".join(line + end for line in WHOLE).encode())
    assert rendered(log) == WHOLE


def test_a_zipped_log_needs_no_name_for_it(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(gzip.compress("\n".join(WHOLE).encode() + b"\n"))
    assert rendered(log) == WHOLE


def test_two_zipped_logs_in_one_file(tmp_path: Path) -> None:
    log = tmp_path / "a.log.gz"
    one = gzip.compress(f"{WHOLE[0]}\n".encode())
    log.write_bytes(one + one)
    assert rendered(log) == [WHOLE[0], WHOLE[0]]


@pytest.mark.parametrize("keep", [0.3, 0.99])
def test_a_cut_zipped_log_says_how_to_save_the_rest(tmp_path: Path, keep: float) -> None:
    log = tmp_path / "a.log.gz"
    data = gzip.compress(random.Random(1).randbytes(5000))
    log.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(InputError, match=r"broken gzip file.*zcat"):
        rendered(log)


@pytest.mark.parametrize(
    "encoding", [(codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le")]
)
def test_logs_that_came_through_windows(tmp_path: Path, encoding: tuple[bytes, str]) -> None:
    log = tmp_path / "a.log"
    mark, name = encoding
    log.write_bytes(mark + "".join(f"{line}\r\n" for line in WHOLE).encode(name))
    assert rendered(log) == WHOLE


def test_the_last_line_of_a_cut_log_has_no_half_number(tmp_path: Path) -> None:
    line = LINES["AGX Xavier r32"]
    assert line.endswith("SYS5V 1458/1400")
    log = tmp_path / "a.log"
    log.write_text(f"{line}\n{line[:-2]}")  # SYS5V 1458/14
    first, last = stream(read_lines(log))
    assert [rail.name for rail in first.rails] == [*(r.name for r in last.rails), "SYS5V"]
    assert last.unparsed == ("SYS5V", "…1458/14")
    log.write_text(line)  # a line that somebody copied: nothing speaks against it
    assert rendered(log) == [line]


def test_a_line_without_end_is_cut(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"\0" * (1 << 20) + b"\n" + WHOLE[0].encode() + b"\n")
    lines = list(read_lines(log))
    assert len(lines[0]) <= 2 << 18
    assert rendered(log) == [WHOLE[0]]


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(random.Random(2).randbytes(1 << 16))
    assert rendered(log) == []


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        rendered(tmp_path / "none")
    with pytest.raises(StorageError):
        rendered(tmp_path)


def test_a_pipe_is_read_as_it_fills(tmp_path: Path) -> None:
    readable, writable = os.pipe()
    os.write(writable, f"{WHOLE[0]}\n{WHOLE[1]}\n".encode())
    lines = read_lines(Path(f"/dev/fd/{readable}"))
    assert [next(lines), next(lines)] == WHOLE[:2]  # while the pipe is still open
    os.close(writable)
    assert list(lines) == []
    os.close(readable)


@pytest.mark.parametrize(
    ("prefix", "time_s", "resolution_s"),
    [
        ("01-02-1970 00:00:01 ", 86400 + 1, 1.0),
        ("1970-01-02 00:01:00,25 - ", 86400 + 60.25, 0.01),
        ("[1970-01-01 01:00:00] : ", 3600, 1.0),
        ("1970/01/01T00:00:00.5Z ", 0.5, 0.1),
        ("03-01-2024 00:00:00 ", 1_709_251_200, 1.0),  # date -u -d 2024-03-01 +%s
        ("May 13 00:01:40 host tegrastats[12]: ", 100.0, 1.0),
        ("00:01:40.125 ", 100.125, 1e-3),
        ("1739645853.5189943---", 1739645853.5189943, 1e-7),
        ("1739645853 ", 1739645853.0, 1.0),
        ("1739645853518 ", 1739645853.518, 1e-3),
    ],
)
def test_times_in_front_of_a_line(prefix: str, time_s: float, resolution_s: float) -> None:
    moment = time_of(prefix)
    assert moment is not None
    assert moment.time_s == time_s
    assert moment.resolution_s == pytest.approx(resolution_s)


@pytest.mark.parametrize("prefix", ["", "host tegrastats[12]: ", "13-32-2026 10:00:00 ", "1:2"])
def test_what_is_no_time(prefix: str) -> None:
    assert time_of(prefix) is None


def test_dates_count_days_across_months() -> None:
    before, after = time_of("02-28-2024 23:59:59 "), time_of("03-01-2024 00:00:00 ")
    assert isinstance(before, Moment)
    assert isinstance(after, Moment)
    assert after.time_s - before.time_s == 86_401  # 2024 has a 29 February
