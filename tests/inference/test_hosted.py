"""``python -m mansard.inference.hosted`` as ssh would start it: what it answers, when it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mansard.inference.hosted import HostedProgram

COMMAND = [sys.executable, "-m", "mansard.inference.hosted"]


def answers(*options: str, given: bytes) -> tuple[int, list[dict[str, Any]]]:
    """Exit code and lines of the process, whose input is ``given`` and ends then."""
    done = subprocess.run(
        [*COMMAND, *options], input=given, capture_output=True, check=False, timeout=300
    )
    assert b"Traceback" not in done.stderr
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line]


def line(**fields: object) -> bytes:
    return json.dumps({"type": "program", **fields}).encode() + b"\n"


def test_a_program_is_described_by_the_files_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("one")
    asked = line(command=["cat", "data"], folder=str(tmp_path), name="reader")
    code, (first,) = answers("--describe", given=asked)
    assert code == 0
    assert (first["trial"]["workload"], first["trial"]["folder"]) == ("reader", str(tmp_path))
    assert first["may_set"] is (os.geteuid() == 0)
    (tmp_path / "data").write_text("two")
    _, (second,) = answers("--describe", given=asked)
    assert first["trial"]["program_hash"] != second["trial"]["program_hash"]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (b"", 1, "cannot read what is to be measured"),
        (b"{\n", 1, "cannot read what is to be measured"),
        (b"[" * 100_000 + b"\n", 1, "cannot read what is to be measured"),
        (b"\xff\xfe\n", 1, "cannot read what is to be measured"),
        (line(command="ls"), 1, "Expected `array`, got `str`"),
        (line(command=["ls"], metric=1e400), 1, "cannot read what is to be measured"),
        (line(), 1, "missing required field `command`"),
        (line(command=[]), 2, "no command is given"),
        (line(command=["nonesuch"]), 127, "cannot be run: no such file or directory"),
        (line(command=["ls"], folder="/nonesuch\x1b[31m"), 2, "cannot be entered"),
        (line(command=["ls"], variables=["A=B"]), 2, "--env 'A=B' is not the name of a variable"),
    ],
)
def test_what_cannot_be_measured_is_an_answer(given: bytes, code: int, said: str) -> None:
    found, (answer,) = answers("--describe", given=given)
    assert (found, answer["type"]) == (code, "Aborted")
    assert said in answer["error"]["what"]
    assert "\x1b" not in str(answer)


def test_without_a_job_it_ends_with_its_input() -> None:
    code, (answer,) = answers(given=line(command=["true"]))
    assert (code, answer["type"]) == (1, "Aborted")
    assert "cannot read the job" in answer["error"]["what"]


def test_it_ends_where_its_caller_falls_silent() -> None:
    with subprocess.Popen(
        [*COMMAND, "--heartbeat", "0.2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        # Its input stays open: the silence is its end.
        assert process.wait(300) == 1
        assert process.stdout is not None
        assert b"cannot read what is to be measured" in process.stdout.read()


def test_a_program_runs_in_the_home_by_default() -> None:
    assert HostedProgram(command=("true",)).folder is None
    code, (answer,) = answers("--describe", given=line(command=["true"]))
    assert (code, answer["trial"]["folder"]) == (0, os.path.expanduser("~"))  # noqa: PTH111
