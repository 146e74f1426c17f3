from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.scores import score_id
from mansard.core.errors import InputError, SchemaError, StorageError
from tests.analytics.factory import fma_trials, manifest, trial, write_run
from tests.analytics.score_factory import layer, score, write_scores


def test_frames_hold_every_row(tmp_path: Path) -> None:
    rows = [trial("r", "fma", 1e9, fma_per_element=64), trial("r", "read", 1e9)]
    write_run(tmp_path / "r", manifest("r", n_trials=2), rows)
    write_scores(tmp_path, [score("net", [layer(0, 1, 2), layer(1, 3, 4)])])
    dataset = ingest(tmp_path)
    # 9 blocks of 3 accepted repetitions and 1 rejected, twice
    repetitions = dataset.repetitions.collect()
    assert (len(dataset.trials), len(repetitions)) == (2, 56)
    assert repetitions.filter(~pl.col("accepted"))["rejected_reason"].to_list() == [
        "1 involuntary context switch",
        "1 involuntary context switch",
    ]
    assert dataset.layers["work_flop"].to_list() == [1, 3]
    assert dataset.notes == ()


def test_reading_again_gives_the_same(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), fma_trials("r"))
    first, second = ingest(tmp_path), ingest(tmp_path)
    assert first.trials.equals(second.trials)
    assert first.notes == second.notes == ()


def test_no_folder_and_no_run_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="measure first, with 'mansard bench'"):
        ingest(tmp_path / "nowhere")
    (tmp_path / "models").mkdir()
    with pytest.raises(InputError, match="no run was found here"):
        ingest(tmp_path)
    (tmp_path / "runs").mkdir()  # as in the folder of ``mansard demo``
    with pytest.raises(InputError, match=r"no run was found here; use .*/runs$"):
        ingest(tmp_path)


def test_folders_that_are_no_runs_are_noted(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    (tmp_path / "models").mkdir()
    (tmp_path / ".cache").mkdir()
    assert ingest(tmp_path).notes == ("models: ignored, it has no manifest.json and is not a run",)


def test_a_torn_last_line_is_put_aside_and_noted(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", manifest("r"), [trial("r", "read", 1e9)])
    with (folder / "trials.jsonl").open("ab") as stream:
        stream.write(b'{"run_id":"r","tri')
    dataset = ingest(tmp_path)
    assert len(dataset.trials) == 1
    assert dataset.notes == (
        "r/trials.jsonl: the last line was being written when the run was killed; "
        "18 bytes were put aside",
    )


def test_an_unfinished_run_is_used_and_noted(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r", n_trials=5), [trial("r", "read", 1e9)])
    dataset = ingest(tmp_path)
    assert len(dataset.trials) == 1
    assert dataset.notes == (
        "r: 1 of 5 trials were measured; run 'mansard bench' again to finish it",
    )


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("trials.jsonl", b'"version":7', b'"version":99'),
        ("manifest.json", b'"version": 8', b'"version": 99'),
    ],
)
def test_another_version_is_refused_by_name(
    tmp_path: Path, name: str, old: bytes, new: bytes
) -> None:
    folder = write_run(tmp_path / "r", manifest("r"), [trial("r", "read", 1e9)])
    content = (folder / name).read_bytes()
    assert content.count(old) == 1
    (folder / name).write_bytes(content.replace(old, new))
    with pytest.raises(SchemaError, match=name):
        ingest(tmp_path)


def test_an_unknown_field_is_refused_by_name(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", manifest("r"), [trial("r", "read", 1e9)])
    path = folder / "trials.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"kernel":', b'"colour":"red","kernel":'))
    with pytest.raises(SchemaError, match=r"trials\.jsonl, line 2.*colour"):
        ingest(tmp_path)


def test_rows_of_another_run_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [trial("other", "read", 1e9)])
    with pytest.raises(InputError, match="belongs to run other, the manifest to r"):
        ingest(tmp_path)


def test_the_same_run_twice_is_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    write_run(tmp_path / "copy", manifest("r"), [])
    with pytest.raises(InputError, match="run r is here twice"):
        ingest(tmp_path)


def test_the_same_trial_twice_is_refused(tmp_path: Path) -> None:
    row = trial("r", "read", 1e9)
    write_run(tmp_path / "r", manifest("r"), [row, row])
    with pytest.raises(InputError, match="is here twice"):
        ingest(tmp_path)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_times_that_cannot_be_are_left_out_and_noted(tmp_path: Path, seconds: float) -> None:
    good = trial("r", "copy", 1e9)
    bad = msgspec.structs.replace(trial("r", "read", 1e9), seconds_s=(seconds,), block=(0,))
    write_run(tmp_path / "r", manifest("r"), [bad, good])
    dataset = ingest(tmp_path)
    assert dataset.trials["kernel"].to_list() == ["copy"]
    assert dataset.notes == (
        f"r/trials.jsonl: 1 trial was left out, the first is trial {bad.trial_id}: "
        "a repetition has a time that is not positive",
    )


def test_the_last_score_of_a_model_counts(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    write_scores(tmp_path, [score("net", [layer(0, 1, 2)]), score("net", [layer(0, 7, 8)])])
    dataset = ingest(tmp_path)
    assert len(dataset.scores) == 1
    assert dataset.layers["work_flop"].to_list() == [7]


def test_a_file_where_the_dataset_belongs(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    (tmp_path / "dataset").write_text("in the way")
    with pytest.raises(StorageError, match="dataset"):
        ingest(tmp_path)


@pytest.mark.parametrize("count", [-1, 2**63])
def test_counts_that_cannot_be(tmp_path: Path, count: int) -> None:
    row = msgspec.structs.replace(trial("r", "read", 1e9), traffic_bytes=count)
    write_run(tmp_path / "a" / "r", manifest("r"), [row])
    (note,) = ingest(tmp_path / "a").notes
    assert note.endswith("traffic_bytes is negative or beyond 63 bits")
    write_run(tmp_path / "b" / "r", manifest("r"), [])
    write_scores(tmp_path / "b", [score("net", [layer(0, count, 1)])])
    with pytest.raises(InputError, match=r"model 'net'.*negative or beyond 63 bits"):
        ingest(tmp_path / "b")


def test_sums_that_overflow_are_refused(tmp_path: Path) -> None:
    write_run(tmp_path / "r", manifest("r"), [])
    write_scores(tmp_path, [score("net", [layer(at, 2**62, 1) for at in range(2)])])
    with pytest.raises(InputError, match="beyond 63 bits"):
        ingest(tmp_path)


def test_scores_that_differ_in_one_circumstance_are_two() -> None:
    one = score("net", [layer(0, 1, 2)])
    others = [
        msgspec.structs.replace(one, cache_bytes=1 << 21),
        msgspec.structs.replace(one, recompute=True),
        # a quantised network whose floats are counted at another width
        score("net", [layer(0, 1, 2, precision="fp16")]),
    ]
    assert len({score_id(each) for each in (one, *others)}) == 4
    assert score_id(one) == score_id(score("net", [layer(0, 1, 2)]))
