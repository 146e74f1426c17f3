"""The energy of a kernel: it runs without pause while the meters are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mansard.core.clock import Clock
from mansard.core.errors import MeasurementError
from mansard.core.records import EnergyWindow, PowerSample
from mansard.device.meters.meter import Meters
from mansard.device.meters.sampler import Sampler, idle_window
from mansard.measuring.protocol import Protocol
from mansard.measuring.raw_samples import RawSample, SampleSource

_CHUNK_S = 0.25  # how often it is looked whether a window has seen enough


@dataclass(frozen=True)
class Metered:
    """The energy windows of one trial, or the reason why there are none."""

    windows: tuple[EnergyWindow, ...] | None
    reason: str | None


NO_METER = "no meter; 'mansard doctor' says what is missing"
UNMETERED = Metered(None, NO_METER)


@dataclass(frozen=True)
class Stretch:
    """A stretch of running without pause, on the monotonic clock."""

    start_s: float
    end_s: float
    repetitions: int


class EnergyMetering:
    """Meters over a kernel that runs on; ``keep`` gets every raw reading in the end.

    ``period_s``: between two readings; None is the meters' own.
    """

    def __init__(
        self,
        meters: Meters,
        protocol: Protocol,
        keep: Callable[[PowerSample], None],
        period_s: float | None = None,
    ) -> None:
        self._meters = meters
        self._protocol = protocol
        self._keep = keep
        self._period_s = period_s

    def run(
        self, source: SampleSource, repetitions: int, should_stop: Callable[[], bool]
    ) -> Metered:
        """Let the power settle, then take the protocol's windows; never raises for a meter."""
        sampler = Sampler(self._meters, self._period_s)
        try:
            with sampler:
                runner = _Runner(source, repetitions, self._protocol.sample_s, should_stop)
                _settle(runner, sampler, self._protocol, self._meters.clock)
                windows: list[EnergyWindow] = []
                while len(windows) < self._protocol.n_energy_windows and not should_stop():
                    windows.append(_take_window(runner, sampler, self._protocol))
            for sample in sampler.samples:
                self._keep(sample)
        except MeasurementError as error:
            return Metered(None, str(error))
        if not windows:
            return Metered(None, "stopped before its first window")
        return Metered(tuple(windows), None)

    def idle(self) -> EnergyWindow:
        """A window in which nothing of ours runs; raises MeasurementError."""
        with Sampler(self._meters) as sampler:
            window = idle_window(sampler, self._protocol.idle_s, self._meters.clock)
        for sample in sampler.samples:
            self._keep(sample)
        return window


class _Runner:
    """Runs the kernel for about so many seconds and says from when to when it did."""

    def __init__(
        self,
        source: SampleSource,
        repetitions: int,
        sample_s: float,
        should_stop: Callable[[], bool],
    ) -> None:
        self._source = source
        self._repetitions = repetitions
        self._should_stop = should_stop
        # A repetition may take longer than a sample is to last.
        self._sample_s = max(sample_s, self._take(1)[0].duration_s)

    def run(self, duration_s: float) -> Stretch:
        raw = self._take(max(1, round(duration_s / self._sample_s)))
        end_s = max(sample.started_s + sample.duration_s for sample in raw)
        return Stretch(raw[0].started_s, end_s, len(raw) * self._repetitions)

    def _take(self, n_samples: int) -> list[RawSample]:
        raw = self._source.take(n_samples, self._repetitions, self._should_stop)
        if not raw:
            raise MeasurementError("stopped before the window was through")
        return raw


def _settle(runner: _Runner, sampler: Sampler, protocol: Protocol, clock: Clock) -> None:
    """Run until the power of two stretches in a row agrees, or the time for it is up."""
    end_s = clock.now_s() + protocol.settle_cap_s
    before_w: dict[str, float] = {}
    while True:
        stretch = runner.run(protocol.settle_s)
        sampler.read()
        window = sampler.window(stretch.start_s, stretch.end_s, n_changed_min=1, repetitions=0)
        powers_w = {
            rail.rail: rail.energy_j / window.window_s
            for rail in window.rails
            if rail.energy_j is not None
        }
        agree = before_w.keys() == powers_w.keys() and all(
            abs(power_w - before_w[rail]) <= protocol.settle_change * abs(power_w)
            for rail, power_w in powers_w.items()
        )
        if agree or clock.now_s() >= end_s:
            return
        before_w = powers_w


def _take_window(runner: _Runner, sampler: Sampler, protocol: Protocol) -> EnergyWindow:
    """One window: as long as it must be, and until the sensor has changed often enough."""
    first = runner.run(min(_CHUNK_S, protocol.energy_window_s))
    repetitions, end_s = first.repetitions, first.end_s
    while True:
        sampler.read()  # so that the samples reach over the end
        window = sampler.window(
            first.start_s, end_s, n_changed_min=protocol.n_changed_min, repetitions=repetitions
        )
        # A rail outside the total may sit on one step of its sensor for ever.
        measurable = window.total_j is not None or all(
            rail.energy_j is not None for rail in window.rails
        )
        long_enough = window.window_s >= protocol.energy_window_s
        if (measurable and long_enough) or window.window_s >= protocol.energy_window_cap_s:
            return window
        chunk = runner.run(_CHUNK_S)
        repetitions, end_s = repetitions + chunk.repetitions, chunk.end_s
