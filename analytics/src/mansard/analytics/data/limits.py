"""The ranges of numbers in files, which may have been edited by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from mansard.core.errors import InputError
from mansard.core.records import (
    Accuracy,
    ContentionPoint,
    EnergyWindow,
    GenerationRun,
    Manifest,
    Measurement,
    ModelScore,
    MultiRun,
    OffloadRun,
    ProgramRun,
    Record,
    Trial,
)
from mansard.core.text import printable

# The table that holds the rows of a run, by its manifest's kind.
ROW_TABLES = {
    "kernels": "trials",
    "networks": "measurements",
    "programs": "programs",
    "accuracies": "accuracies",
    "multi": "multi",
    "contention": "contention",
    "generations": "generations",
    "offloads": "offloads",
}
MOST_TRIALS = 20_000  # of one run: a full plan has some hundred, and each takes a second or more
LARGEST_COUNT = 2**63  # the columns are 64-bit integers
# A clock resolves no picosecond, no sample takes 30 years, and rates stay finite in between.
SHORTEST_S, LONGEST_S = 1e-12, 1e9
MOST_HZ = 1e12  # of a clock
MOST_BYTE_PER_S = 1e18  # of memory: a million times that of a large card
MOST_J = 1e15  # of one window: what a large power station makes in a week
LONGEST_NAME = 4096  # names come from files, whose names have 255; each row repeats them
RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")  # folders of the dataset bear it
_MEASURE_AGAIN = "the file was changed by hand; measure again into another folder"


class UnknownKindError(InputError):
    """A run of a kind that this version of Mansard does not know."""


def check_manifest(manifest: Manifest, path: Path | str) -> None:
    """Raises InputError for counts that cannot be, two caches of one level, odd ids or kinds."""
    machine = manifest.machine
    if manifest.kind not in ROW_TABLES:
        raise UnknownKindError(
            f"a run of the kind {printable(manifest.kind)!r}; known are {', '.join(ROW_TABLES)}",
            where=str(path),
            fix="read it with the version of Mansard that measured it",
        )
    if not RUN_ID.fullmatch(manifest.run_id):
        raise InputError(
            f"the run id {manifest.run_id!r} cannot name a folder",
            where=str(path),
            fix=_MEASURE_AGAIN,
        )
    modes = (manifest.mode_requested, manifest.mode_read_back)
    gpus = () if manifest.gpu is None else (manifest.gpu,)
    for record in (manifest, *modes, machine, *machine.caches, *gpus):
        _check_counts(record, str(path), _MEASURE_AGAIN)
    _check_windows(manifest.idle or (), str(path))
    levels = [cache.level for cache in machine.caches]
    if len(set(levels)) < len(levels):
        raise InputError("two caches have the same level", where=str(path), fix=_MEASURE_AGAIN)


def check_trial(trial: Trial, path: Path | str) -> None:
    """Raises InputError for times or counts that cannot be, or lists that do not match."""
    where = f"{path}, trial {trial.trial_id}"
    for record in (trial, trial.conditions):
        _check_counts(record, where, _MEASURE_AGAIN)
    _check_windows(trial.energy or (), where)
    if any(not (math.isfinite(s) and s > 0) for s in trial.seconds_s):
        problem = "a repetition has a time that is not positive"
    elif any(not SHORTEST_S <= s <= LONGEST_S for s in trial.seconds_s):
        problem = f"a repetition takes less than {SHORTEST_S:g} s or more than {LONGEST_S:g} s"
    elif len(trial.block) != len(trial.seconds_s):
        problem = "repetitions and blocks differ in number"
    elif trial.clock_hz is not None and len(trial.clock_hz) != len(trial.seconds_s):
        problem = "repetitions and clocks differ in number"
    elif any(not 0 < hz <= MOST_HZ for hz in trial.clock_hz or ()):
        problem = f"a clock is not positive, or above {MOST_HZ:g} Hz"
    elif trial.failure is not None and trial.seconds_s:
        problem = "it has times and a failure"
    elif trial.n_sms == 0:
        problem = "it ran on no SM"
    elif len(trial.rejected_s) != len(trial.rejected_reason):
        problem = "rejected times and reasons differ in number"
    else:
        return
    raise InputError(problem, where=where, fix=_MEASURE_AGAIN)


def check_score(score: ModelScore, path: Path | str) -> None:
    """Raises InputError for a negative count, or one whose sum is beyond 63 bits."""
    fix = "score the model again"
    if len(score.model) > LONGEST_NAME:
        raise InputError(
            f"a model's name has {len(score.model)} characters", where=str(path), fix=fix
        )
    _check_counts(score, str(path), fix)
    for layer in score.layers:
        _check_counts(layer, f"{path}, model {score.model!r}, layer {layer.name!r}", fix)
    for name in ("work_flop", "traffic_bytes"):
        if sum(getattr(layer, name) or 0 for layer in score.layers) >= LARGEST_COUNT:
            raise InputError(
                f"{name} of model {score.model!r} is beyond 63 bits", where=str(path), fix=fix
            )


def check_measurement(measurement: Measurement, path: Path | str) -> None:
    """Raises InputError for times or counts that cannot be, or lists that do not match."""
    where, layers = f"{path}, trial {measurement.trial_id}", measurement.layers or ()
    for record in (measurement, measurement.conditions, *layers):
        _check_counts(record, where, _MEASURE_AGAIN)
    _check_windows(measurement.energy or (), where)
    # Without times of profiled calls each layer has the mean over them.
    n_profiled = 1 if measurement.profiled_s is None else len(measurement.profiled_s)
    calls_s = (*measurement.seconds_s, *measurement.call_seconds_s, *(measurement.profiled_s or ()))
    once_s = (measurement.load_s, measurement.first_call_s)
    if not all(map(_is_duration, calls_s)):
        problem = f"a call takes less than {SHORTEST_S:g} s or more than {LONGEST_S:g} s"
    elif not all(_is_duration_or_zero(s) for layer in layers for s in layer.seconds_s):
        problem = f"a layer takes less than 0 s or more than {LONGEST_S:g} s"
    elif not all(s is None or _is_duration_or_zero(s) for s in once_s):
        problem = f"loading or the first call takes less than 0 s or more than {LONGEST_S:g} s"
    elif measurement.failure is not None and calls_s:
        problem = "it has times and a failure"
    elif len(measurement.block) != len(measurement.seconds_s):
        problem = "samples and blocks differ in number"
    elif len(measurement.rejected_s) != len(measurement.rejected_reason):
        problem = "rejected times and reasons differ in number"
    elif any(len(layer.seconds_s) != n_profiled for layer in layers):
        problem = "times of a layer and profiled calls differ in number"
    else:
        return
    raise InputError(problem, where=where, fix=_MEASURE_AGAIN)


def check_accuracy(row: Accuracy, path: Path | str) -> None:
    """Raises InputError for answers that cannot be, or lists that do not match."""
    where, n_classes = f"{path}, trial {row.trial_id}", row.n_classes or 0
    _check_counts(row, where, _MEASURE_AGAIN)
    n_answers = 0 if row.failure is not None else row.n_samples
    ranks = row.ranks
    if len(row.predicted) != n_answers or (ranks is not None and len(ranks) != n_answers):
        problem = "predictions and samples differ in number"
    elif n_answers and (not n_classes or max((*row.predicted, *(ranks or ()))) > n_classes):
        problem = "a predicted class is above the number of classes"
    elif not _is_duration_or_zero(row.duration_s):
        problem = f"it took less than 0 s or more than {LONGEST_S:g} s"
    else:
        return
    raise InputError(problem, where=where, fix=_MEASURE_AGAIN)


def check_program(program: ProgramRun, path: Path | str) -> None:
    """Raises InputError for times, counts or energies that cannot be."""
    where = f"{path}, trial {program.trial_id}"
    repetitions = program.repetitions
    named = [window for repetition in repetitions for window in repetition.windows]
    for record in (program, program.conditions, *repetitions, *named):
        _check_counts(record, where, _MEASURE_AGAIN)
    _check_windows(program_windows(program), where)
    if not all(_is_duration(repetition.wall_s) for repetition in repetitions):
        problem = f"a run takes less than {SHORTEST_S:g} s or more than {LONGEST_S:g} s"
    elif not all(
        _is_duration_or_zero(s)
        for repetition in repetitions
        for s in (repetition.user_s, repetition.system_s)
    ):
        problem = f"its CPU time is less than 0 s or more than {LONGEST_S:g} s"
    elif not all(_is_duration_or_zero(window.window_s) for window in named):
        problem = f"a window takes less than 0 s or more than {LONGEST_S:g} s"
    else:
        return
    raise InputError(problem, where=where, fix=_MEASURE_AGAIN)


def check_multi(row: MultiRun, path: Path | str) -> None:
    """Raises InputError for times or counts that cannot be."""
    where, window_s = f"{path}, trial {row.trial_id}", row.window_s
    for record in (row, row.conditions, *row.networks, *row.stages):
        _check_counts(record, where, _MEASURE_AGAIN)
    _check_windows(() if row.energy is None else (row.energy,), where)
    spent_s = [
        value_s
        for stage in row.stages
        for value_s in (
            *(stage.inference_s, stage.transfer_s),
            *(stage.input_wait_s, stage.device_wait_s, stage.output_wait_s),
        )
    ]
    if window_s is not None and not _is_duration(window_s):
        problem = f"its window takes less than {SHORTEST_S:g} s or more than {LONGEST_S:g} s"
    elif not all(map(_is_duration_or_zero, spent_s)):
        problem = f"a stage takes less than 0 s or more than {LONGEST_S:g} s"
    elif not all(_is_duration(s) for network in row.networks for s in network.latency_s):
        problem = f"a network takes less than {SHORTEST_S:g} s or more than {LONGEST_S:g} s"
    elif any(not 0 <= stage.network_number < len(row.networks) for stage in row.stages):
        problem = "a stage is of a network that is not there"
    else:
        return
    raise InputError(problem, where=where, fix=_MEASURE_AGAIN)


def check_contention(row: ContentionPoint, path: Path | str) -> None:
    """Raises InputError for rates and shares that cannot be, or lists that do not match."""
    where = f"{path}, trial {row.trial_id}"
    for record in (row, row.conditions):
        _check_counts(record, where, _MEASURE_AGAIN)
    rates = (*row.alone_byte_per_s, *row.achieved_byte_per_s, *row.external_byte_per_s)
    if not all(0 <= rate <= MOST_BYTE_PER_S for rate in rates):
        problem = f"a rate is less than 0 or more than {MOST_BYTE_PER_S:g} byte/s"
    elif not all(0 <= share <= 1 for share in (row.victim_share, row.aggressor_share)):
        problem = "a share is below 0 or above 1"
    elif len(row.achieved_byte_per_s) != len(row.external_byte_per_s):
        problem = "rates of the two accelerators differ in number"
    else:
        return
    raise InputError(problem, where=where, fix=_MEASURE_AGAIN)


def check_generation(row: GenerationRun, path: Path | str) -> None:
    """Raises InputError for times or counts that cannot be."""
    where = f"{path}, trial {row.trial_id}"
    requests = [request for one in row.rounds for request in one.requests]
    for record in (row, row.conditions, *row.rounds, *requests):
        _check_counts(record, where, _MEASURE_AGAIN)
    _check_windows(generation_windows(row), where)
    if not all(one.requests for one in row.rounds):
        problem = "a round has no request"
    elif not all(request.event_s for request in requests):
        problem = "a request has no token"
    elif not all(
        _is_duration(request.event_s[0])
        and request.event_s[-1] <= request.end_s <= LONGEST_S
        and list(request.event_s) == sorted(request.event_s)
        for request in requests
    ):
        problem = "tokens of a request are out of order, or come after its end"
    else:
        return
    raise InputError(problem, where=where, fix=_MEASURE_AGAIN)


def check_offload(row: OffloadRun, path: Path | str) -> None:
    """Raises InputError for times or answers that cannot be, or lists that do not match."""
    where, n = f"{path}, trial {row.trial_id}", row.n_samples
    for record in (row, row.conditions, row.served):
        _check_counts(record, where, _MEASURE_AGAIN)
    _check_windows(() if row.energy is None else (row.energy,), where)
    of_local = [row.local, row.p1, row.p2, row.local_s, row.decision_s]
    n_local, n_offloaded = 0 if row.way == "remote" else n, len(row.offloaded)
    of_offloaded = [row.round_trip_s, row.server_s, row.inference_s]
    of_offloaded += [row.sent_bytes, row.received_bytes]
    times_s = [*row.latency_s, *row.local_s, *row.decision_s]
    times_s += [*row.round_trip_s, *row.server_s, *row.inference_s]
    classes = (*row.predicted, *row.local, *(row.labels or ()))
    if (
        n < 1
        or {len(row.predicted), len(row.latency_s), len(row.labels or row.predicted)} != {n}
        or {len(column) for column in of_local} != {n_local}
        or {len(column) for column in of_offloaded} != {n_offloaded}
    ):
        problem = "what was recorded and the samples differ in number"
    elif not all(map(_is_duration_or_zero, times_s)):
        problem = f"a time is less than 0 s or more than {LONGEST_S:g} s"
    elif not all(0 <= share <= 1 for share in (*row.p1, *row.p2)):
        problem = "a probability is outside 0 to 1"
    elif max(classes) >= row.n_classes or min(classes) < 0:
        problem = "a class is above the number of classes"
    elif row.offloaded and not 0 <= min(row.offloaded) <= max(row.offloaded) < n:
        problem = "an offloaded sample is not in the block"
    else:
        return
    raise InputError(problem, where=where, fix=_MEASURE_AGAIN)


def generation_windows(row: GenerationRun) -> list[EnergyWindow]:
    """The energy windows of each round's phases, and of prompts alone."""
    windows = [window for one in row.rounds for window in (one.prefill, one.decode, one.whole)]
    return [window for window in (*windows, *(row.prefills or ())) if window is not None]


