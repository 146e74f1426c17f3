"""After an update, a bench reports what the new version measured and says what it left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.analytics.data.opening import open_runs
from mansard.core.errors import InputError
from tests.analytics.factory import fma_trials, machine, manifest, write_run


def write(
    runs: Path, run_id: str, started: str, version: str = "0.2.0", source: str = "new"
) -> None:
    made = replace(
        manifest(run_id, n_trials=22), tool_version=version, started_utc=f"2026-01-{started}"
    )
    write_run(runs / run_id, made, [replace(t, source_hash=source) for t in fma_trials(run_id)])


def test_older_versions_and_sources_are_left_out_and_said(tmp_path: Path) -> None:
    write(tmp_path, "version", "01T00:00:00Z", version="0.1.0")
    write(tmp_path, "source", "02T00:00:00Z", source="old")
    write(tmp_path, "same", "03T00:00:00Z")
    write(tmp_path, "last", "04T00:00:00Z")
    with pytest.raises(InputError, match="was measured by versions"):
        open_runs([tmp_path])
    found = open_runs([tmp_path], newest_only=True)
    assert {each.run_id for each in found.manifests} == {"same", "last"}
    for frame in (found.runs, found.trials, found.repetitions.collect()):
        assert set(frame["run_id"]) == {"same", "last"}
    assert found.notes[-1].startswith("2 runs are by another version of Mansard")


def test_other_devices_keep_what_they_have(tmp_path: Path) -> None:
    write(tmp_path, "here", "04T00:00:00Z")
    other = replace(
        manifest("there", n_trials=22, on=machine("Another", "b" * 16)), tool_version="0.1.0"
    )
    write_run(tmp_path / "there", other, fma_trials("there"))
    found = open_runs([tmp_path], newest_only=True)
    assert {each.run_id for each in found.manifests} == {"here", "there"}
    assert not found.notes
