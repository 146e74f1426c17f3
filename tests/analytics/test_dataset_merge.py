"""Several folders, boards and object stores as one dataset, and what refuses to be mixed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import msgspec
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from mansard.analytics.data.dataset import Dataset
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.machines import device_id
from mansard.analytics.data.opening import Merged, merge, open_runs
from mansard.analytics.data.store import Store
from mansard.core.errors import InputError, StorageError, UsageError
from mansard.core.records import Trial
from mansard.core.storage.jsonl import RowWriter
from tests.analytics.dataset_checks import assert_same, write_samples
from tests.analytics.factory import fma_trials, machine, manifest, write_run, write_two_modes
from tests.analytics.object_store import Bucket, serving
from tests.analytics.score_factory import layer, score, write_scores


def board(runs: Path, run_id: str, serial: str = "a", **changes: object) -> Path:
    """A folder with one run of a board; ``changes`` are of its manifest."""
    run = manifest(run_id, on=machine("Board", serial * 16))
    run = msgspec.structs.replace(run, **changes)
    write_run(runs / run_id, run, fma_trials(run_id))
    return runs


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two boards of one name, a meter in the first, a network of their own in each."""
    one, other = board(tmp_path / "one", "r1", "a"), board(tmp_path / "other", "r2", "b")
    write_samples(one / "r1", [4.0, 5.0])
    write_scores(one, [score("net", [layer(0, 1, 2)])])
    write_scores(other, [score("other net", [layer(0, 3, 4)])])
    return one, other


def test_two_folders_are_one_dataset(two: tuple[Path, Path]) -> None:
    found = open_runs(two)
    one, other = (ingest(runs) for runs in two)
    assert found.locations == tuple(str(runs) for runs in two)
    assert found.runs["run_id"].to_list() == ["r1", "r2"]
    assert [each.run_id for each in found.manifests] == ["r1", "r2"]
    assert_frame_equal(found.trials, pl.concat([one.trials, other.trials]))
    assert len(found.repetitions.collect()) == 2 * 22 * 28  # chains, repetitions of each
    assert len(found.samples.collect()) == 2
    assert [each.model for each in found.scores] == ["net", "other net"]
    assert sorted(found.layers["work_flop"]) == [1, 3]


def test_merged_into_a_folder_it_is_the_same(two: tuple[Path, Path], tmp_path: Path) -> None:
    into = str(tmp_path / "fleet")
    assert merge(two, into) == Merged(into, n_new=2, n_grown=0, n_same=0)
    assert_same(open_runs([into]), open_runs(two))
    before = {path: path.stat().st_mtime_ns for path in Path(into).rglob("*.parquet")}
    assert merge(two, into) == Merged(into, n_new=0, n_grown=0, n_same=2)
    assert merge([into], into) == Merged(into, n_new=0, n_grown=0, n_same=2)
    assert {path: path.stat().st_mtime_ns for path in Path(into).rglob("*.parquet")} == before


