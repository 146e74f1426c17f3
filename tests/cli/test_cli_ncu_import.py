"""``mansard models ncu import``: reports, exports without counts, and Pagoda's rule beside ours."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from mansard.core.formats.ncu import base_name, chip_of, usual_metrics
from tests.analytics.ncu_exports import raw_page
from tests.analytics.test_counters_exports import command_line, english, gui
from tests.cli.decide_runs import answer
from tests.inference.ncu_stand_in import write_ncu, write_report

Capsys = pytest.CaptureFixture[str]
ORIGIN = ("--citation", "A. Author", "--device", "A100", "--precision", "fp32")
TIME_ALONE = raw_page({"gpu__time_duration.sum": "ns"}, [["1,000"], ["2,000"]])


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that holds the stand-in for ``ncu``, on PATH alone."""
    folder = tmp_path / "bin"
    folder.mkdir()
    write_ncu(folder)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}/usr/bin:/bin")
    return folder


def test_a_report_is_read_by_the_program_on_path(
    on_path: Path, tmp_path: Path, capsys: Capsys
) -> None:
    report = write_report(tmp_path / "net.ncu-rep", command_line())
    runs = tmp_path / "runs"
    code, out, err = answer(capsys, "ncu", "import", report, *ORIGIN, "--runs", runs, "--json")
    assert code == 0, err
    (export,) = json.loads(out)["exports"]
    # test_counters_exports.py: 4,315,938,816 + 2320 FLOP, and 33.5 + 1.05 MB of DRAM.
    assert export["call"]["work_flop"] == 4_315_941_136
    assert export["call"]["traffic"][-1]["traffic_bytes"] == 34_550_000
    assert "--import" in (on_path / "log").read_text()


def test_another_program_is_named(tmp_path: Path, capsys: Capsys) -> None:
    report = write_report(tmp_path / "net.ncu-rep", command_line())
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    more = ("--ncu", write_ncu(folder), "--runs", tmp_path / "runs")
    assert answer(capsys, "ncu", "import", report, *ORIGIN, *more)[0] == 0
    code, _, err = answer(
        capsys, "ncu", "import", report, *ORIGIN, "--ncu", tmp_path / "none", "--runs", tmp_path
    )
    assert (code, "there is no such program" in err) == (2, True)


@pytest.mark.usefixtures("on_path")
@pytest.mark.parametrize("data", [b"", b"garbage", b"\0" * 5000])
def test_a_report_that_the_program_cannot_read_is_a_line(
    data: bytes, tmp_path: Path, capsys: Capsys
) -> None:
    report = tmp_path / "cut.ncu-rep"
    report.write_bytes(data)
    code, _, err = answer(capsys, "ncu", "import", report, *ORIGIN, "--runs", tmp_path / "runs")
    assert (code, len(err.strip().splitlines())) == (1, 1)
    assert "cannot read it: Failed to load report file" in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(shutil.which("ncu") is not None, reason="Nsight Compute is installed")
def test_without_the_program_the_line_says_how_to_export(tmp_path: Path, capsys: Capsys) -> None:
    report = write_report(tmp_path / "net.ncu-rep", command_line())
    code, _, err = answer(capsys, "ncu", "import", report, *ORIGIN, "--runs", tmp_path / "runs")
    assert (code, len(err.strip().splitlines())) == (1, 1)
    assert "ncu --import REPORT --csv --page raw > export.csv" in err


def test_an_export_without_counts_says_what_to_collect(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "times.csv").write_text(TIME_ALONE)
    (tmp_path / "whole.csv").write_text(command_line())
    runs = tmp_path / "runs"
    files = (tmp_path / "whole.csv", tmp_path / "times.csv")
    code, _, err = answer(capsys, "ncu", "import", *files, *ORIGIN, "--runs", runs)
    assert (code, len(err.strip().splitlines())) == (1, 1)
    assert "times.csv: holds neither FLOP nor bytes of any launch, of 2" in err
    # The page says 8.7: memory of a Jetson.
    assert f"--metrics {','.join(usual_metrics(87))} PROGRAM" in err
    assert "lts__d_sectors_fill_sysmem.sum" in err
    assert not runs.exists()


def test_the_summary_of_the_gui_has_no_counts(tmp_path: Path, capsys: Capsys) -> None:
    head = '"ID","Function Name","Demangled Name","Duration [us]","Compute Throughput [%]"'
    (tmp_path / "summary.csv").write_text(f'{head}\n"0","k","k(int)","28.40","75.57"\n')
    given = (tmp_path / "summary.csv", *ORIGIN, "--runs", tmp_path / "runs")
    code, _, err = answer(capsys, "ncu", "import", *given)
    assert code == 1
    assert "export the raw page of its report, or collect them: ncu --target-processes" in err
    assert "dram__bytes_read.sum" in err  # of a card: no Jetson is called A100


def test_the_metrics_to_collect_make_counts(tmp_path: Path, capsys: Capsys) -> None:
    units = dict.fromkeys(usual_metrics(87), "inst") | {"gpu__time_duration.sum": "ns"}
    page = raw_page(units, [["1,024"] * len(units)])
    (tmp_path / "counters.csv").write_text(page)
    more = (*ORIGIN[:-1], "fp16", "--runs", tmp_path / "runs", "--json")
    code, out, err = answer(capsys, "ncu", "import", tmp_path / "counters.csv", *more)
    assert code == 0, err
    (export,) = json.loads(out)["exports"]
    assert export["call"]["work_flop"] is not None
    assert export["call"]["pagoda_flop"] is not None
    assert [level["level"] for level in export["call"]["traffic"]] == ["L1", "L2", "memory"]
    assert export["notes"] == []


@pytest.mark.shared_data
@pytest.mark.parametrize("sm", [70, 72, 75, 80, 86, 87, 90])
def test_every_metric_to_collect_is_in_the_list_of_its_chip(shared_data: Path, sm: int) -> None:
    chip = chip_of(sm)
    listed = (shared_data / "ncu" / "chip_metrics" / f"{chip}.txt").read_text().split()
    assert {base_name(metric) for metric in usual_metrics(sm)} <= set(listed)


def test_launches_without_counts_are_noted(tmp_path: Path, capsys: Capsys) -> None:
    page = command_line().replace('"8,388,608"', '"n/a"').replace('"33,500,000"', '"n/a"')
    (tmp_path / "export.csv").write_text(page)
    given = (tmp_path / "export.csv", *ORIGIN, "--runs", tmp_path / "runs")
    code, out, err = answer(capsys, "ncu", "import", *given)
    assert code == 0
    assert "FLOP of 1 of 2 launches are unknown: fp32 instructions" in err
    assert "bytes of memory of 1 of 2 launches are unknown: the export has no dram__bytes" in err
    assert "≥" in out


def test_pagodas_rule_is_a_column_where_it_differs(tmp_path: Path, capsys: Capsys) -> None:
    (tmp_path / "gui.csv").write_text(gui(english))
    given = (tmp_path / "gui.csv", *ORIGIN, "--compute-capability", "8.0", "--runs", tmp_path)
    code, out, err = answer(capsys, "ncu", "import", *given)
    assert code == 0, err
    assert "Pagoda's rule" in out
    assert "4.316 GFLOP" in out
    assert "2.168 GFLOP" in out
    page = gui(english).splitlines()
    (tmp_path / "copy.csv").write_text("\n".join((page[0], page[2], "")))
    _, out, _ = answer(capsys, "ncu", "import", tmp_path / "copy.csv", *given[1:])
    assert "2.320 kFLOP" in out
    assert "Pagoda" not in out
