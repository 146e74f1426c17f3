"""Rows of several networks at once, and of contention: read, checked, kept in a dataset."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.analytics.data.opening import merge, open_runs
from mansard.core.records import ContentionPoint, MultiRun, Record, RunNetwork, StageRun
from tests.analytics.dataset_checks import assert_same
from tests.analytics.factory import calm, manifest, write_run

_OF_A_ROW = {
    "source": "measured",
    "processor": "cpu",
    "failure": None,
    "conditions": calm(),
    "disturbances": (),
    "started_utc": "2026-01-02T04:00:00Z",
    "duration_s": 3.0,
}
POINT = ContentionPoint(
    run_id="beside",
    trial_id="a point",
    victim="cpu:0",
    aggressor="cpu:1",
    victim_share=0.5,
    aggressor_share=1.0,
    victim_fma_per_element=20,
    aggressor_fma_per_element=1,
    alone_byte_per_s=(5e9, 5.1e9),
    n_rejected=0,
    achieved_byte_per_s=(4e9, 4.1e9),
    external_byte_per_s=(8e9, 8.2e9),
    unknown={"failure": "it ran"},
    **_OF_A_ROW,  # type: ignore[arg-type]
)
RUN = MultiRun(
    run_id="two at once",
    trial_id="a mapping",
    mapping="a on cpu:0, b on cpu:1",
    engine="ort",
    engine_version="1.0",
    cpus=(0, 1),
    way="threads",
    order="in turn",
    options={},
    round_s=(),
    telemetry=(),
    networks=(
        RunNetwork(
            model="a",
            model_hash="of a",
            precision="fp32",
            batch=1,
            dimensions={},
            n_stages=1,
            n_runs=30,
            latency_s=(0.1, 0.1),
        ),
    ),
    stages=(
        StageRun(
            network="a",
            network_number=0,
            stage=0,
            n_stages=1,
            device="cpu:0",
            nodes=(0, 1),
            n_runs=30,
            inference_s=2.9,
            transfer_s=0.05,
            input_wait_s=0.0,
            device_wait_s=0.05,
            output_wait_s=0.0,
        ),
    ),
    window_s=3.0,
    energy=None,
    other_cpu_share=0.0,
    memory_bytes=None,
    unknown={"failure": "it ran", "energy": "no meter", "memory_bytes": "not read"},
    **_OF_A_ROW,  # type: ignore[arg-type]
)


def write(runs: Path, *rows: MultiRun | ContentionPoint) -> Path:
    for row in rows:
        kind = "multi" if isinstance(row, MultiRun) else "contention"
        run = manifest(row.run_id.replace(" ", "-"), 2, 1, kind=kind)
        write_run(runs / run.run_id, run, [replace(row, run_id=run.run_id)])
    return runs


def test_rows_are_read_and_a_dataset_holds_the_same(tmp_path: Path) -> None:
    runs = write(tmp_path / "runs", POINT, RUN)
    found = open_runs([runs])
    assert found.contention == (replace(POINT, run_id="beside"),)
    assert found.multi == (replace(RUN, run_id="two-at-once"),)
    assert len(found.workload_manifests) == 2
    assert found.runs.is_empty()  # no roof comes of them
    merge([runs], str(tmp_path / "fleet"))
    assert_same(open_runs([tmp_path / "fleet"]), found)


@pytest.mark.parametrize(
    ("row", "changes", "what"),
    [
        (POINT, {"achieved_byte_per_s": (4e9, -1.0)}, "a rate is less than 0"),
        (POINT, {"alone_byte_per_s": (1e19,)}, "a rate is less than 0"),
        (POINT, {"achieved_byte_per_s": (4e9,)}, "rates of the two accelerators differ in number"),
        (POINT, {"aggressor_share": 1.5}, "a share is below 0 or above 1"),
        (RUN, {"window_s": 1e12}, "its window takes less than"),
        (
            RUN,
            {"stages": (replace(RUN.stages[0], input_wait_s=-1.0),)},
            "a stage takes less than 0",
        ),
        (RUN, {"stages": (replace(RUN.stages[0], network_number=7),)}, "a network that is not"),
        (RUN, {"stages": (replace(RUN.stages[0], n_runs=-3),)}, "n_runs is negative"),
        (RUN, {"networks": (replace(RUN.networks[0], latency_s=(0.0,)),)}, "a network takes less"),
    ],
)
def test_what_cannot_be_is_left_out_with_a_note(
    row: Record, changes: dict[str, object], what: str, tmp_path: Path
) -> None:
    found = open_runs([write(tmp_path, replace(row, **changes))])  # type: ignore[arg-type]
    assert (found.multi, found.contention) == ((), ())
    assert any(what in note for note in found.notes), found.notes