def test_boards_that_merge_one_after_the_other_end_in_the_same(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    for runs in reversed(two):
        merge([runs], str(tmp_path / "fleet"))
    found = open_runs([tmp_path / "fleet"])
    assert {each.model for each in found.scores} == {"net", "other net"}
    assert_frame_equal(found.trials, open_runs(two).trials)


def test_the_same_run_in_two_folders_is_one_and_the_fuller_counts(tmp_path: Path) -> None:
    rows = fma_trials("r")
    part, whole, copy = (tmp_path / name for name in ("part", "whole", "copy"))
    write_run(part / "r", manifest("r", n_trials=len(rows)), rows[:7])
    write_run(whole / "r", manifest("r", n_trials=len(rows)), rows)
    shutil.copytree(whole, copy)
    for places in ((part, whole, copy), (whole, part), (copy, whole)):
        found = open_runs(places)
        assert (len(found.runs), len(found.trials)) == (1, len(rows))
        # Every folder but that of the copy that counts has a note.
        assert len(found.notes) == len(places) - 1
        assert all("in another folder too, and counted once: r" in note for note in found.notes)
    into = str(tmp_path / "fleet")
    assert merge([part], into) == Merged(into, n_new=1, n_grown=0, n_same=0)
    assert merge([whole], into) == Merged(into, n_new=0, n_grown=1, n_same=0)
    assert merge([part], into) == Merged(into, n_new=0, n_grown=0, n_same=1)
    assert_same(open_runs([into]), ingest(whole))
    assert len(list(Path(into).glob("trials/*/*"))) == 1  # the old file is gone


def test_one_run_id_with_two_measurements_is_refused(tmp_path: Path) -> None:
    rows = fma_trials("r")
    again = [msgspec.structs.replace(row, started_utc="2026-02-02T00:00:00Z") for row in rows]
    write_run(tmp_path / "a/r", manifest("r"), rows)
    write_run(tmp_path / "b/r", manifest("r"), again)
    with pytest.raises(InputError, match=r"run r is also in .*a, with other trials; it was meas"):
        open_runs([tmp_path / "a", tmp_path / "b"])
    merge([tmp_path / "a"], str(tmp_path / "fleet"))
    with pytest.raises(InputError, match=r"run r is also in .*fleet, with other trials"):
        merge([tmp_path / "b"], str(tmp_path / "fleet"))


def test_of_a_network_scored_twice_the_last_place_counts(tmp_path: Path) -> None:
    for name, work in (("a", 1), ("b", 7)):
        write_scores(board(tmp_path / name, name), [score("net", [layer(0, work, 2)])])
    assert open_runs([tmp_path / "a", tmp_path / "b"]).layers["work_flop"].to_list() == [7]
    assert open_runs([tmp_path / "b", tmp_path / "a"]).layers["work_flop"].to_list() == [1]


def test_a_folder_of_runs_is_no_place_for_a_dataset(two: tuple[Path, Path]) -> None:
    with pytest.raises(UsageError, match="is a folder of runs, no dataset"):
        merge([two[0]], str(two[1]))


def test_runs_beside_a_dataset_are_not_passed_over(two: tuple[Path, Path], tmp_path: Path) -> None:
    merge([two[0]], str(tmp_path / "fleet"))
    board(tmp_path / "fleet", "r3", "c")
    with pytest.raises(InputError, match="holds a dataset and folders of runs beside it"):
        open_runs([tmp_path / "fleet"])


@pytest.mark.parametrize("place", ["ftp://host/x", "https://host/dataset", "file:///x"])
def test_a_url_that_is_no_object_store_is_refused(place: str, two: tuple[Path, Path]) -> None:
    for use in (lambda: open_runs([place]), lambda: merge(two, place)):
        with pytest.raises(InputError, match="is not an object store that can hold a dataset"):
            use()


@pytest.fixture(scope="module")
def bucket() -> Iterator[Bucket]:
    """An object store, named as its own tools are told: in the environment.

    One for all tests: Polars keeps its connections to a bucket as long as the process lives.
    """
    with serving() as server, pytest.MonkeyPatch.context() as environment:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "eu-central-1",
        }.items():
            environment.setenv(name, value)
        yield server


def test_merged_into_an_object_store_it_is_the_same(two: tuple[Path, Path], bucket: Bucket) -> None:
    into = "s3://bucket/boards"
    with pytest.raises(InputError, match="no dataset of this version"):
        open_runs([into])
    for runs in two:
        assert merge([runs], into) == Merged(into, n_new=1, n_grown=0, n_same=0)
    assert merge(two, into) == Merged(into, n_new=0, n_grown=0, n_same=2)
    assert_same(open_runs([into]), open_runs(two))
    both = open_runs([into, *two])
    # Each of ``two`` is said to be in the dataset too.
    copies = [note for note in both.notes if "in another folder too, and counted once" in note]
    assert len(copies) == 2
    others = tuple(note for note in both.notes if note not in copies)
    assert_same(replace(both, notes=others), open_runs(two))
    for path in [path for path in bucket.objects if "/trials/" in path]:
        del bucket.objects[path]
    with pytest.raises(StorageError, match=r"s3://bucket/boards.*cannot be read"):
        open_runs([into])


@pytest.mark.usefixtures("bucket")
def test_a_run_that_grew_grows_in_the_object_store(tmp_path: Path) -> None:
    rows, into = fma_trials("r"), "s3://bucket/growing"
    folder = write_run(tmp_path / "r", manifest("r", n_trials=len(rows)), rows[:7])
    merge([tmp_path], into)
    with RowWriter(folder / "trials.jsonl", Trial) as writer:
        writer.extend(rows[7:])
    assert merge([tmp_path], into).n_grown == 1
    assert_same(open_runs([into]), ingest(tmp_path))


