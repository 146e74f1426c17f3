"""A dataset from somebody else changes nothing of another run: neither merged nor read."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import polars as pl
import pytest

from mansard.analytics.data.dataset_parts import decode, read_part, run_files
from mansard.analytics.data.frames import measurement_frame, to_json
from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.layout import (
    ENTRY_FILE,
    RUN_TABLES,
    files_of,
    run_entry,
    score_entry,
)
from mansard.analytics.data.opening import merge, open_runs
from mansard.analytics.data.store import Store
from mansard.analytics.models.roofs.rates import trial_rates
from mansard.core.errors import InputError, MansardError, SchemaError
from mansard.core.records import LayerTime, Manifest
from tests.analytics.factory import (
    fma_trials,
    machine,
    manifest,
    measurement,
    program,
    write_networks,
    write_programs,
    write_run,
)
from tests.analytics.score_factory import layer, score, write_scores

CONV = LayerTime(
    index=0, name="conv", op_type="Conv", provider="cpu", nodes=(0,), runs=1, seconds_s=(1.0,)
)
Poison = Callable[[Path], None]


def board(runs: Path, run_id: str, serial: str) -> Path:
    write_run(runs / run_id, manifest(run_id, on=machine("Board", serial * 16)), fma_trials(run_id))
    write_scores(runs, [score(f"net of {run_id}", [layer(0, 1, 2)])])
    return runs


@pytest.fixture
def fleet(tmp_path: Path) -> Path:
    """A dataset with the run ``mine``."""
    merge([board(tmp_path / "runs", "mine", "a")], str(tmp_path / "fleet"))
    return tmp_path / "fleet"


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A dataset with the run ``evil``, which somebody sends."""
    runs = board(tmp_path / "theirs", "evil", "b")
    write_networks(runs, [measurement("nets", (1.0,), profiled_s=(1.5,), layers=(CONV,))])
    write_programs(runs, [program("programs", (2.0, 2.1))])
    merge([runs], str(tmp_path / "evil"))
    return tmp_path / "evil"


def entry_of(dataset: Path, run_id: str) -> pl.DataFrame:
    return read_part(str(dataset)).runs.filter(pl.col("run_id") == run_id)


def put_entry(dataset: Path, run_id: str, entry: pl.DataFrame) -> None:
    Store(dataset).write(run_entry(run_id), entry)


def rewrite(dataset: Path, run_id: str, table: str, *columns: pl.Expr) -> None:
    """Change a run's rows, with digests that are right again."""
    entry, store = entry_of(dataset, run_id), Store(dataset)
    files = run_files(entry.row(0, named=True), str(dataset))
    own = {
        name: store.write(name, store.read([name], RUN_TABLES[table]).with_columns(*columns))
        for name in files_of(table, files)
    }
    text = to_json(files | own)
    put_entry(dataset, run_id, entry.with_columns(files_json=pl.lit(text)))


def name_files_of_another(evil: Path) -> None:
    """The entry of ``evil`` names files of ``mine``, which it brings along."""
    entry, store = entry_of(evil, "evil"), Store(evil)
    files = run_files(entry.row(0, named=True), str(evil))
    for name in files_of("repetitions", files):
        rows = store.read([name], RUN_TABLES["repetitions"])
        theirs = name.replace("run_id=evil", "run_id=mine")
        files[theirs] = store.write(theirs, rows.with_columns(run_id=pl.lit("mine")))
        del files[name]
    text = to_json(files)
    put_entry(evil, "evil", entry.with_columns(files_json=pl.lit(text)))


def rows_of_another(table: str) -> Poison:
    return lambda evil: rewrite(evil, "evil", table, pl.lit("mine").alias("run_id"))


def one_row_of_another(evil: Path) -> None:
    own = pl.when(pl.int_range(pl.len()) == 3).then(pl.lit("mine")).otherwise("run_id")
    rewrite(evil, "evil", "repetitions", own.alias("run_id"))


def no_run_at_all(evil: Path) -> None:
    rewrite(evil, "evil", "repetitions", pl.lit(None, pl.String).alias("run_id"))


def trials_of_another_machine(evil: Path) -> None:
    rewrite(evil, "evil", "trials", pl.lit("another").alias("machine_id"))


def an_entry_of_another(evil: Path) -> None:
    put_entry(evil, "evil", entry_of(evil, "evil").with_columns(run_id=pl.lit("mine")))


def two_rows_in_an_entry(evil: Path) -> None:
    entry = entry_of(evil, "evil")
    put_entry(evil, "evil", pl.concat([entry, entry.with_columns(run_id=pl.lit("mine"))]))


