"""A trial in which the measuring process crashes is a row, and the trials after it are measured."""

from __future__ import annotations

import signal
from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import DeviceError, MansardError, MeasurementError
from mansard.core.jsonl import read_rows
from mansard.measuring.guarded import GuardedMeasurer
from mansard.measuring.runner import missing_trials, run_plan
from tests.measuring.made_up_room import Nap, NapRow
from tests.measuring.test_made_up_room import nap_plan


def test_a_crash_is_the_row_of_its_trial(tmp_path: Path) -> None:
    naps = (
        Nap(nap_s=0.001),
        Nap(nap_s=0.001, signal=signal.SIGSEGV),
        Nap(nap_s=0.001, signal=signal.SIGKILL),
        Nap(nap_s=0.002),
    )
    plan = nap_plan(*naps)
    outcome = run_plan(plan, tmp_path / "runs", measurer=GuardedMeasurer(Path("/"), tmp_path))
    rows = read_rows(outcome.folder / "naps.jsonl", NapRow).rows
    assert [row.trial_id for row in rows] == [nap.trial_id for nap in naps]
    assert [bool(row.seconds_s) for row in rows] == [True, False, False, True]
    assert rows[1].failure == "the process that ran it crashed (SIGSEGV)"
    assert rows[2].failure == (
        "the process that ran it was killed, as it is where the memory runs out"
    )
    assert missing_trials(plan, tmp_path / "runs") == ()


def test_what_ends_the_child_otherwise_is_one_line(tmp_path: Path) -> None:
    # SIGTERM is an interrupt from outside, and no fault of the trial.
    plan = nap_plan(Nap(nap_s=0.001, signal=signal.SIGTERM))
    with pytest.raises(MeasurementError, match=r"ended with code 130: .*interrupted"):
        run_plan(plan, tmp_path / "runs", measurer=GuardedMeasurer(Path("/"), tmp_path))


def test_an_error_in_the_child_is_raised_as_what_it_is(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(nap_plan(), cpus=(4095,))
    with pytest.raises(MansardError, match="CPUs \\[4095\\]") as caught:
        run_plan(plan, tmp_path / "runs", measurer=GuardedMeasurer(Path("/"), tmp_path))
    assert isinstance(caught.value, DeviceError)
