"""Running the plan of each power mode, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.cli.console import Progress, note, show_progress
from mansard.core.records import MachineIdentity, PowerMode

if TYPE_CHECKING:
    from mansard.microbench.runner import Outcome, SweepState


def measure_modes(
    machine: MachineIdentity, modes: Sequence[PowerMode], profile: str, runs: Path
) -> set[str]:
    """Measure what ``runs`` does not hold yet of every mode; returns the ids of their runs."""
    from mansard.device.meters.meter import find_meters
    from mansard.microbench.plan import make_plan
    from mansard.microbench.runner import count_missing, run_plan

    meters = find_meters()
    plans = [make_plan(machine, mode, profile) for mode in modes]
    missing = [count_missing(plan, runs) for plan in plans]
    run_ids = set()
    for number, plan in enumerate(plans):
        with show_progress(f"Measuring {plan.mode.name}") as progress:
            show = partial(_show, progress, sum(missing[number + 1 :]))
            outcome = run_plan(plan, runs, meters=meters, on_progress=show)
        run_ids.add(outcome.run_id)
        _say_what_happened(plan.mode.name, outcome)
    return run_ids


def _show(progress: Progress, n_later: int, state: SweepState) -> None:
    """Show a sweep with the time left for it and for ``n_later`` trials of later modes."""
    remaining_s = state.remaining_s
    n_left = state.n_total - state.n_done
    if remaining_s is not None and n_left:
        remaining_s *= (n_left + n_later) / n_left
    progress.update(state.n_done, state.n_total, remaining_s, state.now)


def _say_what_happened(mode: str, outcome: Outcome) -> None:
    if outcome.torn_path is not None:
        note(f"note: a half-written row of an earlier run is kept in {outcome.torn_path}")
    if outcome.n_measured == 0:
        note(f"{mode}: already measured, nothing to do ({outcome.folder})")
    elif outcome.n_resumed:
        note(f"{mode}: resumed, {outcome.n_resumed} trials were already there")
