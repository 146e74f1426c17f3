"""What a number in a file can be at all; files may have been changed by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from mansard.core.errors import InputError
from mansard.core.records import EnergyWindow, Manifest, Measurement, ModelScore, Record, Trial

MOST_TRIALS = 20_000  # of one run: a full plan has some hundred, and each takes a second or more
LARGEST_COUNT = 2**63  # the columns are 64-bit integers
# A clock resolves no picosecond, no sample takes 30 years, and rates stay finite in between.
SHORTEST_S, LONGEST_S = 1e-12, 1e9
MOST_HZ = 1e12  # of a clock
MOST_J = 1e15  # of one window: what a large power station makes in a week
LONGEST_NAME = 4096  # names come from files, whose names have 255; each row repeats them
RUN_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")  # folders of the dataset bear it
_MEASURE_AGAIN = "the file was changed by hand; measure again into another folder"


def check_manifest(manifest: Manifest, path: Path | str) -> None:
    """Raises InputError for counts that cannot be, two caches of one level, or an odd run id."""
    machine = manifest.machine
    if not RUN_ID.fullmatch(manifest.run_id):
        raise InputError(
            f"the run id {manifest.run_id!r} cannot name a folder",
            where=str(path),
            fix=_MEASURE_AGAIN,
        )
    modes = (manifest.mode_requested, manifest.mode_read_back)
    own = () if manifest.gpu is None else (manifest.gpu,)
    for record in (manifest, *modes, machine, *machine.caches, *own):
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
    """Raises InputError for a negative count, a time that cannot be, or an odd run id."""
    where, fix = f"{path}, model {measurement.model!r}", "measure the model again"
    _check_counts(measurement, where, fix)
    _check_windows(measurement.energy or (), where)
    if not RUN_ID.fullmatch(measurement.run_id):
        raise InputError(f"the run id {measurement.run_id!r} is none", where=where, fix=fix)
    if any(not SHORTEST_S <= s <= LONGEST_S for s in measurement.seconds_s):
        raise InputError(
            f"a repetition takes less than {SHORTEST_S:g} s or more than {LONGEST_S:g} s",
            where=where,
            fix=fix,
        )


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
    for name in record.__struct_fields__:
        value = getattr(record, name)
        for count in value if isinstance(value, tuple) else (value,):
            if isinstance(count, int) and not 0 <= count < LARGEST_COUNT:
                raise InputError(f"{name} is negative or beyond 63 bits", where=where, fix=fix)
