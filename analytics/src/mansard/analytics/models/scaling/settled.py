"""Rows without what holds a transient: samples of networks, and runs of programs.

Files keep every sample and every run. What is set aside has its reason, and its energy is set aside
with its time.
"""

from __future__ import annotations

import msgspec

from mansard.analytics.data.names import display_name
from mansard.analytics.data.transients import outlying
from mansard.core.records import Measurement, ProgramRun


def settled_network(row: Measurement) -> Measurement:
    """``row`` with outlying samples among those that are rejected, each with its reason."""
    doubts = outlying(row.seconds_s)
    if not doubts:
        return row
    used = [at for at in range(len(row.seconds_s)) if at not in doubts]
    return msgspec.structs.replace(
        row,
        seconds_s=tuple(row.seconds_s[at] for at in used),
        block=tuple(row.block[at] for at in used),
        rejected_s=(*row.rejected_s, *(row.seconds_s[at] for at in doubts)),
        rejected_reason=(*row.rejected_reason, *doubts.values()),
    )


def settled_program(row: ProgramRun) -> ProgramRun:
    """``row`` without runs of the program that took twice as long as the others, or half."""
    doubts = outlying([run.wall_s for run in row.repetitions])
    if not doubts:
        return row
    used = tuple(run for at, run in enumerate(row.repetitions) if at not in doubts)
    return msgspec.structs.replace(row, repetitions=used)


def transient_notes(row: Measurement | ProgramRun) -> tuple[str, ...]:
    """What is set aside of a row as it was recorded, in a line; empty where nothing is."""
    if isinstance(row, Measurement):
        name, what, times_s = row.model, "sample", row.seconds_s
    else:
        name, what = row.workload, "run"
        times_s = tuple(run.wall_s for run in row.repetitions)
    doubts = outlying(times_s)
    if not doubts:
        return ()
    n = f"{len(doubts)} {what}{'s' if len(doubts) > 1 else ''}"
    return (
        f"{display_name(name)}: {n} of {len(times_s)} in no model: {next(iter(doubts.values()))}",
    )
