"""Networks under a stand-in of Nsight Compute: rows, tables, resuming, and what goes wrong."""

from __future__ import annotations

import ast
import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mansard import api
from mansard.analytics.models.counters.by_network import measured_counters
from mansard.api import results
from mansard.core.errors import DeniedError, MeasurementError, UsageError
from mansard.core.records import CounterRun
from mansard.core.storage.jsonl import read_rows
from tests.inference.ncu_stand_in import NAMES, VERSION, write_ncu
from tests.inference.small_networks import perceptron

Count = Callable[..., results.CountResult]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of state of the test's own: other sweeps of this computer are not waited for."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def count(tmp_path: Path) -> Count:
    """Counts a small network on the CPU, into ``runs``, unless told otherwise."""
    ncu = write_ncu(tmp_path)
    network = tmp_path / "small.onnx"
    perceptron(network, batch="N")

    def run(*models: str, **changes: Any) -> results.CountResult:
        settings = api.NetworkSettings(
            provider="cpu", batches=changes.pop("batches", (1,)), threads=1, with_layers=False
        )
        request: dict[str, Any] = {"ncu": ncu, "chip": "ga10b", "runs": tmp_path / "runs"}
        return api.count_networks(
            api.CountRequest(
                models=models or (str(network),), settings=settings, **(request | changes)
            )
        )

    return run


def calls(tmp_path: Path) -> list[list[str]]:
    """What the stand-in was called with."""
    return [ast.literal_eval(line) for line in (tmp_path / "log").read_text().splitlines()]


def test_networks_times_batches_are_rows_with_tables(count: Count, tmp_path: Path) -> None:
    result = count(batches=(1, 2))
    result.check()
    assert [(one.row.model, one.row.batch) for one in result.rows] == [
        ("small", 1),
        ("small", 2),
    ]
    row, table = result.rows[0].row, result.rows[0].table
    assert row.tool == f"Nsight Compute {VERSION}"
    assert (row.chip, row.provider, row.n_calls, row.failure) == ("ga10b", "cpu", 1, None)
    assert {name.partition(".")[0] for name in row.metrics} == set(NAMES)
    assert row.lacking == ()
    assert table is not None
    header, units, *launches = csv.reader(table.read_text().splitlines())
    assert header[5:] == list(row.metrics)  # after ID, name, block, grid and CC
    assert dict(zip(header, units, strict=True))["lts__d_sectors_fill_sysmem.sum"] == "sector"
    assert [launch[1] for launch in launches] == ["conv", "gemm"]


def test_kernels_are_summed_in_one_call(count: Count) -> None:
    (one,) = count(n_calls=3).rows
    assert one.launches == 6
    conv = next(kernel for kernel in one.kernels if kernel.kernel == "conv")
    # Every metric is 1024: 2 ffma + fadd + fmul + tensor operations; 32 bytes a sector; ns.
    assert conv.launches == 1
    assert conv.work_flop == 2 * 1024 + 1024 + 1024 + 1024
    assert (conv.read_bytes, conv.write_bytes) == (32 * 1024, 32 * 1024)
    assert conv.time_s == pytest.approx(1024e-9)


