"""A program gets its secrets; nothing that is kept of it has them."""

from __future__ import annotations

from pathlib import Path

from mansard import api


def test_rows_of_a_program_are_private_and_masked(tmp_path: Path) -> None:
    command = ("sh", "-c", 'test "${#1}" = 7', "--password", "hunter2")
    request = api.ProgramRequest(command=command, runs=tmp_path, n_runs=1, profile="brief")
    result = api.measure_program(request)
    result.check()  # the program itself got its password
    (path,) = tmp_path.glob("*/programs.jsonl")
    assert path.stat().st_mode & 0o777 == 0o600
    for each in tmp_path.rglob("*"):
        assert each.is_dir() or b"hunter" not in each.read_bytes()
