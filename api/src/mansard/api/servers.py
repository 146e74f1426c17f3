"""A server of a language model, measured in each mode."""

from __future__ import annotations

import msgspec

from mansard.analytics.models.predict.generation_times import GenerationTimes
from mansard.api.data import times_of_generations
from mansard.core.errors import MansardError
from mansard.core.records import GenerationRun, Manifest
from mansard.inference.servers.trial import GENERATIONS
from mansard.sweeps.modes import rows_of
from mansard.sweeps.reporter import SILENT, Reporter
from mansard.sweeps.servers import ServerRequest, sweep_server


class MeasuredGeneration(msgspec.Struct, frozen=True):
    """One row; ``manifest`` says in which mode, and on which machine."""

    manifest: Manifest
    run: GenerationRun
    times: GenerationTimes


class ServerResult(msgspec.Struct, frozen=True):
    """A server in the modes asked for, measured now or before, and what could not be measured."""

    measured: tuple[MeasuredGeneration, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, if there is one."""
        if self.failure is not None:
            raise self.failure


def measure_server(request: ServerRequest, reporter: Reporter = SILENT) -> ServerResult:
    """Measure a server in each mode: every prompt, answer and concurrency of the request.

    What was measured before is not measured again, unless asked for. Raises MeasurementError where
    a request fails: what was measured before is kept, and the board is put back; UsageError, and
    what keeps a board from being measured.
    """
    swept = sweep_server(request, reporter)
    rows = rows_of(request.runs, swept.run_ids, GENERATIONS)
    measured = (
        MeasuredGeneration(manifest, row, times)
        for (manifest, row), times in zip(rows, times_of_generations(rows), strict=True)
    )
    return ServerResult(tuple(measured), swept.failure)
