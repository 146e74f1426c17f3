"""The kind of measurement "programs": a command runs until its time is known, and is metered."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import msgspec

from mansard.core.errors import ProgramFailed, StorageError
from mansard.core.records import (
    EnergyWindow,
    NamedWindow,
    ProgramRepetition,
    ProgramRun,
)
from mansard.core.storage.leftovers import temporary_folder
from mansard.device.conditions import of_others
from mansard.device.meters.meter import Meters
from mansard.device.meters.sampler import Sampler
from mansard.inference.programs.execution import Execution, execute
from mansard.inference.programs.metric import compile_metric
from mansard.inference.programs.plan import ProgramPlan, ProgramTrial
from mansard.inference.programs.windows import WindowLine, read_windows
from mansard.measuring.identity import variable_marks
from mansard.measuring.instruments import Instruments, Observation
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.metering import energy_between
from mansard.measuring.protocol import Protocol
from mansard.measuring.sampling import relative_half_width

MOST_WINDOWS = 10_000  # of one run; those after them are left out
# The energy of a stretch between two monotonic times, or why there is none.
EnergyOf: TypeAlias = Callable[[float, float], tuple[EnergyWindow | None, str]]


class Passing(msgspec.Struct, frozen=True):
    """Where a program's input, output and remarks go; not part of the plan."""

    say: Callable[[str], object] = lambda _line: None  # called with each remark
    stdout: int = 1  # the descriptor that the program's standard output goes to
    command: tuple[str, ...] = ()  # with its secrets; by default that of the plan
    input_at: int | None = None  # where each run reads standard input from: ``find_input``


def program_kind(passing: Passing = Passing()) -> MeasurementKind[ProgramPlan, ProgramRun]:  # noqa: B008
    """The kind "programs"."""
    opening = partial(_open, passing=passing)
    return MeasurementKind(
        "programs", ProgramPlan, ProgramRun, opening, rows_name="programs.jsonl", is_private=True
    )


@contextmanager
def _open(plan: ProgramPlan, passing: Passing) -> Iterator[Opened[ProgramRun]]:
    def measure(spec: ProgramTrial, instruments: Instruments) -> ProgramRun:
        return measure_program(spec, plan, instruments, passing)

    yield Opened(measure, plan.gpu, plan.unknown.get("gpu", ""))


def measure_program(
    spec: ProgramTrial,
    plan: ProgramPlan,
    instruments: Instruments,
    passing: Passing = Passing(),  # noqa: B008
) -> ProgramRun:
    """Run a program as often as the protocol requires; raises ProgramFailed, MeasurementError.

    A run that fails ends the trial, and nothing of it is stored.
    """
    with (
        temporary_folder() as folder,
        Observation(instruments, plan) as seen,
        Sampler(instruments.meters) as sampler,
    ):
        repetitions, interval, problem = _repeat(spec, plan, passing, sampler, instruments, folder)
    for sample in sampler.samples:
        instruments.keep(sample)
    return ProgramRun(
        run_id=plan.run_id,
        trial_id=spec.trial_id,
        source="simulated" if plan.machine.is_simulated else "measured",
        workload=spec.workload,
        command=spec.command,
        folder=spec.folder,
        program_hash=spec.program_hash,
        metric_pattern=spec.metric_pattern,
        environment=spec.environment,
        depends=plan.depends,
        surroundings=variable_marks(spec.environment),
        repetitions=tuple(repetitions),
        stability="unstable" if problem else "stable",
        stability_interval=interval,
        conditions=seen.conditions,
        disturbances=of_others(seen.conditions, instruments.mode),
        started_utc=seen.started_utc,
        duration_s=seen.duration_s,
        unknown=_reasons(spec, interval, problem),
    )


def _repeat(
    spec: ProgramTrial,
    plan: ProgramPlan,
    passing: Passing,
    sampler: Sampler,
    instruments: Instruments,
    folder: Path,
) -> tuple[list[ProgramRepetition], float | None, str]:
    """The runs of a program, the interval of their wall times, and what is still missing."""
    pattern = None if spec.metric_pattern is None else compile_metric(spec.metric_pattern)
    repetitions: list[ProgramRepetition] = []
    start_s = time.monotonic()
    while True:
        folder.mkdir(exist_ok=True)  # an earlier run may have emptied /tmp
        # A new name: an earlier run may have replaced its file by anything.
        lines = folder / f"windows-{len(repetitions)}"
        lines.write_bytes(b"")
        sampler.read()
        ran = execute(
            passing.command or spec.command,
            spec.folder,
            lines,
            pattern=pattern,
            stdout=passing.stdout,
            input_at=passing.input_at,
        )
        sampler.read_past(ran.end_s)
        _check_success(ran, spec, len(repetitions))
        windows = _read_windows(lines, ran, passing.say)
        repetitions.append(_repetition(ran, windows, sampler, instruments.meters, plan.protocol))
        if ran.n_ended:
            passing.say(
                f"{ran.n_ended} processes that the program left behind were ended: {ran.ended}"
            )
        walls_s = [repetition.wall_s for repetition in repetitions]
        interval = relative_half_width(walls_s)
        problem = _missing(walls_s, interval, plan.protocol)
        end_s = time.monotonic() + max(walls_s) - start_s  # of one more run
        is_over = (
            end_s > plan.protocol.time_cap_s and len(repetitions) >= plan.protocol.n_blocks_min
        )
        if not problem or is_over:
            return repetitions, interval, problem


