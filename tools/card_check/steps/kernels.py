"""The kernels of the card: Mansard's plan "brief" with energy, then sizes between without."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from mansard.core.errors import MansardError
from mansard.device.identity import identify
from mansard.device.meters.meter import NO_METERS, Meters
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.run_writer import SweepState
from mansard.measuring.runner import run_plan
from mansard.microbench.cuda.trials import gpu_trials
from mansard.microbench.plan import KernelPlan, TrialSpec
from mansard.microbench.planning import make_plan
from tools.card_check.opening import Card
from tools.card_check.words import words_of
from tools.card_check.workfolder import WorkFolder

Say: TypeAlias = Callable[[str], None]
_N_CHANGED = 8  # values of the meter in a window: its error at most stands beside its energy
_LEAST_BYTES = 4e6  # of a set between those of the levels: whole rounds of every thread


class OutOfTimeError(Exception):
    """The step's time is up, and the trials that are done are on disk."""


def measure_kernels(
    card: Card, work: WorkFolder, seconds: float, say: Say, without: str | None = None
) -> dict[str, Any]:
    """Run both plans as far as the time allows; what was left out, and why.

    ``without``: the title of trials that are not tried again, for one of them took the GPU along.
    """
    end_s = time.monotonic() + seconds
    machine = identify()
    mode = choose_modes("", SYSTEM_ROOT, machine)[0]  # as it is: nothing is set
    brief = in_time(make_plan(machine, mode, "brief", card.probe))
    between = sizes_between(card, brief)
    found: dict[str, Any] = {"n_planned": len(brief.trials) + len(between.trials), "problems": []}
    for plan, meters in ((brief, card.meters), (between, NO_METERS)):
        left = plan if without is None else _left(plan, work, without)
        problem, title = _run(left, meters, card, work, end_s, say)
        if problem:
            found["problems"].append(f"the plan of {len(left.trials)} trials ended: {problem}")
        if title is not None:
            found["ended_in"] = title
            break  # only a new process can go on
    return found


def in_time(plan: KernelPlan) -> KernelPlan:
    """With windows of eight values of the meter instead of 20.

    A counter that moves every 100 ms would ask for 2 s of each trial: of sixty more than there is.
    """
    protocol = msgspec.structs.replace(plan.protocol, n_changed_min=_N_CHANGED)
    return msgspec.structs.replace(plan, protocol=protocol)


def measure_rest(card: Card, work: WorkFolder, seconds: float, say: Say) -> dict[str, Any]:
    """What is left of both plans after a trial that took the GPU along, without that one."""
    return measure_kernels(card, work, seconds, say, work.read("kernels")["ended_in"])


def _left(plan: KernelPlan, work: WorkFolder, without: str) -> KernelPlan:
    done = {row.trial_id for row in work.kernel_rows()}
    left = [one for one in plan.trials if one.trial_id not in done and one.title != without]
    return msgspec.structs.replace(plan, trials=tuple(left))


def sizes_between(card: Card, brief: KernelPlan) -> KernelPlan:
    """Of the plan "quick" what tells levels apart: sizes inside L2, and a copy; without energy."""
    l2_bytes = card.gpu.l2_bytes or 0

    def is_wanted(trial: TrialSpec) -> bool:
        if trial.backend != "cupy" or trial.operands != "chaotic" or trial.scope != "gpu":
            return False
        if trial.kernel == "copy":
            return trial.working_set_bytes > 8 * l2_bytes
        in_l2 = _LEAST_BYTES < trial.working_set_bytes < 1.5 * l2_bytes
        return trial.kernel in {"read", "latency"} and in_l2

    quick = gpu_trials(card.gpu, "quick", card.versions)
    known = {trial.trial_id for trial in brief.trials}
    wanted = tuple(one for one in quick if is_wanted(one) and one.trial_id not in known)
    unmetered = msgspec.structs.replace(brief.protocol, n_energy_windows=0, settle_cap_s=0.0)
    return msgspec.structs.replace(brief, profile="quick", trials=wanted, protocol=unmetered)


def _run(
    plan: KernelPlan, meters: Meters, card: Card, work: WorkFolder, end_s: float, say: Say
) -> tuple[str, str | None]:
    """Why the plan ended early, and in which trial where the GPU was lost."""
    title: str | None = None

    def look(state: SweepState) -> None:
        nonlocal title
        title = state.now
        say(f"{state.n_done}/{state.n_total} {state.now}")
        if time.monotonic() > end_s and state.n_done < state.n_total:
            raise OutOfTimeError

    try:
        run_plan(plan, work.runs, measurer=LocalMeasurer(meters, kind=card.kind), on_progress=look)
    except OutOfTimeError:
        return "out of time", None
    except MansardError as error:
        return words_of(error), title or ""
    return "", None
