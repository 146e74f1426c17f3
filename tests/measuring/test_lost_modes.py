"""A board that leaves its mode while it is measured, once and under a program that meddles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import meddled_board
import msgspec
import pytest

from mansard.core.clock import SYSTEM_CLOCK, Clock
from mansard.core.errors import DeviceError
from mansard.core.records import Manifest, Trial
from mansard.core.storage.documents import read_document
from mansard.core.storage.jsonl import read_rows
from mansard.device.controller import LocalController
from mansard.device.meters.finding import find_meters
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.metering import EnergyMetering
from mansard.measuring.runner import run_plan
from mansard.measuring.sampling import Samples
from mansard.microbench.kernel import TrialSpec
from mansard.microbench.plan import KernelPlan, make_plan
from mansard.microbench.trial import kernel_kind
from mansard.simulator import create_board, running
from tests.measuring.test_runner import stub_sampling

CORE = "sys/devices/system/cpu/cpu3/online"


def present_plan(root: Path) -> KernelPlan:
    controller = LocalController(root)
    (mode,) = controller.choose_modes("present")
    plan = make_plan(controller.identify(), mode, "brief")
    quick = msgspec.structs.replace(plan.protocol, idle_s=0.5)
    return msgspec.structs.replace(plan, trials=plan.trials[:4], protocol=quick)


def run(plan: KernelPlan, root: Path, runs: Path, before: Callable[[int], None]) -> Path:
    def sample(spec: TrialSpec, its_plan: KernelPlan, metering: EnergyMetering | None) -> Samples:
        before(plan.trials.index(spec))
        return stub_sampling(spec, its_plan, metering)

    meters = find_meters(root, plan.machine)
    measurer = LocalMeasurer(meters=meters, root=root, kind=kernel_kind(sample))
    return run_plan(plan, runs, measurer=measurer).folder


def test_a_mode_that_nobody_holds_is_read_back_after_each_trial(tmp_path: Path) -> None:
    """MODE=present sets nothing: what a board is in may change all the same."""
    root, runs = create_board("agx-orin", tmp_path), tmp_path / "runs"

    def switch_off_in_the_third(number: int) -> None:
        if number == 2:
            (root / CORE).write_text("0\n")

    with running(root):
        plan = present_plan(root)
        with pytest.raises(DeviceError, match="left power mode present: core 3 was switched off"):
            run(plan, root, runs, switch_off_in_the_third)
        trials = read_rows(runs / plan.run_id / "trials.jsonl", Trial).rows
        assert [trial.trial_id for trial in trials] == [one.trial_id for one in plan.trials[:2]]
        (root / CORE).write_text("1\n")
        folder = run(plan, root, runs, lambda _: None)
    trials = read_rows(folder / "trials.jsonl", Trial).rows
    assert [trial.conditions.settings_changed for trial in trials] == [()] * 4
    manifest = read_document(folder / "manifest.json", Manifest)
    assert manifest.finished_utc is not None


def test_an_idle_window_in_another_mode_is_none(tmp_path: Path) -> None:
    """A third of the board's cores go for a moment: their power would be missing from idle."""
    root, runs = create_board("agx-orin", tmp_path), tmp_path / "runs"
    numbers = count(1)

    def sleep(seconds: float) -> None:
        if seconds == plan.protocol.idle_s and next(numbers) == 1:  # in the first idle window
            for text in ("0\n", "1\n"):
                (root / CORE).write_text(text)
        SYSTEM_CLOCK.sleep(seconds)

    with running(root):
        plan = present_plan(root)
        meters = msgspec.structs.replace(find_meters(root, plan.machine), clock=Clock(sleep=sleep))
        measurer = LocalMeasurer(meters=meters, root=root, kind=kernel_kind(stub_sampling))
        run_plan(plan, runs, measurer=measurer)
    manifest = read_document(runs / plan.run_id / "manifest.json", Manifest)
    assert manifest.idle is not None
    assert len(manifest.idle) == 2  # half way, and after the last trial


def test_no_meddled_trial_is_undisturbed(capsys: pytest.CaptureFixture[str]) -> None:
    """A bench as those of ``benchmarks/meddled_board.py``, meddled with more often."""
    few = ["--benches", "1", "--first", "1", "--trials", "3", "--attempts", "3"]
    meddled_board.main([*few, "--seed", "3", "--pause", "1.5"])
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1].startswith("| all | 1 |"), shown
    counts = [int(cell) for cell in shown.out.splitlines()[-1].split("|")[2:-1]]
    n_touched, n_lost, n_undisturbed = counts[3], counts[8], counts[6]
    assert n_touched + n_lost > 0
    assert n_undisturbed == 0, shown.err
