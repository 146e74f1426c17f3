"""A sweep that is killed 300 times at random moments loses no finished row.

The sweep runs in a forked child with a stub in place of the kernel's sampling
(the runner's own seam), so that a trial takes microseconds and kills hit the
writing of rows often. The child acknowledges each trial on a pipe when the
next one starts, which is after the row was synced: what was acknowledged must
be on disk.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import msgspec

from mansard.core.power_mode import core_count_mode
from mansard.core.records import Trial
from mansard.core.storage.jsonl import read_rows
from mansard.device.identity import identify
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.metering import EnergyMetering
from mansard.measuring.run_writer import SweepState
from mansard.measuring.runner import run_plan
from mansard.measuring.sampling import Samples
from mansard.microbench.kernel import TrialSpec
from mansard.microbench.plan import KernelPlan, make_plan
from mansard.microbench.trial import kernel_kind

N_KILLS, N_TRIALS = 300, 30


def stub_sampling(spec: TrialSpec, plan: KernelPlan, metering: EnergyMetering | None) -> Samples:
    # A long row, so that many kills fall into its writing.
    n_samples = 400
    return Samples(
        seconds_s=(0.25,) * n_samples,
        block=(0,) * n_samples,
        rejected_s=(),
        rejected_reason=(),
        repetitions_per_sample=1,
        stability="stable",
        stability_interval=0.0,
        stability_reason=None,
        interrupted=False,
    )


def make_sweep() -> KernelPlan:
    """Long enough to be killed many times, and short: all rows are read again after each kill."""
    plan = make_plan(identify(), core_count_mode(1), "full")
    return msgspec.structs.replace(plan, trials=plan.trials[:N_TRIALS])


def start_child(plan: KernelPlan, runs: Path) -> tuple[int, int]:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:

        def on_progress(state: SweepState) -> None:
            os.write(write_end, f"{state.n_done}\n".encode())

        code = 1
        try:
            run_plan(
                plan,
                runs,
                measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)),
                on_progress=on_progress,
            )
            code = 0
        finally:
            os._exit(code)
    os.close(write_end)
    return child, read_end


def kill_at_random(child: int, read_end: int, rng: random.Random) -> int:
    """Kill the child and return the last trial it acknowledged, 0 if none.

    One kill in four falls anywhere from its start on, the others within a few trials
    after the first acknowledgement.
    """
    with os.fdopen(read_end, "rb", buffering=0) as stream:
        heard = b""
        if rng.random() < 0.75:
            # By count, not by the clock: a loaded disk may finish no trial within 8 ms.
            n_wanted = rng.randint(2, 3)
            while heard.count(b"\n") < n_wanted and (more := stream.read(64)):
                heard += more
        time.sleep(rng.uniform(0, 0.008))
        os.kill(child, signal.SIGKILL)
        while more := stream.read(65536):
            heard += more
    lines = heard.splitlines()
    return int(lines[-1]) if lines else 0


def test_hundreds_of_kills_lose_no_finished_row(tmp_path: Path) -> None:
    plan = make_sweep()
    path = tmp_path / plan.run_id / "trials.jsonl"
    rng = random.Random(4)
    n_finished, n_kills, n_kills_at_work = 0, 0, 0
    while n_kills < N_KILLS:
        child, read_end = start_child(plan, tmp_path)
        acknowledged = kill_at_random(child, read_end, rng)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):  # it finished first: begin a new sweep
            assert os.waitstatus_to_exitcode(status) == 0
            assert len(read_rows(path, Trial).rows) == len(plan.trials)
            path.unlink()
            n_finished = 0
            continue
        n_kills += 1
        if not path.exists():
            assert acknowledged == 0
            continue
        rows = read_rows(path, Trial)
        ids = [row.trial_id for row in rows.rows]
        n_kills_at_work += acknowledged > n_finished
        assert len(ids) >= max(acknowledged, n_finished)
        assert ids == [spec.trial_id for spec in plan.trials[: len(ids)]]
        n_finished = len(ids)
    run_plan(plan, tmp_path, measurer=LocalMeasurer(kind=kernel_kind(stub_sampling)))
    rows = read_rows(path, Trial)
    assert [row.trial_id for row in rows.rows] == [spec.trial_id for spec in plan.trials]
    # Otherwise most children died before their first row, and the test showed nothing.
    assert n_kills_at_work > N_KILLS / 2
