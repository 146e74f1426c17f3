"""A thread that reads meters at a steady pace and keeps every raw sample."""

from __future__ import annotations

import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from math import ceil, inf

from mansard.core.clock import SYSTEM_CLOCK, Clock
from mansard.core.errors import DeviceError
from mansard.core.records import EnergyWindow, PowerSample
from mansard.device.meters.energy import N_CHANGED_MIN, window_energy
from mansard.device.meters.meter import Meter, Meters, silent
from mansard.device.meters.readings import GAP_PERIODS, NEAR_S, counter_points, find_steps

CPU_SHARE = 0.02  # of one core: what sampling may cost
_WALL_SHARE = 0.5  # of the period: how long a reading may take, waiting included
_N_TRIED = 3  # readings whose cost decides the period
_LONGEST_SLEEP_S = 0.05  # so that the thread ends soon when asked
N_STEPS_MIN = 5  # of a counter, in a stretch much longer than its pace
LONGEST_PACE_S = 0.5  # for which a counter's next step is waited for
_IDLE_FACTOR = 3.0  # that an idle window may be longer than asked for, until a counter has moved
MOST_SAMPLES = 200_000  # about 50 MB; of four rails read forty times a second, twenty minutes


class Sampler:
    """Samples ``meters`` while its ``with`` block runs, one reading first and one last.

    The period is the meters' own unless ``period_s`` says otherwise, and longer where
    readings at that pace would cost more than ``CPU_SHARE``. Ticks lie on a fixed schedule:
    a late reading does not move those after it. A meter that stops answering gives samples
    without a number, and goes on being asked. Whenever there are more than ``most_samples``, every
    other reading is dropped, and the period doubles: what is sampled for hours fits into memory.
    """

    def __init__(
        self,
        meters: Meters,
        period_s: float | None = None,
        *,
        most_samples: int = MOST_SAMPLES,
    ) -> None:
        self._most_samples = most_samples
        self._meters = meters
        self._chosen_s = period_s
        self._clock = meters.clock
        self._end_calls: Callable[[], None] | None = None  # where the clock calls instead
        self._samples: list[PowerSample] = []
        self._reading = threading.Lock()  # a meter that counts on must not be read by two at once
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="power sampler", daemon=True)
        self._last_s: float | None = None
        self._last_values: tuple[float | None, ...] = ()
        self.period_s = period_s or meters.period_s
        self.n_readings = 0
        self.n_gaps = 0  # pauses between two readings of more than three periods
        self.n_repeated = 0  # readings in which no rail changed

    def __enter__(self) -> Sampler:
        if self._meters.found:
            self.read()
            if self._chosen_s is None:
                self.period_s = self._affordable_s()
            if self._clock.every is None:
                self._thread.start()
            else:
                self._end_calls = self._clock.every(self.period_s, self.read)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._end_calls is not None:
            self._end_calls()
            self.read()
        elif self._thread.ident is not None:
            self._thread.join()
            self.read()

    def read(self) -> None:
        """Take one reading now, beside those of the thread."""
        with self._reading:
            samples: list[PowerSample] = []
            for meter in self._meters.found:
                samples.extend(self._read_meter(meter))
            self._samples.extend(samples)
            self._count(samples)
            if len(self._samples) > self._most_samples:
                self._thin(len(samples))

    @property
    def samples(self) -> tuple[PowerSample, ...]:
        """All samples so far, in the order of time."""
        return tuple(self._samples)

    def between(self, start_s: float, end_s: float) -> tuple[PowerSample, ...]:
        """The samples within a stretch, in the order of time."""
        samples = self._samples
        first = bisect_left(samples, start_s, key=_time_s)
        return tuple(samples[first : bisect_right(samples, end_s, key=_time_s)])

    def forget(self, before_s: float) -> None:
        """Drop the samples that no window from ``before_s`` on needs."""
        with self._reading:
            n_rails = sum(len(meter.rails) for meter in self._meters.found)
            first = bisect_left(self._samples, before_s - NEAR_S, key=_time_s)
            whole = max(0, first - 2 * n_rails)  # readings: of each rail one sample
            self._samples = self._samples[whole - whole % max(1, n_rails) :]

    def step_times(self, start_s: float, end_s: float = inf) -> dict[str, list[float]]:
        """When each counter moved in a stretch, but for counters whose pace the meter knows.

        Those are fast; where there is no other counter the answer is empty.
        """
        paces_s = self._meters.facts(self.period_s).paces_s
        counted = counter_points(self.between(start_s, end_s))
        return {
            rail: [step.by_s for step in find_steps(points)[1:]]
            for rail, points in counted.items()
            if rail not in paces_s
        }

    def has_moved_since(self, time_s: float) -> bool:
        """Whether a reading covers that moment, and each counter has moved since it."""
        is_covered = bool(self._samples) and self._samples[-1].monotonic_s >= time_s
        return is_covered and all(self.step_times(time_s).values())

    def read_past(self, time_s: float) -> None:
        """Read on until each counter has moved since that moment, ``LONGEST_PACE_S`` at most."""
        self.read()
        while not self.has_moved_since(time_s) and self._clock.now_s() < time_s + LONGEST_PACE_S:
            self._clock.sleep(self.period_s)
            self.read()

    def window(
        self,
        start_s: float,
        end_s: float,
        *,
        n_changed_min: int = N_CHANGED_MIN,
        repetitions: int = 0,
    ) -> EnergyWindow:
        """The energy between two times; raises MeasurementError if no samples cover them."""
        return window_energy(
            self._samples,
            start_s,
            end_s,
            self._meters.facts(self.period_s),
            repetitions=repetitions,
            n_changed_min=n_changed_min,
        )

    def _read_meter(self, meter: Meter) -> tuple[PowerSample, ...]:
        try:
            return meter.read()
        except DeviceError as error:
            now_s, why = self._clock.now_s(), str(error)
            return tuple(silent(rail, now_s, why) for rail in meter.rails)

    def _thin(self, n_rails: int) -> None:
        """Keep every other reading, and the first and the last: they cover what was begun."""
        readings = [
            self._samples[at : at + n_rails] for at in range(0, len(self._samples), n_rails)
        ]
        thinned = [readings[0], *readings[1 + len(readings) % 2 :: 2]]
        self._samples = [sample for reading in thinned for sample in reading]
        self.period_s *= 2

    def _count(self, samples: list[PowerSample]) -> None:
        if not samples:
            return
        now_s = samples[0].monotonic_s
        values = tuple(
            sample.power_w if sample.energy_j is None else sample.energy_j for sample in samples
        )
        self.n_readings += 1
        if self._last_s is not None:
            self.n_gaps += now_s - self._last_s > GAP_PERIODS * self.period_s
            self.n_repeated += values == self._last_values
        self._last_s, self._last_values = now_s, values

    def _affordable_s(self) -> float:
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        for _ in range(_N_TRIED):
            self.read()
        cpu_s, wall_s = time.thread_time() - cpu_s, time.perf_counter() - wall_s
        return affordable_period_s(self.period_s, cpu_s / _N_TRIED, wall_s / _N_TRIED)

    def _run(self) -> None:
        start_s, tick, period_s = self._clock.now_s(), 0, self.period_s
        while True:
            now_s = self._clock.now_s()
            if self.period_s != period_s:  # the schedule begins anew
                start_s, tick, period_s = now_s, 0, self.period_s
            tick = next_tick(now_s - start_s, self.period_s, tick)
            due_s = start_s + tick * self.period_s
            # A sleep costs less than waiting for an event, which matters a hundred times a second.
            while due_s > now_s and not self._stop.is_set():
                self._clock.sleep(min(due_s - now_s, _LONGEST_SLEEP_S))
                now_s = self._clock.now_s()
            if self._stop.is_set():
                return
            self.read()


