"""zeus' log (``ZeusMonitor(log_file=…)``): time and energy of each window of a program."""

from __future__ import annotations

import re

from mansard.analytics.data.published.cells import TextRow
from mansard.analytics.data.published.readers.csv_rows import header_of, number, read_csv
from mansard.analytics.data.published.readers.reader import (
    MOST_RUNS,
    Reader,
    Reading,
    ToolFile,
    at_most,
    cells,
    known,
)
from mansard.core.errors import InputError

_COLUMNS = ["start_time", "window_name", "elapsed_time"]  # seconds
_LONGEST_STEP_S = 1.0  # NVML's counter moves far more often
_ENERGY = re.compile(r"gpu\d+_energy")  # joules


def _read(source: ToolFile) -> Reading:
    rows: list[TextRow] = []
    n_silent = n_uncounted = 0
    for row in at_most(read_csv(source, "zeus"), MOST_RUNS, "windows", source):
        meters = [name for name in row.cells if _ENERGY.fullmatch(name)]
        energies = [number(row, name, source) for name in meters]
        if any(energy is not None and energy < 0 for energy in energies):
            raise InputError(
                f"line {row.line} has an energy below 0", where=source.where, fix="remove the row"
            )
        energy_j = sum(energy or 0.0 for energy in energies)
        time_s = number(row, "elapsed_time", source)
        # NVML's counter moves every 20 to 100 ms: a 0 is a window that was too short for it.
        is_metered = None not in energies and energy_j > 0
        is_long = time_s is not None and time_s > _LONGEST_STEP_S
        n_silent += not is_metered and not is_long
        n_uncounted += not is_metered and is_long
        rows.append(
            TextRow(
                row.line,
                cells(
                    network=row.cells["window_name"],
                    time_s=time_s,
                    energy_j=energy_j if is_metered else None,
                    method=f"zeus: one window of the program; energy of "
                    f"{' and '.join(name.partition('_')[0] for name in meters)} by NVML",
                    repeat=str(row.line),
                ),
                known(energy_j=energy_j if is_metered else None),
            )
        )
    if not rows:
        raise InputError("holds no window", where=source.where, fix="end a window before the end")
    notes = [f"{n_silent} windows have no energy: they are too short for the counter"]
    notes *= bool(n_silent)
    if n_uncounted:
        notes.append(
            f"{n_uncounted} windows have no energy though they are long: NVML counts none there, "
            "as on a Jetson, whose meter is its INA3221"
        )
    return Reading(rows, notes)


ZEUS = Reader("zeus' log", lambda head: header_of(head)[:3] == _COLUMNS, _read)
