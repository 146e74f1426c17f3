"""``mansard board restore``: what it says and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from mansard.device.holding.board_lock import board_lock
from mansard.device.holding.journal import find_journal, observe, write_journal
from mansard.simulator import snapshot
from tests.cli.in_process import mansard

pytestmark = pytest.mark.board(is_on=False)
GPU = "sys/class/devfreq/17000000.gpu"


def restore(board: Path, *options: str) -> CompletedProcess[str]:
    return mansard("restore", "--board", board, *options)


def cut_off(board: Path) -> None:
    """As a run leaves the board that set its GPU and was killed."""
    write_journal(board, observe(board))
    (board / f"{GPU}/min_freq").write_text("408000000\n")
    (board / f"{GPU}/max_freq").write_text("408000000\n")


def test_nothing_to_do(board: Path) -> None:
    done = restore(board)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "nothing to restore: no interrupted run on this machine\n"
    done = restore(board, "--json")
    assert json.loads(done.stdout) == {
        "schema": "mansard/restore",
        "version": 1,
        "boards": [{"board": None, "restored": None, "lines": []}],
    }


def test_what_was_restored_is_said(board: Path) -> None:
    before = snapshot(board)
    cut_off(board)
    done = restore(board)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1:] == [
        f"/{GPU}/max_freq 408000000 → 612000000",
        f"/{GPU}/min_freq 408000000 → 306000000",
    ]
    assert f"612000000 > /{GPU}/max_freq (the former state)" in done.stderr
    assert snapshot(board) == before
    assert restore(board).stdout.startswith("nothing to restore")


def test_a_dry_run_lists_every_write_and_touches_nothing(board: Path) -> None:
    cut_off(board)
    before = snapshot(board)
    done = restore(board, "--dry-run")
    assert done.returncode == 0
    assert f"/{GPU}/max_freq 408000000 → 612000000" in done.stdout
    assert f"/{GPU}/min_freq 408000000 → 306000000" in done.stdout
    assert snapshot(board) == before
    assert find_journal(board) is not None


def test_the_same_in_json(board: Path) -> None:
    cut_off(board)
    (told,) = json.loads(restore(board, "--json").stdout)["boards"]
    restored = told["restored"]
    assert len(restored["changes"]) == 2
    assert restored["is_after_reboot"] is False


def test_what_could_not_be_restored_fails(board: Path) -> None:
    cut_off(board)
    (board / f"{GPU}/max_freq").unlink()
    done = restore(board)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("mansard: ")
    assert f"/{GPU}/max_freq" in done.stderr.splitlines()[-1]
    assert find_journal(board) is not None


def test_while_a_sweep_is_alive_it_refuses(board: Path) -> None:
    cut_off(board)
    with board_lock(board):
        done = restore(board)
    assert (done.returncode, done.stdout) == (1, "")
    assert "this machine is in use by another sweep, process " in done.stderr
    assert (board / f"{GPU}/max_freq").read_text() == "408000000\n"


def test_a_broken_journal_fails_with_one_line(board: Path) -> None:
    cut_off(board)
    journal = find_journal(board)
    assert journal is not None
    journal.write_bytes(b"\x00\xff" * 100)
    done = restore(board)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "cannot be used, nothing was restored" in done.stderr
