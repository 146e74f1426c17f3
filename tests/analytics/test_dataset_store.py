"""The dataset that an ingest keeps beside the runs: incremental, whole, and the same again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from mansard.analytics.data.dataset_parts import dataset_of, read_filled_part, read_part, run_files
from mansard.analytics.data.frames import to_json
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.layout import ENTRY_FILE, files_of, run_entry
from mansard.analytics.data.opening import merge
from mansard.analytics.data.run_folder import import_run
from mansard.analytics.data.run_frames import REPETITION_SCHEMA
from mansard.analytics.data.store import Store
from mansard.analytics.models.roofs.rates import trial_rates
from mansard.core.errors import InputError, SchemaError, StorageError
from mansard.core.records import Trial
from mansard.core.storage.jsonl import RowWriter
from mansard.core.storage.leftovers import hidden_name
from tests.analytics.dataset_checks import assert_same, write_samples
from tests.analytics.factory import fma_trials, manifest, trial, write_run, write_two_modes
from tests.analytics.score_factory import layer, score, write_scores


def files(runs: Path) -> dict[str, int]:
    """The files of the dataset by name, with the times they were written."""
    folder = runs / "dataset"
    return {
        path.relative_to(folder).as_posix(): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock"
    }


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two modes, a meter's samples in one of them, and two networks."""
    write_two_modes(tmp_path)
    write_samples(tmp_path / "run-1c", [4.0, 5.0, 6.0])
    write_scores(tmp_path, [score("one", [layer(0, 1, 2)]), score("two", [layer(0, 3, 4)])])
    return tmp_path


def test_the_parquet_files_hold_the_same_as_the_ingest(runs: Path) -> None:
    found = ingest(runs)
    assert_same(dataset_of(read_filled_part(str(runs / "dataset"))), found)
    assert [each.model for each in found.scores] == ["one", "two"]
    assert found.samples.collect()["power_w"].to_list() == [4.0, 5.0, 6.0]
    assert found.runs["n_power_samples"].to_list() == [3, 0]


def test_other_programs_can_read_the_tables_by_their_partitions(runs: Path) -> None:
    found = ingest(runs)
    for name in ("trials", "layers"):
        frame = pl.read_parquet(runs / f"dataset/{name}/*/*.parquet", hive_partitioning=False)
        assert sorted(frame.rows()) == sorted(getattr(found, name).rows())
    one = pl.read_parquet(runs / "dataset/trials/run_id=run-1c/*.parquet")
    assert set(one["run_id"]) == {"run-1c"}


def test_unchanged_runs_are_not_written_again(runs: Path) -> None:
    first = ingest(runs)
    before = files(runs)
    assert_same(ingest(runs), first)
    assert files(runs) == before


def test_unchanged_runs_are_not_parsed_again(runs: Path) -> None:
    first = ingest(runs)
    opened: list[str] = []

    def hear(event: str, details: tuple[object, ...]) -> None:
        if event == "open":
            opened.append(str(details[0]))

    sys.addaudithook(hear)  # of every file that Python opens, as long as the process lives
    assert_same(ingest(runs), first)
    assert any(name.endswith(".lock") for name in opened)
    assert not any(name.endswith(".jsonl") and name != "scores.jsonl" for name in opened)


def test_rows_of_the_same_length_and_time_are_read_again(runs: Path) -> None:
    ingest(runs)
    path = runs / "run-1c/trials.jsonl"
    content, status = path.read_bytes(), path.stat()
    path.write_bytes(content.replace(b'"kernel"', b'"colour"'))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the system's own time stays
    with pytest.raises(SchemaError):
        ingest(runs)


def test_a_dataset_that_came_with_its_runs_is_made_again(runs: Path, tmp_path: Path) -> None:
    """A folder of runs from somebody else, whose dataset says that all is a thousand times as
    fast: every file of it is whole, every name and every digest right."""
    wanted = ingest(runs)
    copy = tmp_path / "copy" / "runs"
    shutil.copytree(runs, copy, ignore=shutil.ignore_patterns("copy"))  # as tar does, with times
    store, location = Store(copy / "dataset"), str(copy / "dataset")
    for entry in read_part(location).runs.iter_slices(1):
        files = run_files(entry.row(0, named=True), location)
        for name in files_of("repetitions", files):
            rows = store.read([name], REPETITION_SCHEMA)
            files[name] = store.write(name, rows.with_columns(pl.col("seconds_s") / 1000))
        text = to_json(files)
        run_id = entry["run_id"].item()
        store.write(run_entry(run_id), entry.with_columns(files_json=pl.lit(text)))
    poisoned = dataset_of(read_filled_part(location)).repetitions.collect()["seconds_s"].sum()
    assert poisoned == pytest.approx(wanted.repetitions.collect()["seconds_s"].sum() / 1000)
    assert_same(ingest(copy), wanted)