def _time_s(sample: PowerSample) -> float:
    return sample.monotonic_s


def next_tick(elapsed_s: float, period_s: float, tick: int) -> int:
    """The next tick after ``tick`` that is still ahead; missed ticks are skipped."""
    return max(tick + 1, ceil(elapsed_s / period_s))


def affordable_period_s(wanted_s: float, reading_cpu_s: float, reading_wall_s: float) -> float:
    """The shortest period from ``wanted_s`` up whose readings cost at most their limit."""
    return max(wanted_s, reading_cpu_s / CPU_SHARE, reading_wall_s / _WALL_SHARE)


def idle_window(
    sampler: Sampler, seconds: float, clock: Clock = SYSTEM_CLOCK, *, n_changed_min: int = 1
) -> EnergyWindow:
    """The energy of ``seconds`` in which no kernel runs, for the brackets of a trial.

    An idle board may sit on one step of its sensor: one change shows that the sensor lives. A
    counter that moves seldom has up to three times as long.
    """
    sampler.read()
    start_s = clock.now_s()
    clock.sleep(seconds)
    end_s = clock.now_s()
    while end_s < start_s + _IDLE_FACTOR * seconds and any(
        len(times_s) < N_STEPS_MIN for times_s in sampler.step_times(start_s).values()
    ):
        clock.sleep(seconds / 4)
        end_s = clock.now_s()
    sampler.read_past(end_s)
    return sampler.window(start_s, end_s, n_changed_min=n_changed_min)
