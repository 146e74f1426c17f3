"""A room that measures something new, a sleep: all that it takes to do so through ``measuring``."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar

from mansard.core.records import Record
from mansard.core.records.base import Schema
from mansard.measuring.instruments import Instruments, Observation
from mansard.measuring.kind import MeasurementKind, Opened
from mansard.measuring.plan import PlannedTrial, RunPlan
from mansard.measuring.raw_samples import RawSample
from mansard.measuring.sampling import collect


class Nap(PlannedTrial, frozen=True, kw_only=True):
    """How long one repetition sleeps."""

    nap_s: float
    rest_s: float = 0.0  # before the first
    announced_s: float = 0.0  # how long it says that it may rest; 0: it says nothing
    signal: int = 0  # that ends the measuring process before it sleeps; 0: none

    @property
    def title(self) -> str:
        return f"sleep {self.nap_s:g} s"


class NapPlan(RunPlan, frozen=True, kw_only=True):
    """The plan of a run of naps."""

    schema: ClassVar[Schema] = Schema("nap-plan", 1)
    kind: ClassVar[str] = "tests.measuring.made_up_room:NAPS"
    trials: tuple[Nap, ...]


class NapRow(Record, frozen=True, kw_only=True):
    """How long a sleep lasted, and under which conditions."""

    schema: ClassVar[Schema] = Schema("nap", 1)
    run_id: str
    trial_id: str
    nap_s: float
    seconds_s: tuple[float, ...]
    duration_s: float
    failure: str = ""


class Sleeper:
    def take(self, n_samples: int, n: int, should_stop: Callable[[], bool]) -> list[RawSample]:
        return [self._nap(n) for _ in range(n_samples)]

    def __init__(self, nap_s: float) -> None:
        self.nap_s = nap_s

    def _nap(self, repetitions: int) -> RawSample:
        start_s = time.monotonic()
        time.sleep(repetitions * self.nap_s)
        return RawSample(duration_s=time.monotonic() - start_s, started_s=start_s)


@contextmanager
def _open(plan: NapPlan) -> Iterator[Opened[NapRow]]:
    def measure(nap: Nap, instruments: Instruments) -> NapRow:
        if nap.announced_s:
            instruments.announce("a long rest", nap.announced_s)
        time.sleep(nap.rest_s)
        if nap.signal:
            os.kill(os.getpid(), nap.signal)
        with Observation(instruments, plan) as seen:
            samples = collect(Sleeper(nap.nap_s), plan.protocol, plan.protocol.stream_interval)
        return NapRow(
            run_id=plan.run_id,
            trial_id=nap.trial_id,
            nap_s=nap.nap_s,
            seconds_s=samples.seconds_s,
            duration_s=seen.duration_s,
        )

    yield Opened(measure, None, "a sleep needs no GPU")


def _crashed(plan: NapPlan, nap: Nap, how: str, duration_s: float) -> NapRow:
    return NapRow(
        run_id=plan.run_id,
        trial_id=nap.trial_id,
        nap_s=nap.nap_s,
        seconds_s=(),
        duration_s=duration_s,
        failure=how,
    )


NAPS = MeasurementKind("naps", NapPlan, NapRow, _open, rows_name="naps.jsonl", crashed=_crashed)
