"""Measuring the modes of one board, with progress; the board is put back afterwards."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from mansard.core.errors import (
    BusyError,
    ContainerError,
    ControllerLost,
    DeniedError,
    DeviceError,
    UsageError,
)
from mansard.core.records import PowerMode
from mansard.core.text import listed, printable
from mansard.measuring.attempts import doubtful_trials
from mansard.measuring.plan import PlannedTrial, RunPlan
from mansard.measuring.protocol import sweep_time
from mansard.measuring.runner import missing_trials, run_plan
from mansard.sweeps.outcomes import modes_needing_reboot, note_denied, note_doubts, note_outcome
from mansard.sweeps.reporter import (
    WAITING,
    ProgressDisplay,
    ProgressStage,
    Reporter,
    SilentReporter,
    TimeLeft,
    format_duration,
    prior_s,
)
from mansard.sweeps.targets import BenchTarget

if TYPE_CHECKING:
    from mansard.device.controller import Holding
    from mansard.inference.engine_files import EngineFiles
    from mansard.measuring.events import Measurer
    from mansard.measuring.run_writer import SweepState

_MOST_NAMED = 3  # measurements without a bound on their time that are listed by name
_TURN_S = 0.5  # between checks whether another sweep has ended
_SILENT_S = 3.0  # of waiting, after which a caller without a reporter is warned
_LEFT_ALONE = frozenset({"cores", "present"})  # kinds of modes that change no setting


class Identity(msgspec.Struct, frozen=True):
    """What tells runs of one plan apart."""

    label: str = ""  # of a build or commit
    is_again: bool = False  # measure one more run beside the others


class ModePlan(msgspec.Struct, frozen=True):
    """What is to be measured in one mode, and which of its trials are missing.

    ``doubts``: of the missing trials those that have a row, and why they are measured again.
    ``files``: folder of the files that the plan names; ``write_files`` writes those of the missing
    trials into it. ``subject``: what is measured, for progress; empty for kernels. ``is_bounded``:
    whether the protocol bounds the duration of a trial; if not, ``least_s`` is its minimum.
    ``n_after``: trials that later sweeps will measure. ``how_to_repeat``: how to measure it again,
    in words.
    """

    plan: RunPlan
    missing: tuple[PlannedTrial, ...]  # in the order of the plan
    files: Path | None = None
    write_files: Callable[[], object] | None = None
    subject: str = ""
    is_bounded: bool = True
    least_s: float = 0.0
    n_after: int = 0
    how_to_repeat: str = "add --again"  # empty: move its folder away
    doubts: Mapping[str, str] = {}
    is_virtual: bool = False  # kernels on the stand-in for the GPU of a simulated board
    engine_files: EngineFiles | None = None  # of a run of builds: where its files are kept

    @property
    def n_missing(self) -> int:
        """How many trials are to be measured."""
        return len(self.missing)

    @property
    def title(self) -> str:
        """The mode, and what is measured in it."""
        name = printable(self.plan.mode.name)
        return f"{name}, {self.subject}" if self.subject else name


class Measured(msgspec.Struct, frozen=True):
    """The runs of a sweep in the order of its plans, and the modes that could not be measured."""

    run_ids: tuple[str, ...]
    failed: tuple[str, ...]


def plan_modes(
    make: Callable[[PowerMode], RunPlan],
    modes: Sequence[PowerMode],
    runs: Path,
    identity: Identity,
) -> list[ModePlan]:
    """What ``make`` plans for each mode, in their order; raises what it raises."""
    return [plan_run(make(mode), runs, identity) for mode in modes]


def plan_run(plan: RunPlan, runs: Path, identity: Identity, **fields: Any) -> ModePlan:
    """What ``runs`` lacks of a plan, or does not know well; ``fields``: of ``ModePlan``.

    It is the newest run of the plan, or the next one where it is to be measured again.
    """
    plan = _newest_plan(msgspec.structs.replace(plan, label=identity.label), runs, identity)
    missing = missing_trials(plan, runs)
    # An interrupted run is finished first; the next command looks at what is not known well.
    doubts = {} if missing else doubtful_trials(plan, runs)
    again = tuple(trial for trial in plan.trials if trial.trial_id in doubts)
    return ModePlan(plan, missing or again, doubts=doubts, **fields)


def _newest_plan(plan: RunPlan, runs: Path, identity: Identity) -> RunPlan:
    is_there = bool(plan.trials) and not missing_trials(plan, runs)  # an empty plan has no run
    while is_there:
        later = msgspec.structs.replace(plan, repeat=plan.repeat + 1)
        is_there = not missing_trials(later, runs)
        if is_there or identity.is_again:
            plan = later
    return plan


def time_cap_s(plans: Sequence[ModePlan]) -> float:
    """The maximum duration of measuring what is missing, in seconds."""
    return sweep_time([(planned.plan.protocol, planned.n_missing) for planned in plans])


def describe_time(plans: Sequence[ModePlan]) -> str:
    """How much is to be measured, and its maximum duration, in words."""
    bounded = [planned for planned in plans if planned.is_bounded]
    beside = dict.fromkeys(
        planned.subject or "kernels"
        for planned in plans
        if planned.n_missing and not planned.is_bounded
    )
    n_modes = len({planned.plan.mode.name for planned in bounded or plans if planned.n_missing})
    modes = "1 mode" if n_modes == 1 else f"{n_modes} modes"
    if not bounded:
        least_s = sum(planned.n_missing * planned.least_s for planned in plans)
        least = f": at least {format_duration(least_s)}" if least_s else ""
        return f"{modes} to {'simulate' if plans and plans[0].is_virtual else 'measure'}{least}"
    n_missing = sum(planned.n_missing for planned in bounded)
    longest = format_duration(time_cap_s(bounded))
    trials = "1 trial" if n_missing == 1 else f"{n_missing} trials"
    names = [*beside][:_MOST_NAMED]
    more = [f"{len(beside) - len(names)} more"] if len(beside) > len(names) else []
    others = f"; the duration of {listed([*names, *more])} is unknown" if beside else ""
    return f"{modes}, {trials} to measure: up to {longest}, longer on a busy machine{others}"


def measure_modes(
    plans: Sequence[ModePlan], target: BenchTarget, runs: Path, reporter: Reporter
) -> Measured:
    """Measure what ``runs`` does not hold yet of every mode, and put the board back.

    Modes that need a reboot are left out with a note. So are modes that cannot be set for another
    reason, and these count as failed. Raises DeviceError if nothing is left to measure.
    """
    run_ids: dict[str, None] = {}
    failed: list[str] = []
    denied: dict[str, DeniedError] = {}
    n_modes = len({planned.plan.mode.name for planned in plans})
    _send_files(plans, target, reporter)
    with ExitStack() as stack:
        holding = None
        if any(needs_setting(planned.plan.mode) and planned.n_missing for planned in plans):
            holding = stack.enter_context(target.controller.hold())
            for line in holding.left_behind:
                reporter.note(line)
            plans = _without_reboots(plans, holding, reporter)
        elif any(planned.n_missing for planned in plans):
            _wait_for_turn(stack, target, reporter)
        if any(planned.n_missing for planned in plans):
            reporter.note(describe_time(plans))
        setter, left = _Setter(holding), TimeLeft([_stage(planned) for planned in plans])
        for number, planned in enumerate(plans):
            if planned.plan.mode.name in failed:
                continue
            left.begin(number)
            try:
                run_ids[_measure_mode(planned, setter, target, runs, reporter, left)] = None
            except (ContainerError, DeviceError, UsageError) as error:
                if (n_modes == 1 and not run_ids) or isinstance(error, ControllerLost):
                    raise
                failed.append(planned.plan.mode.name)
                if isinstance(error, DeniedError):
                    denied[planned.plan.mode.name] = error
                else:
                    reporter.note(f"{planned.plan.mode.name}: left out: {error}")
    note_denied(denied, n_plans=n_modes, reporter=reporter)
    return Measured(tuple(run_ids), tuple(failed))


def _send_files(plans: Sequence[ModePlan], target: BenchTarget, reporter: Reporter) -> None:
    """Write and send files before a mode is set: no mode is holding while gigabytes are copied."""
    for planned in plans:
        if planned.write_files and planned.n_missing:
            planned.write_files()
    for files in sorted({plan.files for plan in plans if plan.files and plan.n_missing}):
        target.send(files, reporter)


class _Setter:
    """Sets each mode once for all plans in it; ``holding`` None: no mode is set."""

    def __init__(self, holding: Holding | None) -> None:
        self._holding = holding
        self._mode: PowerMode | None = None
        self._read_back: PowerMode | None = None

    def set(self, mode: PowerMode) -> tuple[PowerMode | None, Callable[[], tuple[str, ...]] | None]:
        """The mode as it was read back, and what returns how it has changed since."""
        if self._holding is None or not needs_setting(mode):
            return None, None
        if mode != self._mode:
            self._mode = None  # until it is set
            self._read_back = self._holding.set(mode)
            self._mode = mode
        return self._read_back, self._holding.changes


def _wait_for_turn(stack: ExitStack, target: BenchTarget, reporter: Reporter) -> None:
    """Hold the machine until ``stack`` is closed: two sweeps at once would disturb each other.

    A caller without a reporter is told of a wait by Python's warnings.
    """
    is_reported, begun_s = False, time.monotonic()
    is_silent = getattr(reporter.note, "__func__", None) is SilentReporter.note
    while True:
        try:
            stack.enter_context(target.controller.hold(is_set=False))
        except BusyError as error:
            where = f"{error.where}: " if error.where else ""
            line = f"{where}{error.what}{WAITING}"
            if not is_reported and not is_silent:
                reporter.note(line)
                is_reported = True
            elif not is_reported and time.monotonic() - begun_s > _SILENT_S:
                warnings.warn(line, stacklevel=2)
                is_reported = True
            time.sleep(_TURN_S)
        else:
            return


def needs_setting(mode: PowerMode) -> bool:
    """Whether measuring in ``mode`` changes a setting of the machine."""
    return mode.kind not in _LEFT_ALONE or mode.cpu_hz is not None


def _measure_mode(
    planned: ModePlan,
    setter: _Setter,
    target: BenchTarget,
    runs: Path,
    reporter: Reporter,
    left: TimeLeft,
) -> str:
    engine_files = planned.engine_files
    if planned.doubts:
        note_doubts(planned.title, planned.plan, planned.doubts, reporter)
    read_back, changes = setter.set(planned.plan.mode) if planned.n_missing else (None, None)
    verb = "Simulating" if planned.is_virtual else "Measuring"
    with reporter.progress(f"{verb} {planned.title}") as progress:
        outcome = run_plan(
            planned.plan,
            runs,
            measurer=_measurer(planned, target),
            read_back=read_back,
            changes=changes,
            image=target.image,
            again=planned.doubts.keys(),
            is_there=lambda row: (
                engine_files is None or engine_files.find(row.engine_file) is not None
            ),
            on_progress=partial(_show, progress, left),
        )
    words = (planned.title, planned.how_to_repeat)
    note_outcome(words, len(planned.doubts), outcome, runs, reporter)
    return outcome.run_id


def _measurer(planned: ModePlan, target: BenchTarget) -> Measurer:
    if planned.engine_files is not None and planned.files is not None:
        return target.builder(planned.files, planned.engine_files)
    return target.measurer(planned.files if planned.n_missing else None)


def _stage(planned: ModePlan) -> ProgressStage:
    """The missing trials of one mode."""
    known = planned.least_s or (prior_s(planned.plan.protocol) if planned.is_bounded else 0)
    titles = [trial.title for trial in planned.missing]
    return ProgressStage(planned.subject, titles, known, n_after=planned.n_after)


def _show(progress: ProgressDisplay, left: TimeLeft, state: SweepState) -> None:
    """Show the progress of a run, with the time left for it and for what follows."""
    n_left = state.n_total - state.n_done
    progress.update(state.n_done, state.n_total, left.remaining_s(n_left), state.now)


def _without_reboots(
    plans: Sequence[ModePlan], holding: Holding, reporter: Reporter
) -> list[ModePlan]:
    """The plans whose modes can be set and undone without a reboot; raises DeviceError if none."""
    missing = [planned.plan for planned in plans if planned.n_missing]
    left_out = modes_needing_reboot(missing, holding, reporter)
    settable = [
        planned
        for planned in plans
        if planned.plan.mode.kind != "nvpmodel" or planned.plan.mode.name not in left_out
    ]
    if not settable:
        raise DeviceError(
            "every mode asked for needs a reboot",
            fix="set one with 'sudo nvpmodel -m', reboot, and measure the board as it is then",
        )
    return settable
