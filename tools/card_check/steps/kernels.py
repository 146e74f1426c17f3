"""The kernels of the card with their energy: Mansard's plan "brief", then sizes between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from mansard.core.errors import MansardError
from mansard.device.identity import identify
from mansard.device.power_modes.selection import choose_modes
from mansard.device.system import SYSTEM_ROOT
from mansard.measuring.measurer import LocalMeasurer
from mansard.measuring.run_writer import SweepState
from mansard.measuring.runner import run_plan
from mansard.microbench.cuda.trial_specs import gpu_trials
from mansard.microbench.kernel import TrialSpec
from mansard.microbench.plan import KernelPlan, make_plan
from tools.card_check.energy import N_CHANGED
from tools.card_check.opening import Card
from tools.card_check.words import words_of
from tools.card_check.workfolder import WorkFolder

Say: TypeAlias = Callable[[str], None]
_LONGEST_TRIAL_S = 5.0  # no trial starts so close to the end of the step
_LEAST_BYTES = 4e6  # of a set between those of the levels: whole rounds of every thread


class OutOfTimeError(Exception):
    """The step's time is up, and the trials that are done are on disk."""


def measure_kernels(card: Card, work: WorkFolder, seconds: float, say: Say) -> dict[str, Any]:
    """Run the plan as far as the time allows; what was left out, and why.

    The number of planned trials is written first: if the step is killed, the table shows how many
    are missing.
    """
    plan = plan_kernels(card)
    found = {"n_planned": len(plan.trials), "problems": ["the step was ended"]}
    work.write("kernels", found)
    return found | _measure(plan, card, work, seconds, say)


def _measure(
    plan: KernelPlan, card: Card, work: WorkFolder, seconds: float, say: Say
) -> dict[str, Any]:
    problem, title = _run(plan, card, work, time.monotonic() + seconds - _LONGEST_TRIAL_S, say)
    found: dict[str, Any] = {"problems": []}
    if problem:
        found["problems"].append(f"the plan of {len(plan.trials)} trials ended: {problem}")
    if title is not None:
        found["ended_in"] = title  # only a new process can go on
    return found


def plan_kernels(card: Card) -> KernelPlan:
    """Mansard's plan "brief" of the card as it is, and then sizes between those of its levels.

    A window has eight values of the meter instead of 20: a counter that moves every 100 ms would
    ask for 2 s of each trial, of eighty more than there is.
    """
    machine = identify()
    if card.is_software:
        machine = msgspec.structs.replace(machine, is_simulated=True)
    mode = choose_modes("", SYSTEM_ROOT, machine)[0]  # as it is: nothing is set
    brief = make_plan(machine, mode, "brief", card.probe)
    protocol = msgspec.structs.replace(brief.protocol, n_changed_min=N_CHANGED)
    trials = (*brief.trials, *sizes_between(card, brief))
    return msgspec.structs.replace(brief, protocol=protocol, trials=trials)


def measure_rest(card: Card, work: WorkFolder, seconds: float, say: Say) -> dict[str, Any] | None:
    """What is left of the plan, without the kernel that ended it; None: nothing is."""
    left = _left(plan_kernels(card), work, (work.read("kernels") or {}).get("ended_in"))
    return _measure(left, card, work, seconds, say) if left.trials else None


def _left(plan: KernelPlan, work: WorkFolder, without: str | None) -> KernelPlan:
    done = {row.trial_id for row in work.kernel_rows()}
    lost = {(one.kernel, one.backend) for one in plan.trials if one.title == without}
    left = [
        one
        for one in plan.trials
        if one.trial_id not in done and (one.kernel, one.backend) not in lost
    ]
    return msgspec.structs.replace(plan, trials=tuple(left))


def sizes_between(card: Card, brief: KernelPlan) -> tuple[TrialSpec, ...]:
    """Of the plan "quick" what tells levels apart: sizes inside L2, and a copy."""
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
    return tuple(one for one in quick if is_wanted(one) and one.trial_id not in known)


def _run(
    plan: KernelPlan, card: Card, work: WorkFolder, end_s: float, say: Say
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
        run_plan(
            plan, work.runs, measurer=LocalMeasurer(card.meters, kind=card.kind), on_progress=look
        )
    except OutOfTimeError:
        return "out of time", None
    except MansardError as error:
        return words_of(error), title or ""
    return "", None
