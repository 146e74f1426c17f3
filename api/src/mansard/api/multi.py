"""Several networks at once, in stages on several devices: mappings, run in each mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mansard.core.errors import MansardError, MeasurementError
from mansard.core.records import MultiRun
from mansard.inference.multi.trial import MULTI
from mansard.sweeps.mappings import MultiRequest, sweep_mappings
from mansard.sweeps.modes import begun, rows_of
from mansard.sweeps.reporter import SILENT, Reporter

if TYPE_CHECKING:
    from mansard.inference.multi.plan import Mapping


class MeasuredMulti(msgspec.Struct, frozen=True):
    """A row, and the mode that it was measured in."""

    machine: str
    mode: str
    row: MultiRun


class MultiResult(msgspec.Struct, frozen=True):
    """What ran, now or before, and what could not be measured."""

    rows: tuple[MeasuredMulti, ...]
    failure: MansardError | None

    def check(self) -> None:
        """Raise ``failure``, or name the mappings that could not be run."""
        if self.failure is not None:
            raise self.failure
        failed = [found.row for found in self.rows if found.row.failure is not None]
        if failed:
            raise MeasurementError(
                f"{len(failed)} of {len(self.rows)} mappings could not be run; the first: "
                f"{failed[0].failure}",
                fix="to try one again, move the folder of its run away",
            )


def run_mappings(
    request: MultiRequest, mappings: Sequence[Mapping], reporter: Reporter = SILENT
) -> MultiResult:
    """Run each of ``mappings`` in each mode, and keep every row in ``request.runs``.

    Mappings of the same networks that follow one another share their files and a run of each mode;
    the files are removed after it. What was measured before, or comes twice, is not measured
    again. Raises UsageError for a mapping that nothing could run, and any MansardError that keeps
    everything from being measured.
    """
    swept = sweep_mappings(request, mappings, reporter)
    rows = tuple(
        MeasuredMulti(manifest.machine.name, manifest.mode_read_back.name, row)
        for manifest, row in sorted(rows_of(request.runs, swept.run_ids, MULTI), key=begun)
    )
    return MultiResult(rows, swept.failure)
