"""``mansard report`` over several places and ``mansard merge``, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.analytics.factory import fma_trials, machine, manifest, write_run

MANSARD = [sys.executable, "-m", "mansard.cli"]


def mansard(*words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [*MANSARD, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """Two folders, ``a`` and ``b``, with a run each of one machine by two versions."""
    for name, version in (("a", "0.1.0"), ("b", "0.2.0")):
        run = manifest(name, n_trials=22, on=machine("Example CPU"))
        run = msgspec.structs.replace(run, tool_version=version)
        write_run(tmp_path / name / name, run, fma_trials(name))
    return tmp_path


def test_versions_refuse_in_one_line_and_mix_if_told(folders: Path) -> None:
    places = ("--runs", "a", "--runs", "b")
    refused = mansard("report", *places, cwd=folders)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "mansard: a, b: Example CPU was measured by versions of Mansard 0.1.0 (run a) and 0.2.0 "
        "(run b); report them from folders of their own, or mix them with --mix\n"
    )
    assert not (folders / "a/report.html").exists()
    mixed = mansard("report", *places, "--mix", "--json", cwd=folders)
    assert mixed.returncode == 0
    found = json.loads(mixed.stdout)
    assert found["report"] == "a/report.html"
    assert (folders / "a/report.html").is_file()
    assert [mode["run_id"] for mode in found["summary"]["modes"]] == ["a", "b"]
    assert any(note.startswith("mixed, as --mix says") for note in found["summary"]["notes"])
    assert "note: mixed, as --mix says" in mixed.stderr


def test_merge_and_report_what_was_merged(folders: Path) -> None:
    done = mansard("merge", "a", "b", "--into", "fleet", cwd=folders)
    assert done.stdout == "fleet: 2 new runs, 0 that grew, 0 unchanged\n", done.stderr
    again = mansard("merge", "a", "--into", "fleet", "--json", cwd=folders)
    assert json.loads(again.stdout) == {"place": "fleet", "n_new": 0, "n_grown": 0, "n_same": 1}
    into_runs = mansard("merge", "a", "--into", "b", cwd=folders)
    assert into_runs.returncode == 2
    assert "'b' is a folder of runs, no dataset" in into_runs.stderr
    found = mansard("report", "--runs", "fleet", "--mix", "--json", cwd=folders)
    assert found.returncode == 0, found.stderr
    assert len(json.loads(found.stdout)["summary"]["modes"]) == 2
    assert (folders / "fleet/report.html").is_file()


def test_places_that_hold_nothing_are_one_line(folders: Path) -> None:
    for place, words in (
        ("nowhere", "nowhere: there is no such folder; measure first, with 'mansard bench'"),
        ("ftp://x/y", "ftp://x/y: ftp:// is no object store that can hold a dataset"),
    ):
        result = mansard("report", "--runs", place, cwd=folders)
        assert result.returncode == 1
        assert result.stderr.startswith(f"mansard: {words}")
        assert len(result.stderr.splitlines()) == 1