def program_windows(program: ProgramRun) -> list[EnergyWindow]:
    """The energy of each run of a program, and of each stretch that it names."""
    energies = [repetition.energy for repetition in program.repetitions]
    energies += [
        window.energy for repetition in program.repetitions for window in repetition.windows
    ]
    return [energy for energy in energies if energy is not None]


def _is_duration(seconds_s: float) -> bool:
    return SHORTEST_S <= seconds_s <= LONGEST_S


def _is_duration_or_zero(seconds_s: float) -> bool:
    """A part of a longer time may be 0: the timer did not resolve it."""
    return 0 <= seconds_s <= LONGEST_S


def _check_windows(windows: Sequence[EnergyWindow], where: str) -> None:
    for window in windows:
        for record in (window, *window.rails):
            _check_counts(record, where, _MEASURE_AGAIN)
        if not SHORTEST_S <= window.window_s <= LONGEST_S:
            raise InputError(
                f"an energy window takes less than {SHORTEST_S:g} s or more than {LONGEST_S:g} s",
                where=where,
                fix=_MEASURE_AGAIN,
            )
        energies_j = [window.total_j, *(rail.energy_j for rail in window.rails)]
        if any(energy_j is not None and abs(energy_j) > MOST_J for energy_j in energies_j):
            raise InputError(f"an energy is beyond {MOST_J:g} J", where=where, fix=_MEASURE_AGAIN)


def _check_counts(record: Record, where: str, fix: str) -> None:
    values = msgspec.structs.astuple(record)
    for name, value in zip(record.__struct_fields__, values, strict=True):
        if isinstance(value, int):
            is_count = 0 <= value < LARGEST_COUNT
        elif isinstance(value, tuple):
            is_count = all(0 <= each < LARGEST_COUNT for each in value if isinstance(each, int))
        else:
            continue
        if not is_count:
            raise InputError(f"{name} is negative or beyond 63 bits", where=where, fix=fix)
