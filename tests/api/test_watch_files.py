"""Recorded looks: tables, records, what is whole after a full disk, and what reads them."""

from __future__ import annotations

import csv
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mansard import api
from mansard.core.errors import UsageError
from mansard.core.records import BoardSample
from mansard.device.watching import BoardWatch
from mansard.simulator import create_board

# Files of this process may have 4096 bytes: the disk is full after that.
FILL = """
import resource, sys
sys.dont_write_bytecode = True  # a part of a compiled module would stay
from pathlib import Path
from mansard import api
from mansard.core.errors import StorageError
from mansard.device.watching import BoardWatch
watch = BoardWatch(Path(sys.argv[1]), "nano")
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    with api.record_samples(Path(sys.argv[2])) as file:
        while True:
            file.take(watch.read())
except StorageError as error:
    print(file.n_rows, error)
"""


def looks(folder: Path, n_looks: int) -> list[BoardSample]:
    times = iter(range(n_looks))
    watch = BoardWatch(
        create_board("orin-nano-super", folder),
        "nano",
        clock=lambda: 0.0,
        wall=lambda: 1000.0 + next(times),
    )
    return [watch.read() for _ in range(n_looks)]


def test_a_table_has_a_column_for_each_number(tmp_path: Path) -> None:
    with api.record_samples(tmp_path / "looks.csv") as file:
        for sample in looks(tmp_path, 2):
            file.take(sample)
    with (tmp_path / "looks.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [row["time_s"] for row in rows] == ["1000.0", "1001.0"]
    assert rows[1]["VDD_IN_power_w"] == "4.1664"
    assert rows[1]["cpu-thermal_temperature_c"] == "35.0"
    assert rows[1]["gpu_cap_hz"] == "918000000.0"
    assert rows[1]["cpu0_busy_share"] == ""  # nothing moved: unknown, and not 0
    assert rows[1]["throttled_by"] == ""


def test_records_come_back_as_they_were_and_telemetry_reads_them(tmp_path: Path) -> None:
    path, samples = tmp_path / "looks.jsonl", looks(tmp_path, 3)
    with api.record_samples(path) as file:
        for sample in samples:
            file.take(sample)
        assert file.n_rows == 3
    assert list(api.read_samples(path)) == samples
    with path.open("ab") as stream:
        stream.write(b'{"board":"na')  # killed in the middle of a row
    assert list(api.read_samples(path)) == samples
    (summary,) = api.telemetry([path])
    assert (summary.n_lines, summary.source, summary.duration_s) == (3, "simulated", 2.0)
    # 4.1664 W for 2 s
    assert summary.total_j == pytest.approx(8.3328)
    temperatures = {each.field: each.mean for each in summary.fields if each.unit == "°C"}
    assert temperatures["gpu-thermal"] == 35.0


def test_boards_in_one_file_have_a_summary_each(tmp_path: Path) -> None:
    (sample,) = looks(tmp_path, 1)
    path = tmp_path / "looks.jsonl"
    with api.record_samples(path, n_boards=2) as file:
        for name in ("left", "right", "left"):
            file.take(msgspec.structs.replace(sample, board=name))
    found = [(each.session_begins, each.n_lines) for each in api.telemetry([path])]
    assert found == [("of left", 2), ("of right", 1)]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_full_disk_costs_the_row_that_is_written_and_says_so(ending: str, tmp_path: Path) -> None:
    root, path = create_board("orin-nano-super", tmp_path), tmp_path / f"looks{ending}"
    command = [sys.executable, "-c", FILL, str(root), str(path)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    n_rows, _, said = done.stdout.partition(" ")
    assert f"the {n_rows} rows before it are whole" in said, done.stderr
    lines = path.read_bytes().split(b"\n")
    assert int(n_rows) > 0
    assert lines[-1] == b""  # no half of a row
    assert len(lines) - 2 == int(n_rows)  # a head, and the empty end
    assert path.stat().st_size <= 4096


def test_files_that_are_there_and_endings_that_are_none(tmp_path: Path) -> None:
    there = tmp_path / "looks.csv"
    there.write_text("mine\n")
    for path, n_boards, what in (
        (there, 1, "already exists"),
        (tmp_path / "looks.txt", 1, "neither a table nor records"),
        (tmp_path / "more.csv", 2, "a table holds one board"),
    ):
        with (
            pytest.raises(UsageError, match=what),
            api.record_samples(path, n_boards=n_boards),
        ):
            pass
    assert there.read_text() == "mine\n"
