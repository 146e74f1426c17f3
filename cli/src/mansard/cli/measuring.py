"""Running the plan of each power mode, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mansard.cli.console import Progress, note, show_progress
from mansard.core.records import MachineIdentity, PowerMode

if TYPE_CHECKING:
    from mansard.microbench.runner import SweepState


def measure_modes(
    machine: MachineIdentity, modes: Sequence[PowerMode], profile: str, runs: Path
) -> set[str]:
    """Measure what ``runs`` does not hold yet of every mode; returns the ids of their runs."""
    from mansard.device.meters.meter import find_meters
    from mansard.microbench.plan import make_plan
    from mansard.microbench.runner import run_plan

    meters = find_meters()
    run_ids = set()
    for mode in modes:
        plan = make_plan(machine, mode, profile)
        with show_progress(f"Measuring {mode.name}") as progress:
            outcome = run_plan(
                plan,
                runs,
                meters=meters,
                on_progress=partial(_show, progress),
            )
        run_ids.add(outcome.run_id)
        if outcome.torn_path is not None:
            note(f"note: a half-written row of an earlier run is kept in {outcome.torn_path}")
        if outcome.n_measured == 0:
            note(f"{mode.name}: already measured, nothing to do ({outcome.folder})")
        elif outcome.n_resumed:
            note(f"{mode.name}: resumed, {outcome.n_resumed} trials were already there")
    return run_ids


def _show(progress: Progress, state: SweepState) -> None:
    progress.update(state.n_done, state.n_total, state.remaining_s, state.now)