def test_no_name_is_this_folder_and_not_the_root() -> None:
    assert [Store(name).root for name in ("", "a/", "/", "s3://b/")] == [".", "a", "/", "s3://b"]


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("is_remote", [False, True])
def test_boards_can_merge_at_the_same_time(tmp_path: Path, *, is_remote: bool) -> None:
    places = [board(tmp_path / f"b{at}", f"r{at}", str(at)) for at in range(4)]
    into = "s3://bucket/at-once" if is_remote else str(tmp_path / "fleet")
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda place: merge([place], into), places))
    assert [each.n_new for each in done] == [1, 1, 1, 1]
    assert_same(open_runs([into]), open_runs(places))


def test_versions_of_one_device_refuse_to_mix(tmp_path: Path) -> None:
    places = [board(tmp_path / "a", "r1"), board(tmp_path / "b", "r2", tool_version="0.2.0")]
    line = (
        r"a, .*b: Board was measured by versions of Mansard 0\.1\.0 \(run r1\) and 0\.2\.0 "
        r"\(run r2\); report them from folders of their own, or mix them with --allow-mixed$"
    )
    with pytest.raises(InputError, match=line):
        open_runs(places)
    assert open_runs(places, allow_mixed=True).notes == (
        "mixed, as --allow-mixed says: Board was measured by versions of Mansard 0.1.0 (run r1) "
        "and 0.2.0 (run r2)",
    )


def test_versions_on_different_devices_stand_side_by_side(tmp_path: Path) -> None:
    one = board(tmp_path / "a", "r1", "a")
    other = board(tmp_path / "b", "r2", "b", tool_version="0.2.0")
    assert len(open_runs([one, other]).runs) == 2


def test_sources_of_one_kernel_refuse_to_mix(tmp_path: Path) -> None:
    board(tmp_path, "r1")
    changed = [msgspec.structs.replace(row, source_hash="d" * 16) for row in fma_trials("r2")]
    write_run(tmp_path / "r2", manifest("r2", on=machine("Board")), changed)
    line = r"the kernel fma numba-cpu fp32 ran on Board from sources c{16} \(run r1\) and d{16} "
    with pytest.raises(InputError, match=line):
        open_runs([tmp_path])
    assert len(open_runs([tmp_path], allow_mixed=True).notes) == 1


def devices(dataset: Dataset) -> set[str]:
    return {device_id(each) for each in dataset.manifests}


def test_boards_of_one_name_are_one_only_if_told(two: tuple[Path, Path]) -> None:
    apart, together = open_runs(two), open_runs(two, allow_mixed=True)
    assert (len(devices(apart)), len(devices(together))) == (2, 1)
    assert apart.notes == (
        "2 boards are called Board; each has its own roofs; --allow-mixed takes them for one",
    )
    assert together.notes == ("mixed, as --allow-mixed says: 2 boards called Board count as one",)
    assert together.trials["machine_id"].n_unique() == 1
    assert_frame_equal(apart.trials.drop("machine_id"), together.trials.drop("machine_id"))


def test_boards_that_differ_in_more_than_their_serial_stay_apart(tmp_path: Path) -> None:
    small = msgspec.structs.replace(machine("Board", "b" * 16), cpus=(0,))
    places = [board(tmp_path / "a", "r1"), board(tmp_path / "b", "r2", machine=small)]
    found = open_runs(places, allow_mixed=True)
    assert len(devices(found)) == 2
    assert found.notes == ()


def test_many_runs_are_not_all_named(tmp_path: Path) -> None:
    for at in range(6):
        board(tmp_path, f"r{at}")
    board(tmp_path, "new", tool_version="0.2.0")
    with pytest.raises(InputError, match=r"0\.1\.0 \(runs r0, r1, r2, r3 and 2 more\) and 0\.2"):
        open_runs([tmp_path])


def test_mixing_nothing_changes_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    assert_same(open_runs([tmp_path], allow_mixed=True), open_runs([tmp_path]))
    write_two_modes(tmp_path / "both")
    assert_same(open_runs([tmp_path / "both"], allow_mixed=True), open_runs([tmp_path / "both"]))


def test_a_machine_without_serial_is_read_and_is_no_other_machine_for_sure(tmp_path: Path) -> None:
    nameless = machine("Board", None)  # a virtual machine or a container without a machine-id
    for run_id in ("r1", "r2"):
        write_run(tmp_path / run_id, manifest(run_id, on=nameless), fma_trials(run_id))
    alone = open_runs([tmp_path])
    assert len(devices(alone)) == 1
    assert alone.notes == ()
    named = board(tmp_path / "named", "r3")
    apart, together = (
        open_runs([tmp_path, named], allow_mixed=allow_mixed) for allow_mixed in (False, True)
    )
    assert (len(devices(apart)), len(devices(together))) == (2, 1)