def the_same_row_twice(evil: Path) -> None:
    entry = entry_of(evil, "evil")
    put_entry(evil, "evil", pl.concat([entry, entry]))


def a_manifest_of_another(evil: Path) -> None:
    entry = entry_of(evil, "evil")
    run = decode(entry["manifest_json"].item(), Manifest, "")
    text = to_json(msgspec.structs.replace(run, run_id="mine"))
    put_entry(evil, "evil", entry.with_columns(manifest_json=pl.lit(text)))


def an_entry_of_another_machine(evil: Path) -> None:
    put_entry(evil, "evil", entry_of(evil, "evil").with_columns(machine_id=pl.lit("another")))


def a_file_that_was_changed(evil: Path) -> None:
    for name in (evil / "repetitions/run_id=evil").iterdir():
        frame = pl.read_parquet(name, hive_partitioning=False)
        frame.with_columns(pl.col("seconds_s") / 1000).write_parquet(name)


def times_of_another(evil: Path) -> None:
    """The rows of a run of networks in the folder of another run."""
    rewrite(evil, "nets", "measurements", pl.lit("mine").alias("run_id"))


def times_that_differ_from_their_row(evil: Path) -> None:
    rewrite(evil, "nets", "measurements", pl.lit([1e-6]).alias("seconds_s"))


def a_row_of_another_in_ones_own(evil: Path) -> None:
    row = to_json(measurement("mine", (1e-6,)))
    rewrite(evil, "nets", "measurements", pl.lit(row).alias("row_json"))


def times_that_cannot_be(evil: Path) -> None:
    row = msgspec.structs.replace(measurement("nets", (1.0,)), seconds_s=(-1.0,))
    columns = measurement_frame([row]).row(0, named=True)
    names = [pl.lit(columns[name]).alias(name) for name in ("seconds_s", "row_json")]
    rewrite(evil, "nets", "measurements", *names)


def times_of_other_layers(evil: Path) -> None:
    rewrite(evil, "nets", "layer_times", pl.lit("Gemm").alias("op_type"))


def programs_of_another(evil: Path) -> None:
    rewrite(evil, "programs", "programs", pl.lit("mine").alias("run_id"))


def rows_of_another_kind(evil: Path) -> None:
    """A run of kernels that names times of networks."""
    entry, store = entry_of(evil, "evil"), Store(evil)
    files = run_files(entry.row(0, named=True), str(evil))
    rows = measurement_frame([measurement("evil", (1e-6,))])
    name = f"measurements/run_id=evil/{'0' * 32}-00000.parquet"
    text = to_json({**files, name: store.write(name, rows)})
    put_entry(evil, "evil", entry.with_columns(files_json=pl.lit(text)))


def a_score_filed_as_another(evil: Path) -> None:
    scores = read_part(str(evil)).scores
    Store(evil).write(score_entry("0" * 16), scores.with_columns(score_id=pl.lit("0" * 16)))


POISONS: tuple[Poison, ...] = (
    name_files_of_another,
    *map(rows_of_another, ("trials", "repetitions")),
    one_row_of_another,
    no_run_at_all,
    trials_of_another_machine,
    an_entry_of_another,
    two_rows_in_an_entry,
    the_same_row_twice,
    a_manifest_of_another,
    an_entry_of_another_machine,
    a_file_that_was_changed,
    times_of_another,
    times_that_differ_from_their_row,
    a_row_of_another_in_ones_own,
    times_that_cannot_be,
    times_of_other_layers,
    programs_of_another,
    rows_of_another_kind,
    a_score_filed_as_another,
)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*.parquet")}


def best_flop_per_s(*places: Path) -> float:
    """Of the run ``mine``."""
    rates = trial_rates(open_runs(places))
    return float(max(rate.blocks.max() for rate in rates if rate.run_id == "mine"))


@pytest.mark.parametrize("poison", POISONS)
def test_it_is_refused_before_anything_is_written(fleet: Path, evil: Path, poison: Poison) -> None:
    before, best = content(fleet), best_flop_per_s(fleet)
    poison(evil)
    with pytest.raises(MansardError) as refused:
        merge([evil], str(fleet))
    assert "\n" not in str(refused.value)
    assert content(fleet) == before
    for places in ([evil], [evil, fleet], [fleet, evil]):
        with pytest.raises(MansardError):
            open_runs(places)
    assert best_flop_per_s(fleet) == best


def test_what_is_not_poisoned_is_merged(fleet: Path, evil: Path) -> None:
    best = best_flop_per_s(fleet)
    assert merge([evil], str(fleet)).n_new == 3
    assert best_flop_per_s(fleet) == best
    found = open_runs([fleet])
    assert found.runs["run_id"].to_list() == ["evil", "mine"]
    assert [each.run_id for each in found.workload_manifests] == ["nets", "programs"]


