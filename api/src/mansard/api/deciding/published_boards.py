"""Predictions for a board without runs: the limits of its hardware, and published runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mansard.analytics.data.names import device_labels
from mansard.analytics.data.opening import open_runs
from mansard.analytics.data.published.hardware import boards_meant, hardware_rates
from mansard.analytics.data.published.reference import PAGODA_RUNS, write_reference
from mansard.analytics.data.published.store import device_names, published_in, write_published
from mansard.api.deciding.predictions import PredictionRequest
from mansard.core.errors import MansardError, UsageError, moved
from mansard.core.hardware import devices_called
from mansard.core.storage.leftovers import temporary_folder
from mansard.sweeps.reporter import Reporter

_DEFAULT = PredictionRequest().runs


@contextlib.contextmanager
def with_published(request: PredictionRequest, reporter: Reporter) -> Iterator[PredictionRequest]:
    """``request``; if its ``device`` has no runs, with the limits of that board's hardware as runs.

    Times by these roofs are bounds (of nominal clocks: recorded rates are up to 5 % above).
    Networks that ran on the board are added (``published.reference``); published rates are not, as
    kernels exceed them. All this is used if no folder is named and the default folder does not
    exist or has no runs of the device. A name of several boards is the first of ``boards_meant``; a
    note names the others. Raises UsageError for a name of no board.
    """
    if request.device is None or request.runs != _DEFAULT or _has_runs_of(request.device):
        yield request
        return
    try:
        board, *others = boards_meant(request.device)
    except UsageError:
        if not Path(_DEFAULT[0]).exists():
            raise
        yield request  # no board either: the error of the runs lists their devices
        return
    with temporary_folder() as runs:
        ran = (PAGODA_RUNS,) if PAGODA_RUNS.device == board.board else ()
        write_reference(runs, ran)
        write_published(runs, hardware_rates(board.board))
        by = f"the hardware limits of {board.board}" + "".join(
            f" and the networks of {table.authors}" for table in ran
        )
        names = ", ".join(other.board for other in others)
        also = f"; for another board name {names}" if others else ""
        reporter.note(f"note: no runs of {request.device}: predicted from {by}{also}")
        try:
            yield replace(request, runs=(str(runs),), device=board.board)
        except MansardError as error:  # the folder is gone when it is read
            if error.where is None or str(runs) not in error.where:
                raise
            where = f"the hardware limits of {board.board}"
            raise moved(error, where=where, fix=error.fix) from error


def _has_runs_of(device: str) -> bool:
    """Whether the default folder has runs or tables of a device of this name."""
    if not Path(_DEFAULT[0]).exists():
        return False
    dataset = open_runs(_DEFAULT)
    measured = device_labels(dataset.all_manifests).values()
    published = device_names(published_in(dataset.locations)).values()
    return bool(devices_called(device, [*measured, *published]))
