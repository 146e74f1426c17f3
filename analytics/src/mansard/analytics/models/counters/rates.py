"""Counts that were not collected, computed from rates, clocks and durations.

The roofline sections (``--set roofline``) have instructions a cycle and bytes a second instead of
their sums. A sum is its rate × the cycles, or × the time; the cycles are counted, or the SMs' clock
× the time. On 46 recorded launches of an Orin Nano that product is the counted number of cycles to
11 digits, so the error is that of the digits that were printed. The GPCs' clock ("SM Frequency" of
newer releases) cannot replace it: there their cycles are 1 to 67 % more than those of the SMs.

``derived__smsp__…_pred_on_x2`` is twice the rate a cycle, whatever unit is printed beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from mansard.analytics.models.counters.launch import ProfiledLaunch

TIME = "gpu__time_duration.sum"
CYCLES = "sm__cycles_elapsed.avg"
# The first that an export has. ``gpu__time_duration`` is the user's time where it can be measured,
# else that of the wall clock: names of ``ncu --query-metrics``.
_TIMES = (
    TIME,
    "gpu__time_duration.avg",
    "gpu__time_duration.max",
    "gpu__time_duration_measured_user.sum",
    "gpu__time_duration_measured_wallclock.sum",
)
# All partitions of an SM run as long as it does.
_CYCLES = tuple(f"{unit}__cycles_elapsed.{of}" for unit in ("smsp", "sm") for of in ("max", "avg"))
_OF_PARTITIONS = re.compile(r"^smsp__(?=sass_thread_inst|inst_executed)")
_MULTIPLE = re.compile(r"derived__(smsp__sass_thread_inst_executed_op_\w+_pred_on)_x([24])")
_PER_CYCLE, _PER_SECOND = ".sum.per_cycle_elapsed", ".sum.per_second"


@dataclass(frozen=True)
class Derivation:
    """How a metric was computed, and its largest relative error."""

    formula: str
    error: float


@dataclass(frozen=True)
class CompletedLaunch:
    """A launch with the sums, cycles and time that follow from its metrics.

    ``derived``: those that were not counted.
    """

    launch: ProfiledLaunch
    derived: Mapping[str, Derivation]

    def derivation(self, *beginnings: str) -> Derivation | None:
        """Of the derived metrics with these beginnings, the derivation with the largest error."""
        matching = [made for name, made in self.derived.items() if name.startswith(beginnings)]
        return max(matching, key=lambda made: made.error, default=None)


def complete(launch: ProfiledLaunch) -> CompletedLaunch:
    """``launch`` with counts computed from rates, where they were not collected.

    None are computed from the means of several launches: a mean of products is not the product of
    means.
    """
    metrics, steps = _over_sms(launch.metrics), launch.steps
    derived: dict[str, Derivation] = {}
    time = next((name for name in _TIMES if name in metrics), None)
    if time is not None:
        metrics.setdefault(TIME, metrics[time])
    if launch.n_launches > 1:
        return CompletedLaunch(replace(launch, metrics=metrics), derived)
    if time is None and (made := _time(metrics, steps)):
        metrics[TIME], derived[TIME] = made
        time = TIME
    time_error = derived[TIME].error if TIME in derived else steps.get(time or "", 0.0)
    cycles = next((name for name in _CYCLES if name in metrics), None)
    if cycles is None and time is not None:
        clock = next((f"{n}.per_second" for n in _CYCLES if f"{n}.per_second" in metrics), None)
        if clock is not None:
            cycles = CYCLES
            metrics[CYCLES] = metrics[clock] * metrics[TIME]
            derived[CYCLES] = Derivation(f"{clock} × time", steps.get(clock, 0.0) + time_error)
    of_cycles = derived.get(cycles or "", Derivation("cycles", 0.0))
    for name, target, rate in _rates(launch.metrics):
        is_per_second = name.endswith(_PER_SECOND)
        factor = metrics.get(TIME if is_per_second else cycles or "")
        if target in metrics or factor is None:
            continue
        metrics[target] = rate * factor
        factor_formula = "time" if is_per_second else of_cycles.formula
        error = time_error if is_per_second else of_cycles.error
        derived[target] = Derivation(f"{name} × {factor_formula}", steps.get(name, 0.0) + error)
    return CompletedLaunch(replace(launch, metrics=metrics), derived)


def _time(
    metrics: Mapping[str, float], steps: Mapping[str, float]
) -> tuple[float, Derivation] | None:
    """Cycles over their clock, where the duration itself was not collected."""
    for name in (*_CYCLES, "gpc__cycles_elapsed.max", "gpc__cycles_elapsed.avg"):
        cycles, hz = metrics.get(name), metrics.get(f"{name}.per_second")
        if cycles and hz:
            error = steps.get(f"{name}.per_second", 0.0)
            return cycles / hz, Derivation(f"{name} / its clock", error)
    return None


def _over_sms(metrics: Mapping[str, float]) -> dict[str, float]:
    """``metrics`` with the instructions of the SMs' partitions as those of the SMs."""
    counted = [name for name in metrics if name.endswith(".sum")]
    named = {_OF_PARTITIONS.sub("sm__", name): metrics[name] for name in counted}
    return {**named, **metrics}


def _rates(metrics: Mapping[str, float]) -> Iterator[tuple[str, str, float]]:
    """The name and the value of each rate, and its sum; rates per cycle before those per second."""
    for name, value in metrics.items():
        if name.endswith(_PER_CYCLE):
            yield name, _OF_PARTITIONS.sub("sm__", name.removesuffix(".per_cycle_elapsed")), value
    for name, value in metrics.items():
        if match := _MULTIPLE.fullmatch(name):
            yield name, f"{_OF_PARTITIONS.sub('sm__', match[1])}.sum", value / int(match[2])
    for name, value in metrics.items():
        if name.endswith(_PER_SECOND) and "cycles_elapsed" not in name:
            yield name, _OF_PARTITIONS.sub("sm__", name.removesuffix(".per_second")), value
