"""Times and energies of one row: of a network, of a program and its windows. No frame is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mansard.analytics.data.names import (
    display_name,
    display_text,
    engine_name,
    label_text,
    window_name,
)
from mansard.analytics.models.scaling.call_energy import call_energy, timed
from mansard.analytics.models.scaling.use_of_rows import why_unused, windows_by_name
from mansard.core.records import (
    Measurement,
    NamedWindow,
    Phase,
    ProgramRepetition,
    ProgramRun,
    Record,
    Source,
)

_PREDICTED_ENDS = ("predicted_low_s", "predicted_high_s", "predicted_interval")
_CALLS = {"p90_s": (0.90, 10), "p99_s": (0.99, 100)}  # quantile, and the calls that it needs


_NOT_PREDICTED = "it was not scored, or its mode has no roofs"


class NetworkTimes(Record, frozen=True, kw_only=True):
    """One network on one engine in one mode: what was measured, and what is modelled.

    Of repeated runs of one label the best that counts, else the best. Energies are of one call.
    """

    run_id: str
    run_ids: tuple[str, ...]  # all runs that measured the same
    device: str
    mode: str
    network: str  # as it is shown
    model_hash: str
    batch: int | None
    precision: str
    phase: Phase
    engine: str
    source: Source
    time_s: float | None  # median of the loop; low and high: where the next run will be, 95 %
    low_s: float | None
    high_s: float | None  # where other work disturbed every sample, alone: the median of these
    p50_s: float | None  # of single calls
    p90_s: float | None
    p99_s: float | None
    worst_s: float | None
    n_calls: int  # that were timed one by one
    energy_j: float | None  # low and high: what disturbances and its time leave open
    energy_low_j: float | None
    energy_high_j: float | None  # where the energy windows were disturbed, alone: at most that
    above_idle_j: float | None  # without what the machine draws when idle
    power_w: float | None
    memory_bytes: int | None
    load_s: float | None
    predicted_s: float | None
    predicted_low_s: float | None
    predicted_high_s: float | None
    predicted_interval: str | None  # what its ends mean: a key of data.model_frames.INTERVALS
    predicted_energy_j: float | None
    error: float | None  # predicted over measured time, less 1
    remark: str  # why it has no times, or is in no model; empty: it counts
    label: str = ""  # of the build or commit
    is_unsettled: bool = False  # its interval is wider than its protocol wants
    # Where other work disturbed it: the median of its samples and its interval; in no model.
    disturbed_s: tuple[float, ...] = ()

    @property
    def shown_s(self) -> tuple[float | None, float | None, float | None]:
        """The time to show, with its ends: where other work disturbed it, that of its samples."""
        if self.disturbed_s:
            time_s, low_s, high_s = (*self.disturbed_s, None, None)[:3]
            return time_s, low_s, high_s
        return self.time_s, self.low_s, self.high_s

    @property
    def is_above_roof(self) -> bool:
        """Whether it ran surely faster than its roof: the peaks were measured too low."""
        if self.predicted_interval != "roof" or self.predicted_s is None or self.remark:
            return False
        return self.high_s is not None and self.high_s < self.predicted_s

    @property
    def is_unmodelled(self) -> bool:
        """Whether nothing was predicted, for want of a score or of roofs."""
        return self.unknown.get("predicted_s") == _NOT_PREDICTED


class ProgramTimes(Record, frozen=True, kw_only=True):
    """One program in one mode, or one of its windows (then ``window`` is its name)."""

    run_id: str
    device: str
    mode: str
    workload: str
    window: str | None
    source: Source
    time_s: float | None  # median wall time; low and high: that of the next measurement, 95 %
    low_s: float | None  # None if there is only one time
    high_s: float | None
    cpu_s: float | None  # of the program and its children
    energy_j: float | None
    energy_low_j: float | None
    energy_high_j: float | None
    power_w: float | None
    peak_w: float | None
    memory_bytes: int | None
    metric: float | None  # median of its figure of merit
    n_runs: int  # of the program, that count
    n_per_run: float | None  # how often a window was entered in each
    remark: str
    label: str = ""  # of the build or commit


def network_times(
    row: Measurement, setting: Mapping[str, Any], idle_w: float | None, predicted: Mapping[str, Any]
) -> NetworkTimes:
    """One row of a network, in its ``setting``; ``predicted``: PREDICTION_SCHEMA, or nothing.

    ``setting``: its device, mode, network as it is shown, batch, precision, phase, label, and the
    runs that measured the same.
    """
    why = remark_on(row)
    ran = why or ("no call was timed" if not row.seconds_s else _SINGLE)
    values: dict[str, Any] = times_of(row) | _call_times(row.call_seconds_s)
    energies, no_energy = energies_of(row, idle_w)
    values |= energies
    values |= {"memory_bytes": row.memory_bytes, "load_s": row.load_s}
    time_s, modelled_s = values["time_s"], predicted.get("latency_s")
    values |= {
        "predicted_s": modelled_s,
        "predicted_low_s": predicted.get("latency_low_s"),
        "predicted_high_s": predicted.get("latency_high_s"),
        "predicted_interval": predicted.get("interval"),
        "predicted_energy_j": predicted.get("energy_j"),
        "error": modelled_s / time_s - 1 if modelled_s and time_s else None,
    }
    not_scored = predicted.get("reason") or _NOT_PREDICTED
    no_interval = not_scored if modelled_s is None else "a coefficient it needs has no interval"
    few = "too few calls were timed one by one"
    reasons = {
        **dict.fromkeys(("time_s", "low_s", "high_s"), ran),
        **dict.fromkeys(("p50_s", "p90_s", "p99_s", "worst_s"), few),
        **no_energy,
        **dict.fromkeys(("predicted_s", "predicted_energy_j", "error"), not_scored),
        **dict.fromkeys(_PREDICTED_ENDS, no_interval),
        "batch": "the model does not say which dimension is the batch",
        **row.unknown,
    }
    values |= setting
    return NetworkTimes(
        run_id=row.run_id,
        model_hash=row.model_hash,
        engine=engine_name(row),
        source=row.source,
        n_calls=len(row.call_seconds_s),
        remark=why,
        is_unsettled=row.stability == "unstable" and bool(row.seconds_s),
        disturbed_s=_disturbed(row),
        unknown={name: reasons[name] for name, value in values.items() if value is None},
        **values,
    )


def measured_ratios(rows: Iterable[NetworkTimes]) -> list[float]:
    """Measured time over the bound of the roofs, of each network that ran, in order."""
    return sorted(
        row.time_s / row.predicted_s
        for row in rows
        if row.time_s and row.predicted_s and row.predicted_interval == "roof"
    )


def remark_on(row: Measurement | ProgramRun) -> str:
    """Why a row has no times, or is in no model; empty: it counts."""
    why = why_unused(row)
    return display_text(why) if why else ""


_SINGLE = "one time gives no interval"


def times_of(row: Measurement) -> dict[str, float | None]:
    """The time of a call with its ends; where every sample was disturbed, what it is at most."""
    timing = timed(row.seconds_s)
    if timing.time_s is None and row.rejected_s:
        timing = timing._replace(high_s=float(np.median(row.rejected_s)))
    return timing._asdict()


def _disturbed(row: Measurement) -> tuple[float, ...]:
    """The median of disturbed samples with its interval; empty where they count, or are none."""
    if row.seconds_s and not row.disturbances:
        return ()
    times_s = timed(row.seconds_s or row.rejected_s)
    return tuple(value for value in times_s if value is not None)


_OF_ENERGY = ("energy_j", "energy_low_j", "energy_high_j", "power_w")


def energies_of(
    row: Measurement, idle_w: float | None
) -> tuple[dict[str, float | None], dict[str, str]]:
    """Energies of a call and power; and the reasons of those that are not known."""
    call = call_energy(row.energy or (), row.seconds_s, idle_w)
    why = row.unknown.get("energy") or call.reason
    above = why if idle_w is not None else "the idle power is unknown"
    return (
        {
            "energy_j": call.energy_j,
            "energy_low_j": call.low_j,
            "energy_high_j": call.high_j,
            "above_idle_j": call.above_idle_j,
            "power_w": call.power_w,
        },
        {**dict.fromkeys(_OF_ENERGY, why), "above_idle_j": above},
    )


def _call_times(seconds_s: Sequence[float]) -> dict[str, float | None]:
    """Measured quantiles of the times of calls; None with too few calls."""
    ends: dict[str, float | None] = {
        name: float(np.quantile(seconds_s, share, method="inverted_cdf"))
        if len(seconds_s) >= n_least
        else None
        for name, (share, n_least) in _CALLS.items()
    }
    middle = float(np.median(seconds_s)) if seconds_s else None
    return {"p50_s": middle, **ends, "worst_s": max(seconds_s, default=None)}


_OF_WHOLE = ("cpu_s", "peak_w", "memory_bytes", "metric")  # what no window has


def program_times(
    program: ProgramRun, device: str, mode: str, *, label: str = "", remark: str = ""
) -> tuple[ProgramTimes, ...]:
    """A program as a whole, then its windows by name, in the order they first appear.

    ``label``: of its run. ``remark``: why it is in no model, where nothing in ``program`` says so.
    """
    runs = program.repetitions
    where = {
        "run_id": program.run_id,
        "device": device,
        "mode": mode,
        "label": label_text(label),
        "source": program.source,
        "n_runs": len(runs),
        "remark": remark_on(program) or remark,
    }
    whole = where | {
        "workload": display_name(program.workload),
        "window": None,
        "cpu_s": _median(run.user_s + run.system_s for run in runs),
        "peak_w": _most(run.peak_w for run in runs if _has_total(run)),
        "memory_bytes": _most(run.peak_memory_bytes for run in runs),
        "metric": _median(run.metric for run in runs if run.metric is not None),
        "n_per_run": None,
    }
    rows = [_program_row(whole, [run.wall_s for run in runs], runs)]
    for name, windows in windows_by_name(runs).items():
        named = where | {
            "workload": window_name(program.workload, name),
            "window": display_name(name),
            **dict.fromkeys(_OF_WHOLE),
            "n_per_run": len(windows) / len(runs),
        }
        # Windows of no length are those that the clock did not resolve.
        lengths_s = [window.window_s for window in windows if window.window_s > 0]
        rows.append(_program_row(named, lengths_s, windows))
    return (*rows, *_figure_rows(program, where))


def _figure_rows(program: ProgramRun, where: Mapping[str, Any]) -> Iterable[ProgramTimes]:
    """A row for each figure that llama-bench printed: its median, and no time of ours."""
    runs = program.repetitions
    names = dict.fromkeys(name for run in runs for name in run.figures)
    for name in names:
        values: dict[str, Any] = {
            **dict.fromkeys(ProgramTimes.__struct_fields__),
            **where,
            "workload": window_name(program.workload, name),
            "window": display_name(name),
            "metric": _median(run.figures[name] for run in runs if name in run.figures),
        }
        del values["unknown"]
        why = "llama-bench times its tests itself"
        unknown = {field: why for field, value in values.items() if value is None}
        yield ProgramTimes(**values, unknown=unknown)


def _has_total(run: ProgramRepetition) -> bool:
    """Whether its readings give an energy; the highest of others may be a fault."""
    return run.energy is not None and run.energy.total_j is not None


def _program_row(
    values: dict[str, Any],
    seconds_s: Sequence[float],
    spans: Sequence[ProgramRepetition] | Sequence[NamedWindow],
) -> ProgramTimes:
    """Time, energy and power of ``spans`` beside ``values``, and why some are not known."""
    energies = [timed.energy for timed in spans if timed.energy is not None]
    call = call_energy(energies, seconds_s, is_program=True)
    values |= timed(seconds_s)._asdict()
    values |= {
        "energy_j": call.energy_j,
        "energy_low_j": call.low_j,
        "energy_high_j": call.high_j,
        "power_w": call.power_w,
    }
    why: dict[str, str] = {}
    for span in spans:
        why |= span.unknown
    no_time = values["remark"] or "no run of it was timed"
    no_energy = why.get("energy") or (call.reason if energies else no_time)
    of_window = "only known for the whole program"
    reasons: dict[str, str] = {
        **dict.fromkeys(("window", "n_per_run"), "it is the program as a whole"),
        **dict.fromkeys(_OF_WHOLE, no_time if values["window"] is None else of_window),
        "time_s": no_time,
        **dict.fromkeys(("low_s", "high_s"), _SINGLE if seconds_s else no_time),
        **dict.fromkeys(_OF_ENERGY, no_energy),
        "peak_w": why.get("peak_w", no_energy) if values["window"] is None else of_window,
    }
    if "metric" in why:
        reasons["metric"] = why["metric"]
    if "peak_memory_bytes" in why:
        reasons["memory_bytes"] = why["peak_memory_bytes"]
    unknown = {name: reasons[name] for name, value in values.items() if value is None}
    return ProgramTimes(**values, unknown=unknown)


def _median(values: Iterable[float]) -> float | None:
    known = list(values)
    return float(np.median(known)) if known else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
