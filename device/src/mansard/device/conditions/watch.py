"""Looks at the machine before, during and after a trial."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from mansard.core.records import Conditions
from mansard.device.conditions.gpu_processes import Found
from mansard.device.conditions.sources import Reading, Sources, find_sources
from mansard.device.conditions.summary import Looks, summarise

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
        self._readings: list[Reading] = []
        self._looks: list[Looks] = []
        self._neighbours: list[Found] = []
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
            Looks(
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
