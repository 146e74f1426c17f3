"""Recommendations that measure what would settle them, one mode after the other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from mansard.analytics.data.names import display_name
from mansard.analytics.decisions.records import Wanted
from mansard.api.deciding.predictions import PredictionRequest, as_request
from mansard.api.deciding.recommendations import Answered, answer_questions
from mansard.api.inputs import Networks
from mansard.api.measurements import measure_networks, measure_program
from mansard.api.result import Result
from mansard.core.errors import MansardError, UsageError
from mansard.core.text import printable
from mansard.sweeps.networks import MeasureRequest
from mansard.sweeps.preparation import NetworkSettings
from mansard.sweeps.programs import ProgramRequest
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.sweep import DryRun, SweepRequest, dry_run_modes

if TYPE_CHECKING:
    from mansard.analytics.decisions.records import Recommendation
    from mansard.api.deciding.next_measurement import NextMeasurement

_STDERR = 2  # the file descriptor that programs write to, so that stdout has the answer alone
_DEFINITE = ("feasible", "infeasible")


class SettledMode(msgspec.Struct, frozen=True):
    """A mode that was measured to settle an answer."""

    device: str
    network: str
    mode: str


class SettledAnswer(Result, frozen=True):
    """The answers after the measurements, and which these were; ``failure`` ended them."""

    recommendations: tuple[Recommendation, ...]
    measured: tuple[SettledMode, ...]
    failure: MansardError | None
    planned: tuple[DryRun, ...] = ()  # of a dry run: the writes of the first measurement


def settle(
    request: PredictionRequest | Networks,
    wanted: Wanted | None = None,
    default: str | None = None,
    reporter: Reporter = SILENT,
    *,
    n_most: int = 5,
    profile: str = "quick",
    is_local: bool = False,
    is_dry_run: bool = False,
) -> SettledAnswer:
    """Recommend, and measure what would settle an open answer until every answer is definite.

    Open answers are "uncertain" or "unknown". Each step measures the mode that ``measure_next``
    names, keeps it in the runs, and answers again; after ``n_most`` measurements the answers stay
    as they are. Nothing is measured on another machine: a note says so. An interrupt leaves what
    was measured. ``profile``, ``is_local``: as for ``measure_networks``. ``is_dry_run``: nothing
    is measured or set; ``planned`` says what the first step would set. Raises as ``recommend``.
    """
    if n_most < 1:
        raise UsageError(f"cannot measure {n_most} modes", fix="give 1 or more")
    request, wanted = as_request(request), wanted or Wanted()
    answers = answer_questions(request, wanted, default, reporter)
    measured: list[SettledMode] = []
    failure: MansardError | None = None
    if is_dry_run:
        step = _next_step(answers, measured, reporter)
        planned = () if step is None else tuple(dry_run_modes(_request_of(step[1])))
        found = tuple(answer.recommendation for answer in answers)
        return SettledAnswer(found, (), None, planned)
    if all(answered.recommendation.verdict in _DEFINITE for answered in answers):
        reporter.note("note: nothing to measure: every answer is determined")
    while len(measured) < n_most and failure is None:
        step = _next_step(answers, measured, reporter)
        if step is None:
            break
        answer, measurement = step
        mode = SettledMode(answer.device, answer.network, measurement.mode)
        reporter.note(
            f"measuring {display_name(mode.network)} in {printable(mode.mode)}, "
            f"{len(measured) + 1} of at most {n_most} modes"
        )
        try:
            for remark in _measure(measurement, profile, reporter, is_local=is_local):
                reporter.note(f"note: {mode.network} in {mode.mode} does not count: {remark}")
        except MansardError as error:
            failure = error
        measured.append(mode)
        answers = answer_questions(request, wanted, default, reporter)
    recommendations = tuple(answer.recommendation for answer in answers)
    return SettledAnswer(recommendations, tuple(measured), failure)


def _request_of(step: NextMeasurement) -> SweepRequest:
    """Where ``step`` is measured, and in which mode."""
    return SweepRequest(mode=step.mode, board=step.board, runs=Path(step.runs))


def _next_step(
    answers: tuple[Answered, ...], measured: list[SettledMode], reporter: Reporter
) -> tuple[Recommendation, NextMeasurement] | None:
    """The first open answer that a measurement here can settle; else notes say why none can."""
    notes = []
    for answered in answers:
        answer, measurement = answered.recommendation, answered.measurement
        if answer.verdict in _DEFINITE:
            continue
        why = _why_not(answered, measured)
        if not why and measurement is not None:
            return answer, measurement
        name, device = display_name(answer.network), printable(answer.device)
        notes.append(f"note: {name} on {device} remains uncertain: {why}")
    for line in notes:
        reporter.note(line)
    return None


def _why_not(answered: Answered, measured: list[SettledMode]) -> str:
    """Why nothing is measured for an open answer; empty where something can be."""
    answer, measurement = answered.recommendation, answered.measurement
    if answer.measure_next is None:
        return answer.unknown.get("measure_next", "no single measurement settles it")
    if measurement is None:
        return answer.measure_next.how
    if not answered.is_here:
        return f"the board is not this machine; measure there: {measurement.command}"
    if SettledMode(answer.device, answer.network, measurement.mode) in measured:
        return f"{printable(measurement.mode)} was measured, and does not settle it"
    return ""


def _measure(
    step: NextMeasurement, profile: str, reporter: Reporter, *, is_local: bool
) -> tuple[str, ...]:
    """Measure one mode as its command does; why it does not count. Raises MansardError."""
    runs = Path(step.runs)
    if step.program is not None:
        ran = measure_program(
            ProgramRequest(
                command=step.program.command,
                name=step.program.workload,
                metric=step.program.metric_pattern,
                is_again=step.is_again,
                mode=step.mode,
                runs=runs,
                board=step.board,
                profile=profile,
                stdout=_STDERR,
            ),
            reporter,
        )
        ran.check()
        return tuple(row.times[0].remark for row in ran.measured if row.times[0].remark)
    settings = NetworkSettings(
        batches=(step.batch,),
        precisions=() if step.precision is None else (step.precision,),
        dims=dict(step.dims),
    )
    result = measure_networks(
        MeasureRequest(
            models=(step.model,),
            settings=settings,
            mode=step.mode,
            runs=runs,
            board=step.board,
            processor="cpu" if step.is_cpu else None,
            is_local=is_local,
            profile=profile,
        ),
        reporter,
    )
    result.check()
    return tuple(row.remark for row in result.times if row.remark)
