"""``mansard board telemetry``: logs and a running board, in every format; bad days."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.cli.in_process import mansard
from tests.device.tegrastats_lines import LINES
from tests.waiting import awaited


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "mansard.cli", "telemetry", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def telemetry(*arguments: object, given: str | None = None) -> subprocess.CompletedProcess[str]:
    if given is None:
        return mansard("telemetry", *arguments)
    return subprocess.run(
        [sys.executable, "-m", "mansard.cli", "telemetry", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        input=given,
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """20 lines, one a second, and a second form that lacks a field and has another."""
    path = tmp_path / "orin.log"
    lines = [
        f"05-13-2026 12:00:{n:02d} RAM 1000/7620MB (lfb 4x4MB) CPU [{n}%@729,off] GR3D_FREQ 50% "
        + ("gpu@40C " if n < 10 else "NVENC 716 ")
        + f"VDD_IN {5000 + n}mW/5000mW VDD_CPU_GPU_CV 1000mW/1000mW VDD_SOC 900mW/900mW"
        for n in range(20)
    ]
    path.write_text("\n".join(["words of a script", *lines]) + "\n")
    return path


def test_the_summary_has_ranges_energy_and_utilisation(log: Path) -> None:
    done = telemetry(log)
    assert done.returncode == 0, done.stderr
    for word in ("CPU0", "GR3D_FREQ", "gpu temperature", "VDD_IN", "total: VDD_IN alone"):
        assert word in done.stdout
    (found,) = json.loads(telemetry(log, "--json").stdout)["summaries"]
    assert (found["n_lines"], found["n_other_lines"]) == (20, 1)
    assert found["duration_s"] == 19.0
    # 19 steps of 1 s from 5.000 W to 5.019 W: 19 · 5.0095 J
    assert found["total_j"] == pytest.approx(95.1805)
    assert {one["name"]: one["mean_percent"] for one in found["utilisation"]}["CPU"] == 9.5


def test_csv_has_a_row_for_each_line_and_all_columns(log: Path, tmp_path: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(telemetry(log, "--format", "csv").stdout)))
    assert len(rows) == 20
    assert all(None not in row and None not in row.values() for row in rows)
    assert float(rows[3]["VDD_IN_w"]) == 5.003
    assert (rows[3]["gpu_celsius"], rows[3]["NVENC_clock_hz"]) == ("40.0", "")
    assert (rows[13]["gpu_celsius"], rows[13]["NVENC_clock_hz"]) == ("", "716000000")
    assert rows[0]["CPU1_load_percent"] == ""  # off, not 0
    assert rows[0]["time"] == "05-13-2026 12:00:00"


def test_parquet_has_the_same_numbers(log: Path, tmp_path: Path) -> None:
    written = tmp_path / "lines.parquet"
    assert telemetry(log, log, "--format", "parquet", "-o", written).returncode == 0
    frame = pl.read_parquet(written)
    assert frame.height == 40
    assert frame["VDD_IN_w"].sum() == pytest.approx(2 * 100.19)  # 20 · 5 W + (0 + … + 19) mW
    assert frame["CPU1_load_percent"].null_count() == 40
    assert frame["log"].unique().to_list() == [str(log)]


def test_json_samples_are_one_document(log: Path, tmp_path: Path) -> None:
    written = tmp_path / "lines.json"
    assert telemetry(log, "--samples", "--json", "-o", written).returncode == 0
    samples = json.loads(written.read_text())["samples"]
    assert len(samples) == 20
    assert samples[0]["cpus"][1] == {"state": "off", "load_percent": None, "clock_hz": None}
    assert samples[19]["rails"][0] == {
        "name": "VDD_IN",
        "power_w": 5.019,
        "average_w": 5.0,
        "maximum_w": None,
    }


def test_the_summaries_of_several_logs(log: Path, tmp_path: Path) -> None:
    zipped = tmp_path / "nano.log.gz"
    zipped.write_bytes(gzip.compress((LINES["Nano r32"] + "\n").encode() * 3))
    done = telemetry(log, zipped, "--interval", "100ms", "--json")
    first, second = json.loads(done.stdout)["summaries"]
    assert first["duration_s"] == 19.0  # the dates count, not 19 · 0.1 s
    assert "--interval 0.1 s makes 1.9 s" in first["warnings"][0]
    assert second["total_j"] == pytest.approx(0.4)  # POM_5V_IN: 2 W · 0.2 s
    assert second["log"] == str(zipped)


def test_every_line_as_text_and_from_a_pipe() -> None:
    lines = "\n".join(LINES.values())
    done = telemetry("-", "--samples", given=lines)
    assert done.returncode == 0, done.stderr
    assert "VDD_GPU=-0.392" in done.stdout
    assert len(done.stdout.splitlines()) == len(LINES) + 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "nothing to read"),
        (("a.log", "--live"), 2, "exclude each other"),
        (("a.log", "--duration", "1s"), 2, "--duration is for --live"),
        (("a.log", "--format", "parquet"), 2, "add --output"),
        (("a.log", "-o", "b"), 2, "a table is for the terminal"),
        (("a.log", "--interval", "soon"), 2, "write 100ms, 2s, 5min or 1h"),
        (("a.log", "--interval", "0s"), 2, "is not a duration"),
        (("/nowhere/a.log",), 1, "No such file"),
        (("--live", "--board", "/nowhere"), 1, "has no tegrastats; give a recorded log"),
    ],
)
def test_one_line_for_what_cannot_be(
    arguments: tuple[str, ...], code: int, words: str, tmp_path: Path
) -> None:
    done = telemetry(*arguments)
    assert done.returncode == code
    assert done.stdout == ""
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_export_is_whole_or_not_at_all(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    other = tmp_path / "no.log"
    other.write_text("nothing of tegrastats\n")
    for form in ("csv", "json", "parquet"):
        written = folder / f"lines.{form}"
        written.write_text("before")
        done = telemetry(log, other, "--format", form, "--samples", "--force", "-o", written)
        assert done.returncode == 1
        assert written.read_text() == "before"
    assert len(list(folder.iterdir())) == 3  # and no temporary file beside them
    assert telemetry(log, "--json", "-o", log).returncode == 2
    assert log.read_text().startswith("words")


# Its pipe holds a page, as does what its reader has taken and not yet used: when more than both is
# printed, lines have been used, and it says so.
STAND_IN = f"""#!{sys.executable}
import fcntl, os, sys, time
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
open(root + "/pid", "w").write(str(os.getpid()))
n_page = fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 4096)
n_printed = 0
while True:
    n_printed += len({LINES["Orin NX r36"]!r}) + 1
    print({LINES["Orin NX r36"]!r}, flush=True)
    if n_printed > 2 * n_page:
        open(root + "/used", "w").close()
    time.sleep(0.02)