def test_a_touched_run_has_the_same_dataset(runs: Path) -> None:
    first = ingest(runs)
    before = files(runs)
    os.utime(runs / "run-1c/trials.jsonl", (1, 1))
    assert_same(ingest(runs), first)
    assert files(runs).keys() == before.keys()


def test_a_run_that_grew_is_read_again_and_its_old_files_go(tmp_path: Path) -> None:
    rows = fma_trials("r")
    folder = write_run(tmp_path / "r", manifest("r", n_trials=len(rows)), rows[:5])
    assert len(ingest(tmp_path).trials) == 5
    before = set(files(tmp_path))
    with RowWriter(folder / "trials.jsonl", Trial) as writer:
        writer.extend(rows[5:])
    found = ingest(tmp_path)
    assert len(found.trials) == len(rows)
    assert found.notes == ()
    after = set(files(tmp_path))
    assert len(after) == len(before)
    assert before & after == {f"runs/run_id=r/{ENTRY_FILE}"}


def test_what_is_gone_from_the_runs_is_gone_from_the_dataset(runs: Path) -> None:
    ingest(runs)
    shutil.rmtree(runs / "run-1c")
    (runs / "scores.jsonl").unlink()
    write_scores(runs, [score("two", [layer(0, 3, 4)])])
    found = ingest(runs)
    assert found.runs["run_id"].to_list() == ["run-2c"]
    assert found.samples.collect().is_empty()
    assert [each.model for each in found.scores] == ["two"]
    assert not any("run-1c" in name for name in files(runs))
    assert sum(name.startswith("layers/") for name in files(runs)) == 1


def test_an_ingest_that_was_killed_is_finished_by_the_next(runs: Path) -> None:
    wanted = ingest(runs)
    dataset = runs / "dataset"
    # Killed after the trials of one run and half a file of the other, before any entry.
    shutil.rmtree(dataset / "runs")
    shutil.rmtree(dataset / "repetitions/run_id=run-1c")
    half = dataset / "trials/run_id=run-2c" / hidden_name("x.parquet")
    half.write_bytes(b"PAR1")
    assert_same(ingest(runs), wanted)
    assert not half.exists()


@pytest.mark.parametrize("content", [b"", b"PAR1 and then nothing"])
def test_files_of_the_wrong_length_are_made_again(runs: Path, content: bytes) -> None:
    wanted = ingest(runs)
    for table in ("trials", "repetitions", "samples"):
        (path,) = (runs / f"dataset/{table}/run_id=run-1c").iterdir()
        path.write_bytes(content)
    assert_same(ingest(runs), wanted)


def test_a_damaged_entry_is_made_again(runs: Path) -> None:
    wanted = ingest(runs)
    (runs / "dataset/runs/run_id=run-1c" / ENTRY_FILE).write_bytes(b"nonsense")
    assert_same(ingest(runs), wanted)


def test_a_damaged_dataset_is_one_line(runs: Path) -> None:
    ingest(runs)
    (path,) = (runs / "dataset/trials/run_id=run-1c").iterdir()
    path.write_bytes(b"nonsense")
    line = (
        r"trials/run_id=run-1c/.* is missing or was changed; delete this dataset and make it again"
    )
    with pytest.raises(StorageError, match=line):
        dataset_of(read_filled_part(str(runs / "dataset")))


def test_an_entry_that_names_files_elsewhere_is_refused(runs: Path) -> None:
    ingest(runs)
    path = runs / "dataset/runs/run_id=run-1c" / ENTRY_FILE
    entry = pl.read_parquet(path)
    entry.with_columns(
        files_json=pl.col("files_json").str.replace("trials/run_id=run-1c", "trials/run_id=a/../..")
    ).write_parquet(path)
    with pytest.raises(SchemaError, match="which is not its own"):
        dataset_of(read_filled_part(str(runs / "dataset")))


def test_a_folder_without_a_dataset_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no dataset of this version.*mansard data merge"):
        dataset_of(read_filled_part(str(tmp_path)))


@pytest.mark.parametrize("at_once", [1, 100, 1000])
def test_rates_of_some_trials_at_a_time_are_the_same(tmp_path: Path, at_once: int) -> None:
    # Twins with the same trial ids, one twice as slow: a piece can hold parts of both.
    rows = fma_trials("a")
    slow = [
        msgspec.structs.replace(row, run_id="b", seconds_s=tuple(2 * s for s in row.seconds_s))
        for row in rows
    ]
    for run_id, own in (("a", rows), ("b", slow)):
        write_run(tmp_path / run_id, manifest(run_id), own)
    dataset = ingest(tmp_path)
    wanted, found = trial_rates(dataset), trial_rates(dataset, at_once)
    assert len(wanted) == 44
    assert all(
        np.allclose(a.blocks, 2 * b.blocks) for a, b in zip(wanted[:22], wanted[22:], strict=True)
    )
    assert [(r.run_id, r.trial_id) for r in found] == [(r.run_id, r.trial_id) for r in wanted]
    assert all(np.array_equal(a.blocks, b.blocks) for a, b in zip(found, wanted, strict=True))


