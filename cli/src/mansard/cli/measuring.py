"""Measuring the modes of one board, with progress; the board is put back afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.cli.console import Progress, format_duration
from mansard.cli.reboots import without_reboots
from mansard.cli.voice import Voice
from mansard.core.errors import ContainerError, DeviceError, UsageError
from mansard.core.records import MachineIdentity, PowerMode
from mansard.core.text import printable

if TYPE_CHECKING:
    from mansard.cli.places import Place
    from mansard.device.controller.controller import Holding
    from mansard.measuring.run_writer import SweepState
    from mansard.measuring.runner import Outcome
    from mansard.microbench.plan import Plan
    from mansard.microbench.probing import Probe

_LEFT_ALONE = frozenset({"cores", "present"})  # kinds of modes that change no setting


class ModePlan(msgspec.Struct, frozen=True):
    """What is to be measured in one mode, and how many of its trials are missing."""

    plan: Plan
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
    from mansard.microbench.plan import make_plan

    plans = [make_plan(machine, mode, profile, found) for mode in modes]
    return [ModePlan(plan, count_missing(plan, runs)) for plan in plans]


def time_cap_s(plans: Sequence[ModePlan]) -> float:
    """Seconds that measuring what is missing takes at most."""
    from mansard.device.choosing.sweep_time import sweep_time

    return sweep_time([(each.plan.protocol, each.n_missing) for each in plans])


def describe_time(plans: Sequence[ModePlan]) -> str:
    """How much is to be measured, and how long that takes at most, in words."""
    n_missing = sum(each.n_missing for each in plans)
    modes = "1 mode" if len(plans) == 1 else f"{len(plans)} modes"
    longest = format_duration(time_cap_s(plans))
    return f"{modes}, {n_missing} trials to measure: at most {longest}"


def measure_modes(plans: Sequence[ModePlan], place: Place, runs: Path, voice: Voice) -> Measured:
    """Measure what ``runs`` does not hold yet of every mode, and put the board back.

    Modes that need a reboot are left out with a note; one that cannot be set for another
    reason too, and counts as failed. Raises DeviceError if nothing is left to measure.
    """
    run_ids, failed = set(), []
    with ExitStack() as stack:
        held = None
        if any(needs_setting(each.plan.mode) and each.n_missing for each in plans):
            held = stack.enter_context(place.controller.hold())
            for line in held.left_behind:
                voice.note(line)
            plans = without_reboots(plans, held, voice)
        if any(each.n_missing for each in plans):
            voice.note(describe_time(plans))
        for number, each in enumerate(plans):
            n_later = sum(later.n_missing for later in plans[number + 1 :])
            try:
                run_ids.add(_measure_mode(each, held, place, runs, voice, n_later))
            except (ContainerError, DeviceError, UsageError) as error:
                if len(plans) == 1:
                    raise
                failed.append(each.plan.mode.name)
                voice.note(f"{each.plan.mode.name}: left out: {error}")
    return Measured(frozenset(run_ids), tuple(failed))


def needs_setting(mode: PowerMode) -> bool:
    """Whether measuring in ``mode`` changes a setting of the machine."""
    return mode.kind not in _LEFT_ALONE or mode.cpu_hz is not None


def _measure_mode(
    each: ModePlan, held: Holding | None, place: Place, runs: Path, voice: Voice, n_later: int
) -> str:
    from mansard.measuring.runner import run_plan

    mode = each.plan.mode
    read_back = None
    if held is not None and each.n_missing and needs_setting(mode):
        read_back = held.set(mode)
    with voice.progress(f"Measuring {printable(mode.name)}") as progress:
        outcome = run_plan(
            each.plan,
            runs,
            measurer=place.measurer(),
            read_back=read_back,
            image=place.image,
            on_progress=partial(_show, progress, n_later),
        )
    _say_what_happened(mode.name, outcome, voice)
    return outcome.run_id


def _show(progress: Progress, n_later: int, state: SweepState) -> None:
    """Show a sweep with the time left for it and for ``n_later`` trials of later modes."""
    remaining_s = state.remaining_s
    n_left = state.n_total - state.n_done
    if remaining_s is not None and n_left:
        remaining_s *= (n_left + n_later) / n_left
    progress.update(state.n_done, state.n_total, remaining_s, state.now)


def _say_what_happened(mode: str, outcome: Outcome, voice: Voice) -> None:
    if outcome.torn_path is not None:
        voice.note(f"note: a half-written row of an earlier run is kept in {outcome.torn_path}")
    if outcome.n_measured == 0:
        voice.note(f"{mode}: already measured, nothing to do ({outcome.folder})")
    elif outcome.n_resumed:
        voice.note(f"{mode}: resumed, {outcome.n_resumed} trials were already there")
