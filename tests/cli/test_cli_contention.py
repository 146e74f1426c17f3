"""``mansard contention``: what it would do, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mansard.device.identity import identify
from tests.cli.in_process import mansard
from tests.cli.test_cli_usage import assert_one_line


def test_one_core_is_refused(tmp_path: Path) -> None:
    result = mansard("contention", "--mode", "1c", "--runs", str(tmp_path / "runs"))
    assert_one_line(result, 2, "one core", "hardware threads")
    assert not (tmp_path / "runs").exists()


@pytest.mark.skipif(len(identify().cpus) < 2, reason="one core alone")
def test_a_dry_run_touches_nothing(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    result = mansard("contention", "--mode", "2c", "--dry-run", "--json", "--runs", str(runs))
    assert result.returncode == 0, result.stderr
    (mode,) = json.loads(result.stdout)["modes"]
    assert (mode["trials"], mode["missing"]) == (60, 60)
    assert not runs.exists()
