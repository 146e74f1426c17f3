"""A trial in which the measuring process crashes is a row, and the trials after it are measured."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from mansard.core.errors import DeviceError, MansardError, MeasurementError
from mansard.core.storage.jsonl import read_rows
from mansard.measuring.guarded import GuardedMeasurer
from mansard.measuring.runner import missing_trials, run_plan
from tests.measuring.made_up_room import Nap, NapRow
from tests.measuring.test_made_up_room import impatient_once_started, nap_plan


def test_a_crash_is_the_row_of_its_trial(tmp_path: Path) -> None:
    naps = (
        Nap(nap_s=0.001),
        Nap(nap_s=0.001, signal=signal.SIGSEGV),
        Nap(nap_s=0.001, signal=signal.SIGKILL),
        Nap(nap_s=0.001, signal=signal.SIGSYS),
        Nap(nap_s=0.002),
    )
    plan = nap_plan(*naps)
    outcome = run_plan(plan, tmp_path / "runs", measurer=GuardedMeasurer(Path("/"), tmp_path))
    rows = read_rows(outcome.folder / "naps.jsonl", NapRow).rows
    assert [row.trial_id for row in rows] == [nap.trial_id for nap in naps]
    assert [bool(row.seconds_s) for row in rows] == [True, False, False, False, True]
    assert rows[1].failure == "the process that ran it crashed (SIGSEGV)"
    assert rows[2].failure == (
        "the process that ran it was killed, as it is where the memory runs out"
    )
    assert rows[3].failure == "the process that ran it crashed (SIGSYS)"
    assert missing_trials(plan, tmp_path / "runs") == ()


def test_what_ends_the_child_otherwise_is_one_line(tmp_path: Path) -> None:
    # SIGTERM is an interrupt from outside, and no fault of the trial.
    plan = nap_plan(Nap(nap_s=0.001, signal=signal.SIGTERM))
    with pytest.raises(MeasurementError, match=r"ended with code 130: .*interrupted"):
        run_plan(plan, tmp_path / "runs", measurer=GuardedMeasurer(Path("/"), tmp_path))


def test_a_child_that_hangs_is_ended_and_the_next_trial_is_measured(tmp_path: Path) -> None:
    # A stopped process is what a hung engine is: it answers nothing and does not end by itself.
    naps = (Nap(nap_s=0.001, signal=signal.SIGSTOP), Nap(nap_s=0.002))
    measurer = GuardedMeasurer(Path("/"), tmp_path, silence_s=8.0, first_word_s=0.5)
    words: list[str] = []
    outcome = run_plan(
        nap_plan(*naps),
        tmp_path / "runs",
        measurer=measurer,
        on_progress=lambda state: words.append(state.now),
    )
    rows = read_rows(outcome.folder / "naps.jsonl", NapRow).rows
    assert rows[0].failure == "the process that ran it was killed, as it said nothing for 8 s"
    assert rows[1].seconds_s
    # After 0.5 s, and after twice as long each time; the child may be slow to start.
    waited = [word for word in words if word.startswith("sleep 0.001 s: no answer for ")]
    assert waited[:4] == [
        f"sleep 0.001 s: no answer for {seconds} s, waiting for 8" for seconds in ("0.5", 1, 2, 4)
    ]


def test_what_is_announced_may_take_as_long(tmp_path: Path) -> None:
    # It says that it rests for 600 s at most, so the silence of 4 s is no hang.
    plan = nap_plan(Nap(nap_s=0.001, rest_s=4.0, announced_s=600.0))
    measurer = impatient_once_started(GuardedMeasurer(Path("/"), tmp_path), 3.0)
    outcome = run_plan(plan, tmp_path / "runs", measurer=measurer)
    assert read_rows(outcome.folder / "naps.jsonl", NapRow).rows[0].failure == ""


_HANGING = """
import signal, sys
from pathlib import Path
from mansard.core.processes.programs import turn_signals_into_interrupts
from mansard.measuring.guarded import GuardedMeasurer
from mansard.measuring.runner import run_plan
from tests.measuring.made_up_room import Nap
from tests.measuring.test_made_up_room import nap_plan

turn_signals_into_interrupts()
signal.siginterrupt(signal.{name}, False)  # as polars has it, once imported
folder = Path(sys.argv[1])
plan = nap_plan(Nap(nap_s=0.001, signal=signal.SIGSTOP))
try:
    run_plan(
        plan,
        folder / "runs",
        measurer=GuardedMeasurer(Path("/"), folder, first_word_s=1.0),
        on_progress=lambda state: print(state.now, flush=True),
    )
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.usefixtures("as_in_a_terminal")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_wait_for_a_child_that_hangs(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HANGING.format(name=name), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "no answer for" in line:
                    break
            process.send_signal(signal.Signals[name])
            assert process.communicate(timeout=300)[0].endswith("interrupted\n")
        finally:
            process.kill()


def test_an_error_in_the_child_is_raised_as_what_it_is(tmp_path: Path) -> None:
    plan = msgspec.structs.replace(nap_plan(), cpus=(4095,))
    with pytest.raises(MansardError, match="CPUs \\[4095\\]") as caught:
        run_plan(plan, tmp_path / "runs", measurer=GuardedMeasurer(Path("/"), tmp_path))
    assert isinstance(caught.value, DeviceError)
