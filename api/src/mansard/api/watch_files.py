"""Looks at boards as a file: a row for each, CSV or records, whole up to the last one."""

from __future__ import annotations

import contextlib
import csv
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from mansard.core.errors import StorageError, UsageError
from mansard.core.records import BoardSample
from mansard.core.storage.files import append_whole, open_rows
from mansard.core.storage.jsonl import RowReader, RowWriter

_HEADER_BYTES = 200
_KINDS = (".csv", ".jsonl")


class SampleFile(Protocol):
    """A file that takes looks, one row each."""

    path: Path
    n_rows: int

    def take(self, sample: BoardSample) -> None:
        """Write one row; raises StorageError, the rows before it stay whole."""
        ...


@contextlib.contextmanager
def record_samples(path: Path, *, n_boards: int = 1) -> Iterator[SampleFile]:
    """A new file for looks; ``.jsonl`` has whole records, ``.csv`` a column for each number.

    A row is written at once and synced: a kill or a full disk costs the row that is being written
    at most. Raises UsageError for another ending, for several boards in one table and for a file
    that is there, StorageError.
    """
    if path.suffix not in _KINDS:
        raise UsageError(
            f"--record {str(path)!r} is neither a table nor records",
            fix="end its name in .csv or .jsonl",
        )
    if n_boards > 1 and path.suffix == ".csv":
        raise UsageError(
            "a table holds one board, whose rails and sensors are its columns",
            fix="record several boards into a .jsonl file",
        )
    if path.exists() or path.is_symlink():
        raise UsageError(f"--record {path} is there already", fix="give another name, or remove it")
    if path.suffix == ".jsonl":
        with RowWriter(path, BoardSample) as writer:
            yield _Records(writer)
        return
    handle = open_rows(path)
    try:
        yield _Table(handle, path)
    finally:
        os.close(handle)


def read_samples(path: Path) -> Iterator[BoardSample]:
    """The looks of a ``.jsonl`` file that ``record_samples`` wrote; a torn last row is left out.

    Raises SchemaError, StorageError.
    """
    for batch in RowReader(path, BoardSample).batches():
        yield from batch


@contextlib.contextmanager
def _telling(file: SampleFile) -> Iterator[None]:
    """Says in an error of its block how many rows are whole."""
    try:
        yield
    except StorageError as error:
        raise StorageError(
            f"{error.what}; the {file.n_rows} rows before it are whole",
            where=error.where,
            fix="free some space, and record into another file",
        ) from error


def holds_looks(path: Path) -> bool:
    """Whether a file is one of ``record_samples``' records, by its first line."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    with path.open("rb") as stream:
        line = stream.readline(_HEADER_BYTES)
    return b'"schema":"%s"' % BoardSample.schema.name.encode() in line


class _Records:
    def __init__(self, writer: RowWriter[BoardSample]) -> None:
        self._writer, self.path, self.n_rows = writer, writer.path, 0

    def take(self, sample: BoardSample) -> None:
        with _telling(self):
            self._writer.append(sample)
        self.n_rows += 1


class _Table:
    """A column for each number of the first look; what is unknown is empty.

    A part that turns up later, such as a core that was off, has no column.
    """

    def __init__(self, handle: int, path: Path) -> None:
        self._handle, self.path = handle, path
        self._columns: tuple[str, ...] = ()
        self.n_rows = 0

    def take(self, sample: BoardSample) -> None:
        cells = flat(sample)
        rows: list[list[object]] = []
        if not self._columns:
            self._columns = tuple(cells)
            rows.append(list(self._columns))
        rows.append([cells.get(name) for name in self._columns])
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        with _telling(self):
            append_whole(self._handle, text.getvalue().encode(), self.path)
        self.n_rows += 1


def flat(sample: BoardSample) -> dict[str, object]:
    """One look as the cells of a row, by column; None where something is unknown."""
    cells: dict[str, object] = {
        "time_s": round(sample.time_s, 3),
        "watched_s": round(sample.watched_s, 3),
        "board": sample.board,
        "source": sample.source,
        "mode": sample.mode,
    }
    for cpu in sample.cpus:
        cells |= _named(f"cpu{cpu.cpu}", cpu, ("busy_share", "clock_hz", "cap_hz"))
    for gpu in sample.gpus:
        cells |= _named(gpu.gpu, gpu, ("busy_share", "clock_hz", "cap_hz"))
        if gpu.memory_total_bytes is not None:  # a card; a Jetson's GPU has none of its own
            cells |= _named(gpu.gpu, gpu, ("memory_used_bytes",))
    cells |= {name: getattr(sample, name) for name in _NUMBERS}
    for zone in sample.zones:
        cells[f"{zone.zone}_temperature_c"] = zone.temperature_c
    for rail in sample.rails:
        cells |= _named(rail.rail, rail, ("power_w", "energy_j"))
    cells |= {name: getattr(sample, name) for name in ("power_w", "energy_j", "unmetered_s")}
    causes = dict.fromkeys(one.cause for one in sample.limits if one.is_throttling)
    is_known = causes or sample.n_throttle_events is not None
    cells["throttled_by"] = " ".join(causes) if is_known else None
    cells |= {"n_throttle_events": sample.n_throttle_events}
    cells |= {"n_overcurrent_events": sample.n_overcurrent_events}
    users = sample.gpu_processes
    cells["gpu_processes"] = None if users is None else "; ".join(users)
    return cells


_NUMBERS = (
    "memory_clock_hz",
    "memory_busy_share",
    "memory_used_bytes",
    "swap_used_bytes",
    "fan_speed_rpm",
    "fan_drive_share",
)


def _named(name: str, part: object, fields: tuple[str, ...]) -> dict[str, object]:
    return {f"{name}_{field}": getattr(part, field) for field in fields}
