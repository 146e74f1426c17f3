"""Predictions for a board without runs, from published figures."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mansard.analytics.data.names import device_labels
from mansard.analytics.data.opening import open_runs
from mansard.analytics.data.published.hardware import hardware_rates
from mansard.analytics.data.published.reference import PAGODA_RUNS, RATES, write_reference
from mansard.analytics.data.published.store import device_names, published_in, write_published
from mansard.api.deciding.predictions import PredictionRequest
from mansard.core.errors import MansardError, UsageError, moved
from mansard.core.hardware import devices_called
from mansard.core.storage.leftovers import temporary_folder
from mansard.sweeps.reporter import Reporter

_DEFAULT = PredictionRequest().runs


@contextlib.contextmanager
def with_published(request: PredictionRequest, reporter: Reporter) -> Iterator[PredictionRequest]:
    """``request``; if its ``device`` has no runs, with published figures of that board as runs.

    These are the shipped figures (``published.reference``), else the limits of the hardware. They
    are used if no folder is named and the default folder does not exist or has no runs of the
    device. Raises UsageError for a name of no board, or of several.
    """
    if request.device is None or request.runs != _DEFAULT or _has_runs_of(request.device):
        yield request
        return
    tables = (*RATES, PAGODA_RUNS)
    called = devices_called(request.device, [table.device for table in tables])
    try:
        of_board = () if called else (hardware_rates(request.device),)
    except UsageError:
        if not Path(_DEFAULT[0]).exists():
            raise
        yield request  # no board either: the error of the runs lists their devices
        return
    with temporary_folder() as runs:
        write_reference(runs, tuple(table for table in tables if table.device in called))
        for imported in of_board:
            write_published(runs, imported)
        devices = dict.fromkeys([*called, *(one.rates[0].device for one in of_board)])
        reporter.note(
            f"note: no runs of {request.device}: predicted from published figures of "
            f"{', '.join(devices)}"
        )
        try:
            yield replace(request, runs=(str(runs),))
        except MansardError as error:  # the folder is gone when it is read
            if error.where is None or str(runs) not in error.where:
                raise
            where = f"published figures of {', '.join(devices)}"
            raise moved(error, where=where, fix=error.fix) from error


def _has_runs_of(device: str) -> bool:
    """Whether the default folder has runs or tables of a device of this name."""
    if not Path(_DEFAULT[0]).exists():
        return False
    dataset = open_runs(_DEFAULT)
    measured = device_labels(dataset.all_manifests).values()
    published = device_names(published_in(dataset.locations)).values()
    return bool(devices_called(device, [*measured, *published]))
