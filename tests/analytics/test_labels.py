"""Runs of several builds in one folder, and several runs of one: which rows count, and notes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mansard.analytics.data.ingest import ingest
from mansard.analytics.data.names import run_labels
from mansard.analytics.data.opening import open_runs
from mansard.analytics.models.predict.measured import (
    measured_generations,
    measured_networks,
    measured_programs,
)
from mansard.analytics.models.scaling.coefficients import (
    counted_runs,
    good_trials,
    newest_runs,
    run_notes,
)
from mansard.analytics.models.scaling.observations import (
    counted_measurements,
    counted_programs,
    measured_observations,
)
from mansard.analytics.pages.results import compute
from mansard.analytics.pages.tables.provenance import provenance_table
from tests.analytics.factory import (
    fma_trials,
    manifest,
    measurement,
    program,
    write_networks,
    write_programs,
    write_run,
)
from tests.analytics.generation_rows import (
    generation,
    generation_request,
    generation_round,
    write_generations,
)

DISTURBED = ("another program ran",)


def at(day: int) -> str:
    return f"2026-01-{day:02}T00:00:00Z"


def network(runs: Path, run_id: str, day: int, time_s: float, **known: Any) -> None:
    """A run of one network on a day; ``label``: of the run."""
    label = known.pop("label", "")
    row = measurement(run_id, [time_s] * 4, started_utc=at(day), **known)
    write_networks(runs, [row], label=label, started_utc=at(day))


def test_a_disturbed_newer_row_displaces_no_good_one(tmp_path: Path) -> None:
    network(tmp_path, "a", 1, 0.010)
    network(tmp_path, "b", 2, 0.020, disturbances=DISTURBED)
    network(tmp_path, "c", 3, 0.030, stability="unstable", stability_interval=0.2)
    (row,) = counted_measurements(ingest(tmp_path))
    assert row.run_id == "a"
    network(tmp_path, "d", 4, 0.040)
    dataset = ingest(tmp_path)
    (row,) = counted_measurements(dataset)
    assert row.run_id == "d"  # as good, and newer
    (note,) = [line for line in measured_observations(dataset).notes if "more than once" in line]
    assert "net in 2c (4 times, that of 2026-01-04 00:00)" in note
    # One row in the tables, which names the runs of all.
    (times,) = measured_networks(dataset, compute(dataset).predictions)
    assert (times.time_s, sorted(times.run_ids), times.label) == (0.04, ["a", "b", "c", "d"], "")


def test_of_two_labels_the_newest_counts_and_both_are_shown(tmp_path: Path) -> None:
    network(tmp_path, "a", 1, 0.010, label="v1")
    network(tmp_path, "b", 2, 0.030, label="v2")
    network(tmp_path, "c", 3, 0.050, label="v2", disturbances=DISTURBED)
    dataset = ingest(tmp_path)
    observed = measured_observations(dataset)
    # That of v2 alone: 20 ms would be a mean over builds.
    assert observed.rows["latency_s"].to_list() == [0.03]
    (note,) = [line for line in observed.notes if "label" in line]
    assert note == (
        "net: what is modelled and recommended rests on label v2, the newest; label v1: in the "
        "tables alone"
    )
    times = measured_networks(dataset, compute(dataset).predictions)
    shown = {row.label: (row.time_s, row.remark) for row in times}
    assert shown == {"v1": (0.01, "a newer label counts instead"), "v2": (0.03, "")}


def test_a_label_counts_in_all_modes(tmp_path: Path) -> None:
    # v1 in two batch sizes, v2 in one: a curve over both would be of two builds.
    network(tmp_path, "a", 1, 0.010, label="v1")
    network(tmp_path, "b", 1, 0.080, label="v1", batch=8)
    network(tmp_path, "c", 2, 0.030, label="v2")
    dataset = ingest(tmp_path)
    assert [row.run_id for row in counted_measurements(dataset)] == ["c"]
    assert any(
        "label v1: in the tables alone" in line for line in measured_observations(dataset).notes
    )


def test_programs_of_two_labels(tmp_path: Path) -> None:
    for run_id, day, label, wall_s in (("a", 1, "v1", 1.0), ("b", 2, "v2", 3.0)):
        row = program(run_id, [wall_s] * 6, started_utc=at(day))
        write_programs(tmp_path, [row], label=label, started_utc=at(day))
    dataset = ingest(tmp_path)
    assert [row.run_id for row in counted_programs(dataset)] == ["b"]
    shown = {row.label: (row.time_s, row.remark) for row in measured_programs(dataset)}
    assert shown == {"v1": (1.0, "a newer label counts instead"), "v2": (3.0, "")}
    assert [line for line in measured_observations(dataset).notes if "was changed" in line] == []


def test_servers_of_two_labels_and_a_disturbed_row(tmp_path: Path) -> None:
    def serve(run_id: str, day: int, first_s: float, label: str, **known: Any) -> None:
        request = generation_request(10.0, [first_s, first_s + 1, first_s + 2, first_s + 3])
        rounds = [generation_round([request])]
        row = generation(run_id, rounds, started_utc=at(day), **known)
        write_generations(tmp_path, [row], label=label, started_utc=at(day))

    serve("a", 1, 1.0, "v1")
    serve("b", 2, 2.0, "v2")
    serve("c", 3, 9.0, "v2", disturbances=DISTURBED)
    times = measured_generations(ingest(tmp_path))
    shown = {row.label: (row.first_token_s, row.remark) for row in times}
    assert shown == {"v1": (1.0, "a newer label counts instead"), "v2": (2.0, "")}


def test_kernels_of_two_labels(tmp_path: Path) -> None:
    for run_id, day, label in (("a", 1, "v1"), ("b", 2, "v2")):
        rows = fma_trials(run_id)
        run = replace(manifest(run_id, n_trials=len(rows)), label=label, started_utc=at(day))
        write_run(tmp_path / run_id, run, rows)
    manifests = ingest(tmp_path).manifests
    assert [run.run_id for run in newest_runs(manifests)] == ["b"]
    assert run_labels(manifests) == {"a": "2c, label v1", "b": "2c, label v2"}
    notes = run_notes(manifests, {"a": "CPU", "b": "CPU"})
    assert (
        notes[-1]
        == "CPU: what is modelled rests on label v2, the newest; label v1: not used for predictions"
    )


def test_a_disturbed_newer_run_of_kernels_displaces_no_good_one(tmp_path: Path) -> None:
    for run_id, day, disturbances in (("a", 1, ()), ("b", 2, DISTURBED), ("c", 3, ())):
        rows = [replace(row, disturbances=disturbances) for row in fma_trials(run_id)]
        if run_id == "c":  # an eighth of them: fewer than half
            rows[1:] = [replace(row, disturbances=DISTURBED) for row in rows[1:]]
        run = manifest(run_id, n_trials=len(rows), started_utc=at(day))
        write_run(tmp_path / run_id, run, rows)
    dataset = ingest(tmp_path)
    assert [run.run_id for run in counted_runs(dataset)] == ["a"]
    assert [run.run_id for run in newest_runs(dataset.manifests)] == ["c"]
    (note,) = run_notes(dataset.manifests, dict.fromkeys("abc", "CPU"), good_trials(dataset))
    assert note == "CPU: 3 runs in mode 2c; what is modelled rests on that of 2026-01-01 00:00"


def test_a_newer_run_that_lost_a_peak_displaces_none_that_knows_it(tmp_path: Path) -> None:
    for run_id, day in (("a", 1), ("b", 2)):
        rows = fma_trials(run_id)
        if run_id == "b":  # other programs took one peak; half of the trials are good
            lost = {"fp32": DISTURBED}
            rows = [replace(row, disturbances=lost.get(row.precision, ())) for row in rows]
        run = manifest(run_id, n_trials=len(rows), started_utc=at(day))
        write_run(tmp_path / run_id, run, rows)
    dataset = ingest(tmp_path)
    assert [each.n_kinds for _, each in sorted(good_trials(dataset).items())] == [2, 1]
    assert [run.run_id for run in counted_runs(dataset)] == ["a"]


def test_every_run_is_in_the_provenance_with_why_it_does_not_count(tmp_path: Path) -> None:
    network(tmp_path, "a", 1, 0.010, label="<b>|v1")
    network(tmp_path, "b", 2, 0.030)
    rows = fma_trials("k")
    write_run(tmp_path / "k", manifest("k", n_trials=len(rows)), rows)
    unfinished = replace(
        manifest("u", n_trials=40),
        finished_utc=None,
        unknown={**manifest("u").unknown, "finished_utc": "killed"},
        started_utc=at(1),
    )
    write_run(tmp_path / "u", unfinished, fma_trials("u"))
    (tmp_path / "stray").mkdir()
    dataset = open_runs([tmp_path])
    table = provenance_table(compute(dataset))
    shown = [dict(zip(table.columns, cells, strict=True)) for cells in table.rows]
    remarks = {row["Run"]: row["Remark"] for row in shown}
    assert remarks == {
        "a": "no row counts: failed, disturbed, or measured again since",
        "b": "",
        "k": "",
        "u": "not finished; another run of the mode counts",
    }
    assert {row["Label"] for row in shown} == {"", "<b>|v1"}
    assert any("stray: ignored, it has no manifest.json" in line for line in dataset.notes)


@pytest.mark.parametrize("label", ["", "v2"])
def test_manifests_of_before_labels_are_read(label: str, tmp_path: Path) -> None:
    network(tmp_path, "a", 1, 0.010, label=label)
    path = tmp_path / "a/manifest.json"
    text = path.read_text()
    assert f'"label": "{label}"' in text
    if not label:
        path.write_text(
            text.replace('"version": 8', '"version": 6').replace(',\n    "label": ""', "")
        )
    (run,) = ingest(tmp_path).workload_manifests
    assert run.label == label
