"""Predictions for a board that is not here: published figures in the place of runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from mansard.analytics.data.published.hardware import hardware_rates
from mansard.analytics.data.published.reference import PAGODA_RUNS, RATES, write_reference
from mansard.analytics.data.published.store import write_published
from mansard.api.deciding.predictions import PredictionRequest
from mansard.core.hardware import devices_called
from mansard.core.storage.leftovers import temporary_folder
from mansard.sweeps.reporter import Reporter

_DEFAULT = PredictionRequest().runs


@contextlib.contextmanager
def with_published(request: PredictionRequest, reporter: Reporter) -> Iterator[PredictionRequest]:
    """``request``; without any runs, that of the board which its ``device`` names.

    The board's figures are the shipped ones (``published.reference``), else the limits of its
    hardware. They are used where no folder is named and the default one does not exist. Raises
    UsageError for a name of no board, or of several.
    """
    if request.device is None or request.runs != _DEFAULT or Path(_DEFAULT[0]).exists():
        yield request
        return
    tables = (*RATES, PAGODA_RUNS)
    called = devices_called(request.device, [table.device for table in tables])
    of_board = () if called else (hardware_rates(request.device),)
    with temporary_folder() as runs:
        write_reference(runs, tuple(table for table in tables if table.device in called))
        for imported in of_board:
            write_published(runs, imported)
        devices = dict.fromkeys([*called, *(one.rates[0].device for one in of_board)])
        reporter.note(
            f"note: no runs here: predicted from published figures of {', '.join(devices)}"
        )
        yield replace(request, runs=(str(runs),))