def test_a_run_that_names_a_place_elsewhere_is_refused(runs: Path) -> None:
    ingest(runs)
    path = runs / "dataset/runs/run_id=run-1c" / ENTRY_FILE
    entry = pl.read_parquet(path, hive_partitioning=False)
    entry.with_columns(run_id=pl.lit("../../elsewhere")).write_parquet(path)
    with pytest.raises(SchemaError, match=r"holds a row of run '../../elsewhere'"):
        merge([runs / "dataset"], str(runs / "fleet"))


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    own = [tmp_path / "dataset" / name for name in ("runs/a/b.parquet", "trials/x.txt", "y.md")]
    for path in own:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("mine")
    ingest(tmp_path)
    assert [path.read_text() for path in own] == ["mine"] * 3


def test_two_ingests_at_once_wait_for_each_other(runs: Path) -> None:
    wanted = ingest(runs)
    shutil.rmtree(runs / "dataset")
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: ingest(runs), range(4)):
            assert_same(found, wanted)


def test_folders_with_odd_names(tmp_path: Path) -> None:
    for name in ("a[b]*?", "x=y", os.fsdecode(b"\xff\xfe")):
        runs = tmp_path / name
        write_run(runs / name, manifest("r", n_trials=2), [trial("r", "read", 1e9)])
        found = ingest(runs)
        assert len(found.repetitions.collect()) == 28  # 27 accepted and 1 rejected
        assert len(found.notes) == 1
        assert_same(ingest(runs), found)


@pytest.mark.parametrize("run_id", ["", "..", "a/b", "a b", "x" * 200, ".hidden"])
def test_a_run_id_that_cannot_name_a_folder_is_refused(tmp_path: Path, run_id: str) -> None:
    write_run(tmp_path / "r", manifest(run_id), [])
    with pytest.raises(InputError, match="cannot name a folder"):
        ingest(tmp_path)


def test_rows_in_many_batches_are_the_same_frames(runs: Path, tmp_path: Path) -> None:
    whole = ingest(runs)
    store, folder = Store(tmp_path / "in-pieces"), runs / "run-1c"
    # A hundred bytes are less than a row: each is a batch, and a file, of its own.
    entry = import_run(folder, whole.manifest("run-1c"), "c" * 32, store, batch_bytes=100)
    files = run_files(entry.row(0, named=True), "here")
    assert (len(files_of("trials", files)), len(files_of("samples", files))) == (138, 3)
    part = read_part(str(runs / "dataset"))
    pieces = dataset_of(replace(part, store=store, runs=entry, location=str(runs / "dataset")))
    own = pl.col("run_id") == "run-1c"
    assert_frame_equal(pieces.trials, whole.trials.filter(own))
    for name in ("repetitions", "samples"):
        wanted = getattr(whole, name).filter(own).collect()
        order = [each for each in ("run_id", "trial_id") if each in wanted.columns]
        found = getattr(pieces, name).collect().sort(order, maintain_order=True)
        assert_frame_equal(found, wanted)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1600k", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a tmpfs is not allowed here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.root
def test_a_full_disk_is_one_line_and_the_next_ingest_goes_on(
    small_disk: Path, tmp_path: Path
) -> None:
    wanted = ingest(write_two_modes(tmp_path / "elsewhere"))
    write_two_modes(small_disk)
    ballast = small_disk / "ballast"
    # Room for some of the dataset's files, of 10 to 40 kB each.
    free = os.statvfs(small_disk)
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - 45_000))
    with pytest.raises(StorageError, match="No space left on device; free some space"):
        ingest(small_disk)
    assert {path.name for path in (small_disk / "dataset").rglob(".*")} == {".lock"}
    ballast.unlink()
    assert_same(ingest(small_disk), wanted)


@pytest.mark.root
def test_runs_on_a_read_only_medium_are_read_all_the_same(small_disk: Path, tmp_path: Path) -> None:
    wanted = ingest(write_two_modes(tmp_path / "elsewhere"))
    write_two_modes(small_disk)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    found = ingest(small_disk)
    assert_same(replace(found, notes=()), wanted)
    assert found.notes == ("disk: cannot be written, so its dataset is not kept",)
    assert not (small_disk / "dataset").exists()
