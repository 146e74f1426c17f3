"""``mansard recommend --board``: the choice is compared with the mode that the board starts in."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from mansard.core.records import Manifest
from mansard.core.storage.documents import read_document, write_document
from mansard.device.identity import identify
from mansard.device.power_modes.listing import list_board
from mansard.simulator import create_board
from tests.analytics.board_runs import write_board
from tests.cli.decide_runs import document


def test_the_choice_is_compared_with_the_mode_that_the_board_starts_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = create_board("agx-orin", tmp_path / "board")
    machine = identify(board)
    runs = write_board(tmp_path / "runs")
    for path in runs.glob("*/manifest.json"):
        found = read_document(path, Manifest)
        write_document(path, replace(found, machine=machine))
    default = list_board(board).default
    assert default == "30W"

    question = ("recommend", "resnet18", "--runs", runs, "--minimise", "latency")
    (here,) = document(capsys, *question, "--board", board)["recommendations"]
    (away,) = document(capsys, *question)["recommendations"]
    assert here["choice"]["mode"] == away["choice"]["mode"] == "MAXN"
    assert "30W" in {saving["mode"] for saving in here["savings"]}
    assert "30W" not in {saving["mode"] for saving in away["savings"]}
