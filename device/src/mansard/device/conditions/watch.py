"""Watches a machine's conditions beside trials, and sums them up for each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

import msgspec

from mansard.core.records import Conditions, Spread
from mansard.device.conditions.gpu_processes import GpuProcessesFound
from mansard.device.conditions.sources import (
    ConditionsReading,
    Sources,
    WatchedClock,
    count_increase,
    count_rises,
    find_sources,
)
from mansard.device.system import why_unreadable

# A line through fewer readings, or over less time, shows the sensor's steps and not the machine.
LEAST_READINGS = 4
LEAST_S = 1.5


class TrialReadings(msgspec.Struct, frozen=True, kw_only=True):
    """What is read before and after a trial alone."""

    throttles: tuple[int | None, ...]
    overcurrents: tuple[int | None, ...]
    alarms: tuple[int | None, ...]


def summarise(
    sources: Sources,
    readings: Sequence[ConditionsReading],
    looks: Sequence[TrialReadings],
    neighbours: Sequence[GpuProcessesFound],
) -> Conditions:
    """The conditions over all readings; each None with its reason."""
    reasons = {
        "cpu_clock_hz": _why_no_clock(sources.cpu_clocks, "the clock of each of these CPUs"),
        "gpu_clock_hz": _why_no_clock((sources.gpu_clock,), "a GPU's clock"),
        "memory_clock_hz": _why_no_clock((sources.memory_clock,), "the memory's clock"),
        "temperature_c": sources.thermometers.why_not or "the sensor did not answer",
        "temperature_slope_c_per_s": f"it takes {LEAST_READINGS} readings over {LEAST_S} s in the "
        "second half of the trial",
        "n_throttle_events": sources.throttling.why_not,
        "n_overcurrent_events": sources.overcurrent.why_not,
        "gpu_processes": neighbours[-1].why_not if neighbours else "not looked for",
    }
    values: dict[str, object] = {
        name: _spread([getattr(reading, name) for reading in readings])
        for name in ("cpu_clock_hz", "gpu_clock_hz", "memory_clock_hz", "temperature_c")
    }
    values["temperature_slope_c_per_s"] = temperature_slope(readings)
    values["n_throttle_events"] = _n_throttles(sources, readings, looks)
    values["n_overcurrent_events"] = _n_overcurrents(sources, looks)
    values["gpu_processes"] = _processes(neighbours)
    return Conditions(
        **values,  # type: ignore[arg-type]
        unknown={name: reasons[name] for name, value in values.items() if value is None},
    )


def temperature_slope(readings: Sequence[ConditionsReading]) -> float | None:
    """Slope in °C/s of the least-squares line through the later half of the readings.

    The first half is left out: a chip warms by some degrees at once when work begins, and that
    says nothing about whether it has settled.
    """
    known = [(r.monotonic_s, r.temperature_c) for r in readings if r.temperature_c is not None]
    later = known[len(known) // 2 :]
    if len(later) < LEAST_READINGS or later[-1][0] - later[0][0] < LEAST_S:
        return None
    mean_s = sum(at_s for at_s, _ in later) / len(later)
    mean_c = sum(celsius for _, celsius in later) / len(later)
    rise = sum((at_s - mean_s) * (celsius - mean_c) for at_s, celsius in later)
    return rise / sum((at_s - mean_s) ** 2 for at_s, _ in later)


def _why_no_clock(clocks: Sequence[WatchedClock | None], what: str) -> str:
    found = [clock for clock in clocks if clock is not None]
    if not found:
        return f"no file with {what} is here"
    silent = next((clock for clock in found if clock.read_hz() is None), None)
    return why_unreadable(silent.path) if silent else "a reading of it did not answer"


def _spread(readings: Sequence[float | None]) -> Spread | None:
    """Before, extremes and after; None where the first or last reading did not answer."""
    if not readings or readings[0] is None or readings[-1] is None:
        return None
    known = [reading for reading in readings if reading is not None]
    return Spread(before=readings[0], low=min(known), high=max(known), after=readings[-1])


def _n_throttles(
    sources: Sources, readings: Sequence[ConditionsReading], looks: Sequence[TrialReadings]
) -> int | None:
    if not (sources.throttling.are_known and looks):
        return None
    counted = count_increase(looks[0].throttles, looks[-1].throttles)
    return counted + count_rises([reading.limits for reading in readings])


def _n_overcurrents(sources: Sources, looks: Sequence[TrialReadings]) -> int | None:
    if not (sources.overcurrent.are_known and looks):
        return None
    counted = count_increase(looks[0].overcurrents, looks[-1].overcurrents)
    # One event sets alarms of several rails and may be counted as well: the greater number holds.
    is_on = [(max((alarm or 0 for alarm in look.alarms), default=0),) for look in looks]
    return max(counted, count_rises(is_on))


def _processes(neighbours: Sequence[GpuProcessesFound]) -> tuple[str, ...] | None:
    if not neighbours or neighbours[-1].names is None:
        return None
    return tuple(dict.fromkeys(name for found in neighbours for name in found.names or ()))


PERIOD_S = 0.5
READINGS_PER_PROCESSES = 4  # the list of processes costs more than a clock


class Watch:
    """``with Watch(root, cpus) as watch: …`` and then ``watch.conditions``.

    One reading before the block, one every ``period_s`` in a thread, one after it. ``sources``
    spares finding the files again for each trial. No reading raises.
    """

    def __init__(
        self,
        root: Path,
        cpus: Sequence[int],
        period_s: float = PERIOD_S,
        *,
        sources: Sources | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sources = sources or find_sources(root, cpus)
        self._period_s = period_s
        self._clock = clock
        self._readings: list[ConditionsReading] = []
        self._looks: list[TrialReadings] = []
        self._neighbours: list[GpuProcessesFound] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conditions", daemon=True)

    def __enter__(self) -> Watch:
        self._look()
        self._read()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._read()
        self._look()

    @property
    def conditions(self) -> Conditions:
        """What was seen, from the first reading to the last so far."""
        readings, looks = tuple(self._readings), tuple(self._looks)
        return summarise(self._sources, readings, looks, tuple(self._neighbours))

    def _read(self) -> None:
        self._readings.append(self._sources.read(self._clock()))

    def _look(self) -> None:
        """What costs more, and is counted by the machine itself in between."""
        sources = self._sources
        self._looks.append(
            TrialReadings(
                throttles=sources.throttling.read_counts(),
                overcurrents=sources.overcurrent.read_counts(),
                alarms=sources.overcurrent.read_alarms(),
            )
        )
        self._neighbours.append(sources.processes.find())

    def _run(self) -> None:
        n_readings = 0
        while not self._stop.wait(self._period_s):
            self._read()
            n_readings += 1
            if n_readings % READINGS_PER_PROCESSES == 0:
                self._neighbours.append(self._sources.processes.find())
