"""Records a machine's conditions during trials, and summarises them for each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from mansard.core.records import Conditions, EnergyWindow, Spread
from mansard.device.conditions.mode_settings import describe
from mansard.device.conditions.sources import (
    ConditionsReading,
    Sources,
    WatchedClock,
    count_increase,
    count_rises,
    find_sources,
)
from mansard.device.conditions.surroundings import (
    GpuProcessesFound,
    memory_use_of,
    read_swapped_bytes,
)
from mansard.device.file_watch import FileWatcher
from mansard.device.system import why_unreadable

# A line through fewer readings, or over less time, shows the sensor's steps and not the machine.
LEAST_READINGS = 4
LEAST_S = 1.5


class TrialReadings(msgspec.Struct, frozen=True, kw_only=True):
    """Readings taken only before and after a trial."""

    throttles: tuple[int | None, ...]
    overcurrents: tuple[int | None, ...]
    alarms: tuple[int | None, ...]
    swapped_bytes: int | None  # since the machine was started


def summarise(
    sources: Sources,
    readings: Sequence[ConditionsReading],
    looks: Sequence[TrialReadings],
    neighbours: Sequence[GpuProcessesFound],
    written: Collection[str] = (),
    memory_shares: Sequence[float | None] = (),
) -> Conditions:
    """The conditions over all readings; each None with its reason.

    ``written``: settings that another program wrote between the readings. ``memory_shares``:
    readings of the memory's use.
    """
    spreads = {
        "cpu_clock_hz": _why_no_clock(sources.cpu_clocks, "the clock of each of these CPUs"),
        "gpu_clock_hz": _why_no_clock((sources.gpu_clock,), "a GPU's clock"),
        "memory_clock_hz": _why_no_clock((sources.memory_clock,), "the memory's clock"),
        "temperature_c": sources.thermometers.why_not or "the sensor did not answer",
        "fan_speed_rpm": "no fan shows its speed",
        "fan_drive_share": "no fan shows how much it is driven",
    }
    summaries: dict[str, tuple[object, str]] = {  # a value, or why it is None
        name: (_spread([getattr(reading, name) for reading in readings]), why)
        for name, why in spreads.items()
    }
    summaries |= {
        "temperature_slope_c_per_s": (
            temperature_slope(readings),
            f"it takes {LEAST_READINGS} readings over {LEAST_S} s in the second half of the trial",
        ),
        "n_throttle_events": (_n_throttles(sources, readings, looks), sources.why_no_throttling),
        "n_overcurrent_events": (_n_overcurrents(sources, looks), sources.overcurrent.why_not),
        "gpu_processes": (
            _processes(neighbours),
            neighbours[-1].why_not if neighbours else "not looked for",
        ),
        "settings_changed": (
            _settings_changed(sources, readings, written),
            "no setting of clocks, cores or governors can be read here",
        ),
        "engines": (
            _engines(readings),
            "no video engine or accelerator shows its power state here",
        ),
        "swapped_bytes": (
            _swapped_bytes(looks),
            "/proc/vmstat does not count pages swapped in and out",
        ),
        "memory_use": (
            memory_use_of(sources.memory_use.source, memory_shares),
            sources.memory_use.why_not or "no reading while it ran gave a value",
        ),
    }
    return Conditions(
        **{name: value for name, (value, _) in summaries.items()},  # type: ignore[arg-type]
        unknown={name: why for name, (value, why) in summaries.items() if value is None},
    )


def temperature_slope(readings: Sequence[ConditionsReading]) -> float | None:
    """Slope in °C/s of the least-squares line through the later half of the readings.

    The first half is left out: a chip warms by some degrees at once when work begins, and that
    says nothing about whether it has settled.
    """
    answered = [(r.monotonic_s, r.temperature_c) for r in readings if r.temperature_c is not None]
    later = answered[len(answered) // 2 :]
    if len(later) < LEAST_READINGS or later[-1][0] - later[0][0] < LEAST_S:
        return None
    mean_s = sum(at_s for at_s, _ in later) / len(later)
    mean_c = sum(celsius for _, celsius in later) / len(later)
    rise = sum((at_s - mean_s) * (celsius - mean_c) for at_s, celsius in later)
    return rise / sum((at_s - mean_s) ** 2 for at_s, _ in later)


def _why_no_clock(clocks: Sequence[WatchedClock | None], what: str) -> str:
    watched = [clock for clock in clocks if clock is not None]
    if not watched:
        return f"no file with {what} is here"
    silent = next((clock for clock in watched if clock.read_hz() is None), None)
    return why_unreadable(silent.path) if silent else "a reading of it did not answer"


def _spread(readings: Sequence[float | None]) -> Spread | None:
    """Before, extremes and after; None where the first or last reading did not answer."""
    if not readings or readings[0] is None or readings[-1] is None:
        return None
    answered = [reading for reading in readings if reading is not None]
    return Spread(before=readings[0], low=min(answered), high=max(answered), after=readings[-1])


def _n_throttles(
    sources: Sources, readings: Sequence[ConditionsReading], looks: Sequence[TrialReadings]
) -> int | None:
    if sources.why_no_throttling or not looks:
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
    return tuple(dict.fromkeys(name for neighbour in neighbours for name in neighbour.names or ()))


def _settings_changed(
    sources: Sources, readings: Sequence[ConditionsReading], written: Collection[str]
) -> tuple[str, ...] | None:
    """The first difference of each setting from the mode, over all readings."""
    if not sources.settings.values:
        return None
    seen = dict.fromkeys(change for reading in readings for change in reading.changes)
    first = {change.path: change for change in reversed(seen)}  # the first that was seen counts
    return describe(tuple(first.values()), written)


def _engines(readings: Sequence[ConditionsReading]) -> tuple[str, ...] | None:
    answered = [reading.engines for reading in readings if reading.engines is not None]
    return tuple(sorted({name for names in answered for name in names})) if answered else None


def _swapped_bytes(looks: Sequence[TrialReadings]) -> int | None:
    ends = [look.swapped_bytes for look in (*looks[:1], *looks[-1:])]
    return count_increase(ends[:1], ends[1:]) if ends and None not in ends else None


PERIOD_S = 0.5
READINGS_PER_PROCESSES = 4  # the list of processes costs more than a clock
MEMORY_PER_READING = 10  # the memory's use: two files, and an energy window may be 0.3 s long


class Watch:
    """``with Watch(root, cpus) as watch: …`` and then ``watch.conditions``.

    One reading before the block, one every ``period_s`` in a thread, one after it; in the thread
    also ten of the memory's use for each, of which those in ``windows`` count (None: all). Where a
    program writes a setting of the mode meanwhile, the system reports it (``FileWatcher``), however
    soon it is written back. ``sources`` spares finding the files again for each trial. No reading
    raises.
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
        self._settings = {file: path for path, file in self._sources.settings.files.items()}
        self._written: set[str] = set()
        self.windows: Sequence[EnergyWindow] | None = None
        self._memory: list[tuple[float, float | None]] = []  # when it was read, and the share
        self._watcher = FileWatcher(self._settings)  # before the first reading: none is missed
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="conditions", daemon=True)

    def __enter__(self) -> Watch:
        self._look()
        self._read()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._watcher.wake()
        self._thread.join()
        self._read()
        self._look()
        self._note(self._watcher.wait(0.0))
        self._watcher.close()

    def restart(self) -> None:
        """Forget what was seen so far."""
        self._readings, self._looks, self._neighbours, self._memory = [], [], [], []
        self._note(self._watcher.wait(0.0))
        self._written = set()
        self._look()
        self._read()

    @property
    def conditions(self) -> Conditions:
        """The conditions from the first reading to the latest."""
        readings, looks = tuple(self._readings), tuple(self._looks)
        neighbours, written = tuple(self._neighbours), frozenset(self._written)
        return summarise(self._sources, readings, looks, neighbours, written, self._memory_shares())

    def _memory_shares(self) -> list[float | None]:
        readings, windows = tuple(self._memory), self.windows
        return [
            share
            for at_s, share in readings
            if windows is None
            or any(window.start_s <= at_s <= window.start_s + window.window_s for window in windows)
        ]

    def _read(self) -> None:
        self._readings.append(self._sources.read(self._clock()))

    def _look(self) -> None:
        """Take the costlier readings, which the machine itself counts in between."""
        sources = self._sources
        self._looks.append(
            TrialReadings(
                throttles=sources.throttling.read_counts(),
                overcurrents=sources.overcurrent.read_counts(),
                alarms=sources.overcurrent.read_alarms(),
                swapped_bytes=read_swapped_bytes(sources.root),
            )
        )
        self._neighbours.append(sources.processes.find())

    def _note(self, written: Iterable[Path]) -> None:
        self._written.update(self._settings[file] for file in written)

    def _run(self) -> None:
        n_steps, n_readings = 0, 0
        n_per_reading = MEMORY_PER_READING if self._sources.memory_use.source else 1
        while not self._is_over.is_set():
            n_written = len(self._written)
            if n_written:  # a program that writes on and on must not keep this one busy
                self._is_over.wait(self._period_s / n_per_reading)
            else:  # the first write of a setting is followed by a reading at once
                self._note(self._watcher.wait(self._period_s / n_per_reading))
            if self._is_over.is_set():
                return
            self._memory.append((self._clock(), self._sources.read_memory_share()))
            n_steps += 1
            if n_steps % n_per_reading and len(self._written) == n_written:
                continue
            self._read()
            n_readings += 1
            if n_readings % READINGS_PER_PROCESSES == 0:
                self._neighbours.append(self._sources.processes.find())