@pytest.mark.parametrize("table", ["repetitions", "trials"])
def test_a_copy_of_a_run_with_other_rows(fleet: Path, tmp_path: Path, table: str) -> None:
    """The same id and the same content by its entry: but a thousand times as fast."""
    copy = tmp_path / "copy"
    shutil.copytree(fleet, copy)
    faster = {"repetitions": pl.col("seconds_s") / 1000, "trials": pl.col("work_flop") * 1000}
    rewrite(copy, "mine", table, faster[table])
    before = content(fleet)
    line = "run mine is also in .*, with other trials"
    for act in (
        lambda: merge([copy], str(fleet)),
        lambda: open_runs([fleet, copy]),
        lambda: open_runs([copy, fleet]),
    ):
        with pytest.raises(InputError, match=line):
            act()
    assert content(fleet) == before


def test_a_fuller_copy_may_not_change_what_was_there(tmp_path: Path) -> None:
    """Somebody sends more trials of a run, and other times of those that are there."""
    rows, into = fma_trials("mine"), str(tmp_path / "fleet")
    write_run(tmp_path / "part/mine", manifest("mine", n_trials=len(rows)), rows[:7])
    merge([tmp_path / "part"], into)
    fast = [
        msgspec.structs.replace(row, seconds_s=tuple(s / 1000 for s in row.seconds_s))
        for row in rows
    ]
    write_run(tmp_path / "evil/mine", manifest("mine", n_trials=len(rows)), fast)
    with pytest.raises(InputError, match=r"run mine is also in .*, with other trials"):
        merge([tmp_path / "evil"], into)
    moved = msgspec.structs.replace(
        manifest("mine", n_trials=len(rows)), machine=machine("Board", "b" * 16)
    )
    write_run(tmp_path / "moved/mine", moved, rows)
    with pytest.raises(InputError, match=r"run mine is also in .*, with other trials"):
        merge([tmp_path / "moved"], into)
    write_run(tmp_path / "whole/mine", manifest("mine", n_trials=len(rows)), rows)
    assert merge([tmp_path / "whole"], into).n_grown == 1


def test_what_a_killed_merge_left_goes_with_the_next(fleet: Path, evil: Path) -> None:
    (fleet / "trials/run_id=mine" / f"{'0' * 32}-00000.parquet").write_bytes(b"half")
    orphans = fleet / "energy/run_id=gone"
    orphans.mkdir(parents=True)
    (orphans / f"{'1' * 32}-00000.parquet").write_bytes(b"whole, but named by nobody")
    old = fleet / "trials/run_id=old"
    old.mkdir()
    (old / "x.parquet").write_bytes(b"of another version")
    (fleet / "runs/run_id=old").mkdir()
    (fleet / "runs/run_id=old/ffffffffffffffff.parquet").write_bytes(b"its entry")
    wanted = open_runs([fleet, evil]).trials
    merge([evil], str(fleet))
    assert not orphans.exists()
    assert len(list((fleet / "trials/run_id=mine").iterdir())) == 1
    assert (old / "x.parquet").exists()
    assert (fleet / "runs/run_id=old/ffffffffffffffff.parquet").exists()
    assert open_runs([fleet]).trials.equals(wanted)


def test_rows_of_another_run_in_ones_own_dataset_are_made_again(tmp_path: Path) -> None:
    runs = board(tmp_path, "mine", "a")
    wanted = ingest(runs)
    for table in ("trials", "repetitions"):
        (path,) = (runs / f"dataset/{table}/run_id=mine").iterdir()
        frame = pl.read_parquet(path, hive_partitioning=False)
        frame.with_columns(run_id=pl.lit("other")).write_parquet(path)
        found = ingest(runs)
        assert found.trials.equals(wanted.trials)
        assert found.repetitions.collect().equals(wanted.repetitions.collect())


def test_an_entry_that_names_a_file_of_another_kind(evil: Path) -> None:
    entry = entry_of(evil, "evil")
    files = run_files(entry.row(0, named=True), "")
    (own,) = files_of("trials", files)
    for name in ("trials/run_id=evil/../run_id=mine/x.parquet", f"trials/run_id=evil/{ENTRY_FILE}"):
        text = to_json({name: files[own]})
        put_entry(evil, "evil", entry.with_columns(files_json=pl.lit(text)))
        with pytest.raises(SchemaError, match=r"names the file .*, which is not its own"):
            open_runs([evil])
