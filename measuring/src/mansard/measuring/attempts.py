"""Trials that were measured more than once in one run: every row is kept, the best one counts.

A row that is not known well (``core.records.quality``) is measured again by the next run of the
same plan. Its run then holds two files: that of its kind has the best row of each trial, which is
what readers take, and ``attempts.jsonl`` has all rows of the trials that were measured again, in
the order in which they were measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mansard.core.records import doubts, quality
from mansard.core.storage.files import find_status
from mansard.core.storage.jsonl import RowWriter, read_rows, write_rows
from mansard.measuring.kind import MeasurementKind, find_kind
from mansard.measuring.plan import RunPlan

FILE = "attempts.jsonl"
# Where three attempts were disturbed, a fourth is likely to be as well. The row says so, and the
# next command does not measure it again.
MOST_ATTEMPTS = 3


def doubtful_trials(plan: RunPlan, runs: Path) -> dict[str, str]:
    """Why trials that ``runs`` has rows of are worth measuring again, by their ids.

    Those that were measured ``MOST_ATTEMPTS`` times are not. A protocol without a cap on time has a
    fixed number of repetitions, which was asked for: then only disturbances are a reason. Raises
    SchemaError and StorageError.
    """
    kind, run_id = find_kind(plan.kind), plan.run_id
    path = runs / run_id / kind.rows_name
    if find_status(path, runs) is None:
        return {}
    n_attempts = Counter(row.trial_id for row in _rows(runs / run_id / FILE, kind, runs))
    is_timed = plan.protocol.time_cap_s > 0
    reasons = {
        row.trial_id: doubts(row, with_stability=is_timed)
        for row in read_rows(path, kind.row_type, runs).rows
        if n_attempts[row.trial_id] < MOST_ATTEMPTS and kind.is_result(row)
    }
    return {trial_id: "; ".join(why) for trial_id, why in reasons.items() if why}


class AttemptWriter:
    """Appends rows: of trials that are measured again to their own file, of others to ``rows``."""

    def __init__(self, again: RowWriter[Any], trial_ids: Collection[str], rows: RowWriter[Any]):
        self._again, self._trial_ids, self._rows = again, trial_ids, rows

    def append(self, row: Any) -> None:
        """Write one row; when this returns, it survives a kill and a power cut."""
        (self._again if row.trial_id in self._trial_ids else self._rows).append(row)


@contextmanager
def open_attempts(
    folder: Path,
    kind: MeasurementKind[Any, Any],
    again: Collection[str],
    rows: RowWriter[Any],
    runs: Path,
) -> Iterator[AttemptWriter]:
    """A writer of further rows of the trials ``again``; their first rows are in its file by then.

    Raises SchemaError and StorageError.
    """
    with RowWriter(folder / FILE, kind.row_type, runs, is_private=kind.is_private) as writer:
        known = {row.trial_id for row in _rows(folder / FILE, kind, runs)}
        writer.extend(
            row
            for row in _rows(rows.path, kind, runs)
            if row.trial_id in again and row.trial_id not in known
        )
        yield AttemptWriter(writer, again, rows)


def keep_best(folder: Path, kind: MeasurementKind[Any, Any], runs: Path) -> frozenset[str]:
    """Let the file of rows have the best row of each trial; the ids of those that changed.

    Of rows that are equally good the newest is the best one. A second call changes nothing, so
    that the next process can complete what a killed one began. Raises SchemaError and StorageError.
    """
    best = dict[str, Any]()
    for row in _rows(folder / FILE, kind, runs):
        earlier = best.get(row.trial_id)
        if earlier is None or quality(row) >= quality(earlier):
            best[row.trial_id] = row
    path = folder / kind.rows_name
    if not best or find_status(path, runs) is None:
        return frozenset()
    rows = read_rows(path, kind.row_type, runs).rows
    changed = frozenset(row.trial_id for row in rows if best.get(row.trial_id, row) != row)
    if changed:
        with RowWriter(path, kind.row_type, runs):  # keeps other processes out
            chosen = [best.get(row.trial_id, row) for row in rows]
            write_rows(path, kind.row_type, chosen, runs)
    return changed


def _rows(path: Path, kind: MeasurementKind[Any, Any], runs: Path) -> tuple[Any, ...]:
    if find_status(path, runs) is None:
        return ()
    return tuple(read_rows(path, kind.row_type, runs).rows)
