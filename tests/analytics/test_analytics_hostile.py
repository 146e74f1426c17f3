"""Run folders that were changed by hand, or that hold things that are no files."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.core.errors import InputError, StorageError
from tests.analytics.factory import manifest, trial, write_run
from tests.analytics.score_factory import layer, score, write_scores

BEYOND = 2**63


@pytest.mark.parametrize("seconds", [5e-324, 1e-13, 1e10, 1e308])
def test_times_that_no_clock_gives(tmp_path: Path, seconds: float) -> None:
    row = msgspec.structs.replace(trial("r", "read", 1e9), seconds_s=(seconds,), block=(0,))
    write_run(tmp_path / "r", manifest("r"), [row])
    (note,) = ingest(tmp_path).notes
    assert note.endswith("a repetition takes less than 1e-12 s or more than 1e+09 s")


@pytest.mark.parametrize("count", [-1, BEYOND])
@pytest.mark.parametrize("name", ["repetitions_per_sample", "working_set_bytes", "block", "cpus"])
def test_counts_of_a_trial(tmp_path: Path, name: str, count: int) -> None:
    row = trial("r", "read", 1e9)
    value = (count,) * len(row.block) if name in ("block", "cpus") else count
    write_run(tmp_path / "r", manifest("r"), [msgspec.structs.replace(row, **{name: value})])
    (note,) = ingest(tmp_path).notes
    assert note.endswith(f"{name} is negative or beyond 63 bits")


def test_counts_of_a_manifest(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r", n_trials=BEYOND), [])
    with pytest.raises(InputError, match=r"manifest\.json: n_trials is negative or beyond"):
        ingest(tmp_path)


def test_counts_of_the_machine(tmp_path: Path) -> None:
    run = manifest("r")
    run = msgspec.structs.replace(
        run, machine=msgspec.structs.replace(run.machine, memory_bytes=10**400)
    )
    write_run(tmp_path / "r", run, [])
    with pytest.raises(InputError, match="memory_bytes is negative or beyond"):
        ingest(tmp_path)


def test_two_caches_of_one_level(tmp_path: Path) -> None:
    run = manifest("r")
    machine = msgspec.structs.replace(run.machine, caches=run.machine.caches[:1] * 2)
    write_run(tmp_path / "r", msgspec.structs.replace(run, machine=machine), [])
    with pytest.raises(InputError, match="two caches have the same level"):
        ingest(tmp_path)


def test_counts_of_a_layer(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    row = msgspec.structs.replace(layer(0, 1, 1), parameters=BEYOND)
    write_scores(tmp_path, [score("net", [row])])
    with pytest.raises(InputError, match="layer 'layer 0': parameters is negative or beyond"):
        ingest(tmp_path)


def test_a_name_of_megabytes(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    write_scores(tmp_path, [score("N" * 10_000_000, [layer(0, 1, 1)])])
    with pytest.raises(InputError, match="a model's name has 10000000 characters"):
        ingest(tmp_path)


@pytest.mark.parametrize("name", ["r/trials.jsonl", "r/manifest.json", "scores.jsonl"])
def test_pipes_and_devices_are_not_waited_for(tmp_path: Path, name: str) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    with pytest.raises(StorageError, match="is not a regular file"):
        ingest(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(StorageError, match="is a link, and a folder of runs holds none"):
        ingest(tmp_path)