"""


@pytest.fixture
def board(tmp_path: Path) -> Path:
    """A made-up board whose tegrastats prints one line for ever."""
    tool = tmp_path / "board/usr/bin/tegrastats"
    tool.parent.mkdir(parents=True)
    tool.write_text(STAND_IN)
    tool.chmod(0o755)
    (tmp_path / "board/etc").mkdir()
    (tmp_path / "board/etc/mansard-simulated").touch()
    return tmp_path / "board"


def is_gone(board: Path) -> bool:
    try:
        os.kill(int((board / "pid").read_text()), 0)
    except ProcessLookupError:
        return True
    return False


def test_live_for_a_duration(board: Path) -> None:
    done = telemetry("--live", "--board", board, "--duration", "1s", "--json")
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["summaries"]
    assert found["source"] == "simulated"
    assert found["total_w"] == pytest.approx(7.956)
    assert found["duration_source"] == "the lines' times"
    assert is_gone(board)


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_ends_live_and_keeps_what_came(
    board: Path, tmp_path: Path, number: signal.Signals
) -> None:
    written = tmp_path / "live.csv"
    process = start("--live", "--board", board, "--format", "csv", "-o", written)
    assert awaited((board / "used").exists)
    process.send_signal(number)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130
    assert is_gone(board)
    assert said.splitlines() == ["mansard: interrupted; earlier results are written"]
    rows = list(csv.DictReader(io.StringIO(written.read_text())))
    assert rows
    assert rows[0]["log"] == "live"
    assert float(rows[-1]["time_s"]) >= 0


def test_live_ends_when_its_reader_does(board: Path) -> None:
    process = start("--live", "--board", board)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=300) in {0, 1}
    assert is_gone(board)
    assert process.stderr is not None
    process.stderr.close()


def test_equal_notes_are_said_once_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "boards.log"
    # 14 boards, a line of each: 14 recordings that are too short for an energy.
    line = "RAM 1/{}MB CPU [1%@100] VDD_IN 5000mW/1mW\n"
    log.write_text("".join(line.format(1000 + number) for number in range(14)))
    done = telemetry(log)
    assert done.returncode == 0
    reason = f"{log}: unknown: the recording has fewer than two lines"
    said = [text for text in done.stderr.splitlines() if text.startswith(reason)]
    assert said == [reason, f"{reason} (14 times)"]