def test_ranges_name_the_call_and_the_nodes(
    count: Count, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANGES", "1")
    count(n_calls=2)
    (one,) = measured_counters(tmp_path / "runs")
    assert [row.iteration for row in one.rows] == [0, 0, 1, 1]
    assert [row.nodes for row in one.rows] == [(0,), (1,), (0,), (1,)]
    assert {row.source for row in one.rows} == {"measured"}
    assert {row.table_id for row in one.rows} == {one.run.run_id if one.run else ""}


def test_the_program_is_called_as_it_documents(count: Count, tmp_path: Path) -> None:
    count(n_calls=3, cache_control="none")
    words = calls(tmp_path)[-1]
    joined = " ".join(words)
    for part in (
        "--csv --page raw --print-units base",
        "--profile-from-start off --nvtx",
        "--clock-control none --cache-control none",
        "--replay-mode kernel",
        "--metrics gpu__time_duration.sum,",
        "mansard.inference.counters.profiled",
    ):
        assert part in joined


def test_what_was_counted_is_not_counted_again(count: Count, tmp_path: Path) -> None:
    def n_runs() -> int:
        return sum("--metrics" in words for words in calls(tmp_path))

    count()
    first = n_runs()
    assert first == 1
    count()
    assert n_runs() == first
    result = count(batches=(1, 2))  # another plan: one run of two trials, in another folder
    assert n_runs() == first + 2
    assert len(result.rows) == 2
    count(n_calls=2)
    assert n_runs() == first + 3


def test_what_was_counted_before_an_error_is_kept(
    count: Count, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAYS", "==ERROR== Something new.")
    monkeypatch.setenv("AT_BATCH", "2")
    with pytest.raises(MeasurementError, match="Something new"):
        count(batches=(1, 2))
    monkeypatch.delenv("SAYS")
    result = count(batches=(1, 2))
    assert [one.row.batch for one in result.rows] == [1, 2]
    # Batch 1 once, batch 2 twice.
    assert sum("--metrics" in words for words in calls(tmp_path)) == 3


def test_the_folder_can_still_be_read_as_runs(count: Count, tmp_path: Path) -> None:
    count()
    (folder,) = (path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    (row,) = read_rows(folder / "counter_runs.jsonl", CounterRun, tmp_path / "runs").rows
    assert row.run_id == folder.name
    assert row.export is not None
    assert (folder / row.export).is_file()
    assert (folder / "manifest.json").is_file()


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
            "Performance Counters on the target device 0.",
            DeniedError,
            "sudo",
        ),
        (
            "==ERROR== Nsight Compute failed to connect to the CUDA driver (stub libcuda.so[.1] "
            "on path?).\n==ERROR== The application returned an error code (1).\n"
            "==WARNING== No kernels were profiled.",
            MeasurementError,
            "finds no CUDA driver",
        ),
        ("==WARNING== No kernels were profiled.", MeasurementError, "no kernel ran on the GPU"),
        ("==ERROR== Something new.", MeasurementError, "Something new."),
        # What comes last is the reason, whatever was said before.
        ("warning\n" * 300 + "Killed", MeasurementError, "0 lines of counters: Killed"),
    ],
)
def test_what_it_says_is_one_line_and_nothing_is_kept(
    count: Count,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    error: type[Exception],
    words: str,
) -> None:
    monkeypatch.setenv("SAYS", said)
    with pytest.raises(error) as raised:
        count()
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not [path for path in (tmp_path / "runs").rglob("*") if path.suffix == ".csv"]
    monkeypatch.delenv("SAYS")
    assert count().rows[0].row.failure is None  # and the same command counts it then


def test_a_chip_that_it_does_not_know_is_refused_with_those_it_knows(count: Count) -> None:
    with pytest.raises(UsageError, match="ga102, ga10b, gh100"):
        count(chip="ga999")


def test_a_program_that_is_not_there_is_named(count: Count, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such program"):
        count(ncu=tmp_path / "none")


def test_what_was_counted_is_held_against_the_estimate(count: Count, tmp_path: Path) -> None:
    count(batches=(1, 2))
    checked = api.check_counters(tmp_path / "runs")
    assert [one.network for one in checked] == ["small", "small"]


def test_a_table_that_cannot_be_read_does_not_hide_the_others(count: Count, tmp_path: Path) -> None:
    first, second = count(batches=(1, 2)).rows
    assert first.table is not None
    first.table.write_text("curses")
    shown, same = count(batches=(1, 2)).rows
    assert (shown.kernels, shown.call, shown.table) == ((), None, None)
    assert "is not an export" in shown.notes[0]
    assert f"move {first.table.parent.parent} away" in shown.notes[0]
    assert same == second
    first.table.unlink()
    assert len(count(batches=(1, 2)).rows[0].notes) == 1
    (one,) = api.check_counters(tmp_path / "runs")
    assert one.batch == 2


def test_calls_that_launch_other_kernels_are_averaged(count: Count, tmp_path: Path) -> None:
    (one,) = count(n_calls=3).rows
    assert one.table is not None
    *lines, last = one.table.read_text().splitlines()
    one.table.write_text("\n".join([*lines, last, last.replace("gemm", "once"), ""]))
    (one,) = count(n_calls=3).rows
    assert "different kernels" in one.notes[0]
    # 7 launches of 5120 FLOP in 3 calls.
    assert one.call is not None
    assert one.call.work_flop == pytest.approx(7 * 5120 / 3)


def test_a_file_of_another_network_is_refused(count: Count, tmp_path: Path) -> None:
    count()
    (tmp_path / "other").mkdir()
    perceptron(tmp_path / "other" / "small.onnx", width=32, batch="N")
    with pytest.raises(UsageError, match="is not the network that was counted"):
        api.check_counters(tmp_path / "runs", models=[tmp_path / "other" / "small.onnx"])