def _check_success(ran: Execution, spec: ProgramTrial, n_before: int) -> None:
    if ran.exit_code == 0:
        return
    which = "" if n_before == 0 else f" in its run {n_before + 1}"
    raise ProgramFailed(
        f"ended with exit code {ran.exit_code}{which}; nothing is kept of it",
        ran.exit_code,
        where=spec.workload,
        fix="the same command measures it again",
    )


def _missing(walls_s: Sequence[float], interval: float | None, protocol: Protocol) -> str:
    """What the protocol still requires; empty when it is satisfied."""
    if len(walls_s) < protocol.n_blocks_min:
        return f"only {len(walls_s)} runs of {protocol.n_blocks_min}"
    if len(walls_s) < protocol.n_accepted_min or interval is None:
        return f"{len(walls_s)} runs, and an interval needs {protocol.n_accepted_min}"
    if interval > protocol.stream_interval:
        return f"the runs differ: ±{interval:.1%} (limit ±{protocol.stream_interval:.1%})"
    return ""


def _reasons(spec: ProgramTrial, interval: float | None, problem: str) -> dict[str, str]:
    unknown = {}
    if spec.metric_pattern is None:
        unknown["metric_pattern"] = spec.unknown["metric_pattern"]
    if interval is None:
        unknown["stability_interval"] = problem
    return unknown


def _read_windows(
    lines: Path, ran: Execution, say: Callable[[str], object]
) -> Sequence[WindowLine]:
    """The windows that a run of the program wrote and that lie within it."""
    try:
        windows = read_windows(lines)
    except (OSError, StorageError) as error:
        why = str(error) if lines.is_file() else "the program removed the file of its windows"
        say(f"{why}: no window is known")
        return ()
    within = [
        window
        for window in windows
        if ran.start_s <= window.start_ns / 1e9 and window.end_ns / 1e9 <= ran.end_s
    ]
    if len(within) < len(windows):
        say("windows outside this run were left out; start and end must be CLOCK_MONOTONIC times")
    if len(within) > MOST_WINDOWS:
        say(f"{len(within)} windows in one run: the first {MOST_WINDOWS} are kept")
    return within[:MOST_WINDOWS]


def _repetition(
    ran: Execution,
    windows: Sequence[WindowLine],
    sampler: Sampler,
    meters: Meters,
    protocol: Protocol,
) -> ProgramRepetition:
    energy_of = partial(energy_between, sampler, meters, protocol.n_changed_min)
    energy, why = energy_of(ran.start_s, ran.end_s)
    peak_w, why_no_peak = None, why
    if energy is not None:
        peak_w, why_no_peak = _peak(sampler, meters, energy)
    unknown: dict[str, str] = {}
    if ran.peak_memory_bytes is None:
        unknown["peak_memory_bytes"] = "below the memory of the supervisor process"
    if energy is None:
        unknown["energy"] = why
    if peak_w is None:
        unknown["peak_w"] = why_no_peak
    if ran.metric is None:
        unknown["metric"] = "none was asked for"
    return ProgramRepetition(
        start_s=ran.start_s,
        wall_s=ran.end_s - ran.start_s,
        user_s=ran.user_s,
        system_s=ran.system_s,
        peak_memory_bytes=ran.peak_memory_bytes,
        energy=energy,
        peak_w=peak_w,
        metric=ran.metric,
        windows=tuple(_named(line, energy_of) for line in windows),
        figures=ran.figures,
        unknown=unknown,
    )


def _named(line: WindowLine, energy_of: EnergyOf) -> NamedWindow:
    start_s, end_s = line.start_ns / 1e9, line.end_ns / 1e9
    energy, why = energy_of(start_s, end_s)
    return NamedWindow(
        name=line.name,
        start_s=start_s,
        window_s=end_s - start_s,
        energy=energy,
        unknown={} if energy is not None else {"energy": why},
    )


def _peak(sampler: Sampler, meters: Meters, energy: EnergyWindow) -> tuple[float | None, str]:
    """The highest power of the total at any reading of a run, or why it is not known.

    Readings that give no ``energy`` for the run give no peak: the highest may be the faulty one.
    """
    if energy.total_j is None or meters.total is None:
        return None, energy.unknown.get("total_j", meters.why_no_total)
    rails = [rail for meter in meters.found for rail in meter.rails]
    samples = sampler.between(energy.start_s, energy.start_s + energy.window_s)
    # A reading has one sample of each rail, in this order; the run may begin within one.
    first = next((at for at, sample in enumerate(samples) if sample.rail == rails[0]), 0)
    sums_w: list[float] = []
    for at in range(first, len(samples) - len(rails) + 1, len(rails)):
        powers_w = [
            sample.power_w
            for sample in samples[at : at + len(rails)]
            if sample.rail in meters.total.rails
        ]
        if None not in powers_w:
            sums_w.append(sum(filter(None, powers_w)))
    if not sums_w:
        return None, "no reading of power of all its rails lies within the run"
    return max(sums_w), ""


PROGRAMS = program_kind()
