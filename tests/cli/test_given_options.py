"""Commands in remedies carry the --board, --host and --runs that the command was given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mansard.cli.remedies import take_given, with_given
from mansard.simulator import create_board
from tests.cli.in_process import mansard

CASES = (
    (
        "doctor --board /srv/b",
        "run 'mansard board restore'",
        "mansard board restore --board /srv/b",
    ),
    ("bench --board=b c.onnx", "mansard doctor", "mansard doctor --board b"),
    ("bench --board", "run mansard doctor", "run mansard doctor"),  # without its value
    (
        "measure x --runs my-runs --board b",
        "no predictions yet: mansard bench --runs my-runs measures the roofs",
        "mansard bench --board b --runs my-runs measures",
    ),
    ("measure x --host a --host b,c", "mansard bench", "mansard bench --host a --host b,c"),
    (
        "measure x --host a --hosts-file f.toml",
        "'mansard board restore --host a'; mansard doctor",
        "'mansard board restore --hosts-file f.toml --host a'; mansard doctor",
    ),
    ("measure x --runs r", "mansard data merge", "mansard data merge"),
    (
        "recommend --runs r --board b",
        "mansard measure 'a b.onnx' --mode '15W; 30W' --board b --runs r; or",
        "mansard measure 'a b.onnx' --mode '15W; 30W' --board b --runs r; or",
    ),
    (
        "bench --board b --runs r",
        "mansard measure net --host user@board",
        "mansard measure --runs r net --host user@board",
    ),
    (
        "bench --host a",
        "mansard doctor; mansard bench --board c",
        "mansard doctor; mansard bench --board c",
    ),
    ("report --runs r", "'sudo mansard board restore'", "'sudo mansard board restore'"),
)


@pytest.mark.parametrize(("line", "text", "said"), CASES)
def test_commands_have_the_options_that_were_given(line: str, text: str, said: str) -> None:
    take_given(line.split())
    try:
        assert said in with_given(text)
    finally:
        take_given(())


def test_a_path_with_a_space_is_quoted() -> None:
    take_given(["doctor", "--board", "my board"])
    try:
        assert with_given("mansard bench") == "mansard bench --board 'my board'"
    finally:
        take_given(())


def test_doctor_of_a_board_advises_to_restore_that_board(tmp_path: Path) -> None:
    root = create_board("orin-nano-super", tmp_path / "board")
    journal = root / "var/lib/mansard/journal.json"
    journal.parent.mkdir(parents=True, exist_ok=True)
    journal.write_text("{}")
    done = mansard("doctor", "--board", root, "--json")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert checks["sweeps"]["fix"] == f"run 'mansard board restore --board {root}'"
    shown = mansard("doctor", "--board", root).stdout
    assert f"mansard board restore --board {root}" in shown
