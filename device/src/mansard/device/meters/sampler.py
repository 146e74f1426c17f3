"""A thread that reads meters at a steady pace and keeps every raw sample."""

from __future__ import annotations

import threading
from types import TracebackType

from mansard.core.errors import DeviceError
from mansard.core.records import PowerSample
from mansard.device.meters.meter import Meter

# Ten readings a second: as fast as a Jetson's sensors change (about 100 ms), and so
# rare that they can disturb at most 10 of the 500 samples of 2 ms in a second: 2 %.
PERIOD_S = 0.1


class Sampler:
    """Samples ``meters`` while its ``with`` block runs, one reading first and one last.

    A meter that fails stops the sampling; ``samples`` raises its DeviceError, so
    that an energy is never computed from what came before.
    """

    def __init__(self, meters: tuple[Meter, ...], period_s: float = PERIOD_S) -> None:
        self._meters = meters
        self._period_s = period_s
        self._samples: list[PowerSample] = []
        self._error: DeviceError | None = None
        self._reading = threading.Lock()  # a meter that counts on must not be read by two at once
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="power sampler", daemon=True)

    def __enter__(self) -> Sampler:
        if self._meters:
            self.read()
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
            self.read()

    def read(self) -> None:
        """Take one reading now, beside those of the thread."""
        try:
            with self._reading:
                for meter in self._meters:
                    self._samples.extend(meter.read())
        except DeviceError as error:
            self._error = error

    @property
    def samples(self) -> tuple[PowerSample, ...]:
        """All samples so far; raises DeviceError if a meter failed."""
        if self._error is not None:
            raise self._error
        return tuple(self._samples)

    def _run(self) -> None:
        while not self._stop.wait(self._period_s) and self._error is None:
            self.read()
