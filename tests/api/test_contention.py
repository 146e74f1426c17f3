"""Contention of made-up runs: its fits, and the section of the report."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard import api
from mansard.api.measurements import ContentionResult
from mansard.core.errors import MeasurementError
from tests.analytics.factory import HOSTILE, manifest, write_run
from tests.analytics.test_contention import points


def write(runs: Path, victim: str = "cpu:0") -> None:
    rows = [
        replace(
            row,
            victim=victim if row.victim == "cpu:0" else row.victim,
            aggressor=victim if row.aggressor == "cpu:0" else row.aggressor,
        )
        for row in points()
    ]
    write_run(runs / "run", manifest("run", 2, len(rows), kind="contention"), rows)


def test_a_fit_goes_through_points_that_it_can_describe(tmp_path: Path) -> None:
    write(tmp_path)
    first, _ = api.measured_contention([tmp_path])
    assert first.fit is not None
    # 40 · own share · other's share is a line for each own demand, as PCCS is.
    assert round(first.fit.error_points or 0, 2) == 0
    line = first.fit_lines[2]
    assert line.own_byte_per_s == 20e9
    assert (line.external_byte_per_s[0], line.external_byte_per_s[-1]) == (0.0, 16e9)
    assert (line.speed[0], round(line.speed[-1], 3)) == (1.0, 0.6)


def test_the_report_has_a_section_where_something_was_measured(tmp_path: Path) -> None:
    write(tmp_path, HOSTILE)
    api.report([str(tmp_path)])
    page = (tmp_path / "report.html").read_text("utf-8")
    assert 'id="contention"' in page
    assert 'data-spec="contention-0"' in page
    assert HOSTILE not in page
    section = page.partition('id="contention"')[2].partition("</section>")[0]
    assert 'class="note"' not in section  # nothing is left out
    assert "(no name)" not in section


def test_where_nothing_counts_the_measurement_has_failed(tmp_path: Path) -> None:
    rows = [replace(row, disturbances=("other programs used 0.9 CPUs",)) for row in points()]
    write_run(tmp_path / "run", manifest("run", 2, len(rows), kind="contention"), rows)
    result = ContentionResult(api.measured_contention([tmp_path]), None)
    with pytest.raises(MeasurementError, match="too few points of cpu:0 and cpu:1 count: 9 points"):
        result.check()
