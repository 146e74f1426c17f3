"""Measuring the modes of one board, with progress; the board is put back afterwards."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.api.reporter import ProgressDisplay, Reporter, format_duration
from mansard.api.targets import BenchTarget
from mansard.core.errors import (
    BusyError,
    ContainerError,
    ControllerLost,
    DeniedError,
    DeviceError,
    UsageError,
)
from mansard.core.records import MachineIdentity, PowerMode
from mansard.core.text import printable

if TYPE_CHECKING:
    from mansard.device.controller.controller import Holding
    from mansard.measuring.run_writer import SweepState
    from mansard.measuring.runner import RunOutcome
    from mansard.microbench.plan import KernelPlan
    from mansard.microbench.planning import Probe

_TURN_S = 0.5  # between two looks at whether another sweep has ended
_LEFT_ALONE = frozenset({"cores", "present"})  # kinds of modes that change no setting


class ModePlan(msgspec.Struct, frozen=True):
    """What is to be measured in one mode, and how many of its trials are missing."""

    plan: KernelPlan
    n_missing: int


class Measured(msgspec.Struct, frozen=True):
    """The runs of a sweep, and the modes that could not be measured."""

    run_ids: frozenset[str]
    failed: tuple[str, ...]


def plan_modes(
    machine: MachineIdentity,
    modes: Sequence[PowerMode],
    profile: str,
    runs: Path,
    found: Probe,
) -> list[ModePlan]:
    """The plan of each mode, in their order; raises UsageError."""
    from mansard.measuring.runner import count_missing
    from mansard.microbench.planning import make_plan

    plans = [make_plan(machine, mode, profile, found) for mode in modes]
    return [ModePlan(plan, count_missing(plan, runs)) for plan in plans]


def time_cap_s(plans: Sequence[ModePlan]) -> float:
    """Seconds that measuring what is missing takes at most."""
    from mansard.measuring.protocol import sweep_time

    return sweep_time([(each.plan.protocol, each.n_missing) for each in plans])


def describe_time(plans: Sequence[ModePlan]) -> str:
    """How much is to be measured, and how long that takes at most, in words."""
    n_missing = sum(each.n_missing for each in plans)
    modes = "1 mode" if len(plans) == 1 else f"{len(plans)} modes"
    longest = format_duration(time_cap_s(plans))
    return f"{modes}, {n_missing} trials to measure: at most {longest}"


def measure_modes(
    plans: Sequence[ModePlan], target: BenchTarget, runs: Path, reporter: Reporter
) -> Measured:
    """Measure what ``runs`` does not hold yet of every mode, and put the board back.

    Modes that need a reboot are left out with a note; one that cannot be set for another
    reason too, and counts as failed. Raises DeviceError if nothing is left to measure.
    """
    run_ids, failed = set(), []
    denied: dict[str, DeniedError] = {}
    with ExitStack() as stack:
        held = None
        if any(needs_setting(each.plan.mode) and each.n_missing for each in plans):
            held = stack.enter_context(target.controller.hold())
            for line in held.left_behind:
                reporter.note(line)
            plans = _without_reboots(plans, held, reporter)
        elif any(each.n_missing for each in plans):
            _wait_for_turn(stack, target, reporter)
        if any(each.n_missing for each in plans):
            reporter.note(describe_time(plans))
        for number, each in enumerate(plans):
            n_later = sum(later.n_missing for later in plans[number + 1 :])
            try:
                run_ids.add(_measure_mode(each, held, target, runs, reporter, n_later))
            except (ContainerError, DeviceError, UsageError) as error:
                if len(plans) == 1 or isinstance(error, ControllerLost):
                    raise
                failed.append(each.plan.mode.name)
                if isinstance(error, DeniedError):
                    denied[each.plan.mode.name] = error
                else:
                    reporter.note(f"{each.plan.mode.name}: left out: {error}")
    _note_denied(denied, n_plans=len(plans), reporter=reporter)
    return Measured(frozenset(run_ids), tuple(failed))


def _wait_for_turn(stack: ExitStack, target: BenchTarget, reporter: Reporter) -> None:
    """Have the machine alone until the end of ``stack``: two sweeps would measure each other."""
    is_told = False
    while True:
        try:
            stack.enter_context(target.controller.hold(is_set=False))
        except BusyError as error:
            if not is_told:
                where = f"{error.where}: " if error.where else ""
                reporter.note(f"{where}{error.what}; waiting until it has ended")
            is_told = True
            time.sleep(_TURN_S)
        else:
            return


def _note_denied(denied: Mapping[str, DeniedError], *, n_plans: int, reporter: Reporter) -> None:
    """One line for all modes that this user may not set; raises it where there is no other mode."""
    if not denied:
        return
    name, error = next(iter(denied.items()))
    if len(denied) == n_plans:
        raise error
    more = f" and {len(denied) - 1} more" if len(denied) > 1 else ""
    reporter.note(f"{name}{more}: left out: {error}")


def needs_setting(mode: PowerMode) -> bool:
    """Whether measuring in ``mode`` changes a setting of the machine."""
    return mode.kind not in _LEFT_ALONE or mode.cpu_hz is not None


def _measure_mode(
    each: ModePlan,
    held: Holding | None,
    target: BenchTarget,
    runs: Path,
    reporter: Reporter,
    n_later: int,
) -> str:
    from mansard.measuring.runner import run_plan

    mode = each.plan.mode
    read_back = changes = None
    if held is not None and each.n_missing and needs_setting(mode):
        read_back, changes = held.set(mode), held.changes
    with reporter.progress(f"Measuring {printable(mode.name)}") as progress:
        outcome = run_plan(
            each.plan,
            runs,
            measurer=target.measurer(),
            read_back=read_back,
            changes=changes,
            image=target.image,
            on_progress=partial(_show, progress, n_later),
        )
    _note_outcome(mode.name, outcome, reporter)
    return outcome.run_id


def _show(progress: ProgressDisplay, n_later: int, state: SweepState) -> None:
    """Show a sweep with the time left for it and for ``n_later`` trials of later modes."""
    remaining_s = state.remaining_s
    n_left = state.n_total - state.n_done
    if remaining_s is not None and n_left:
        remaining_s *= (n_left + n_later) / n_left
    progress.update(state.n_done, state.n_total, remaining_s, state.now)


def _note_outcome(mode: str, outcome: RunOutcome, reporter: Reporter) -> None:
    if outcome.torn_path is not None:
        reporter.note(f"note: a half-written row of an earlier run is kept in {outcome.torn_path}")
    if outcome.n_measured == 0:
        reporter.note(f"{mode}: already measured, nothing to do ({outcome.folder})")
    elif outcome.n_resumed:
        reporter.note(f"{mode}: resumed, {outcome.n_resumed} trials were already there")


def _without_reboots(
    plans: Sequence[ModePlan], held: Holding, reporter: Reporter
) -> list[ModePlan]:
    """The plans whose modes can be set now and left again; raises DeviceError if none is left.

    A mode that switches SMs on or off can be set only until CUDA has run, and once it has
    run in that mode only a reboot leads back: on the GPU such a mode is not even tried.
    """
    left_out = dict(held.needing_reboot([each.plan.mode for each in plans if each.n_missing]))
    for each in plans:
        gpu, n_sms = each.plan.gpu, each.plan.mode.n_sms
        if gpu is not None and n_sms is not None and n_sms != gpu.n_sms and each.n_missing:
            words = f"it has {n_sms} SMs on, now there are {gpu.n_sms}"
            left_out.setdefault(each.plan.mode.name, words)
    for name, words in left_out.items():
        reporter.note(f"{name}: left out, it needs a reboot: {words}")
    kept = [
        each
        for each in plans
        if each.plan.mode.kind != "nvpmodel" or each.plan.mode.name not in left_out
    ]
    if not kept:
        raise DeviceError(
            "every mode asked for needs a reboot",
            fix="set one with 'sudo nvpmodel -m', reboot, and measure the board as it is then",
        )
    return kept
