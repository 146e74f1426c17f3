"""Published records in a folder of runs: ``published/rates-<id>.jsonl``, ``runs-<id>.jsonl``.

A file's name is the hash of its content, so importing a table twice is importing it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from mansard.analytics.data.ingest import PUBLISHED_FOLDER
from mansard.analytics.data.store import is_url
from mansard.analytics.published.cells import LEAST, MOST
from mansard.analytics.published.importing import Imported, table_id_of
from mansard.analytics.published.numbers import LARGEST_COUNT
from mansard.core.errors import InputError
from mansard.core.files import make_folder, storage_error
from mansard.core.jsonl import read_rows, write_rows
from mansard.core.records import PublishedRate, PublishedRun

Row = TypeVar("Row", PublishedRate, PublishedRun)


@dataclass(frozen=True)
class Published:
    """All figures of others in one folder of runs, by table and line."""

    rates: tuple[PublishedRate, ...] = ()
    runs: tuple[PublishedRun, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was imported."""
        return not self.rates and not self.runs

    @property
    def rows(self) -> tuple[PublishedRate | PublishedRun, ...]:
        """Rates, then runs."""
        return (*self.rates, *self.runs)


def write_published(runs: Path, imported: Imported) -> tuple[Path, bool]:
    """Write a table into ``runs``; its path, and whether it was there before.

    Whole or not at all; raises StorageError.
    """
    folder = make_folder(runs / PUBLISHED_FOLDER)
    kind = "runs" if imported.runs else "rates"
    path = folder / f"{kind}-{imported.table_id}.jsonl"
    was_there = path.exists()
    if imported.runs:
        write_rows(path, PublishedRun, imported.runs)
    else:
        write_rows(path, PublishedRate, imported.rates)
    return path, was_there


def published_in(places: Sequence[str]) -> Published:
    """What was imported into the local folders among ``places``, as ``Dataset.places`` names them.

    A dataset on an object store has none: tables stay where they were imported.
    """
    return read_published(*(Path(place) for place in places if not is_url(place)))


def read_published(*folders: Path) -> Published:
    """Everything that was imported into ``folders`` of runs; empty where nothing was.

    A table that is in two of them comes once.
    Raises SchemaError for a file of another version or with an unknown field, InputError for a
    file whose name is not what it holds, StorageError where one cannot be read.
    """
    return Published(
        rates=_read_all(folders, "rates", PublishedRate),
        runs=_read_all(folders, "runs", PublishedRun),
    )


def _files(folder: Path, kind: str) -> list[Path]:
    try:
        return sorted(folder.glob(f"{kind}-*.jsonl"))
    except OSError as error:
        raise storage_error(error, folder) from error


def _read_all(folders: Sequence[Path], kind: str, row_type: type[Row]) -> tuple[Row, ...]:
    found: list[Row] = []
    paths = {path.name: path for at in folders for path in _files(at / PUBLISHED_FOLDER, kind)}
    for path in paths.values():
        table = read_rows(path, row_type)
        _check(path, table.rows, table.torn)
        found += table.rows
    # By device, and not by what their hashes happen to be; a table keeps the order of its rows.
    return tuple(sorted(found, key=lambda row: (row.device, row.table_id)))


def _check(path: Path, rows: Sequence[Row], torn: bytes | None) -> None:
    """A table is written in one step and named by its content: anything else was changed."""
    plain = tuple(replace(row, table_id="") for row in rows)
    table_id = table_id_of(plain)
    is_whole = torn is None and table_id == path.stem.partition("-")[2]
    if not is_whole or any(row.table_id != table_id for row in rows):
        raise InputError(
            "does not hold the table that its name says",
            where=str(path),
            fix="remove it and import the table again",
        )
    if not all(_is_sound(row) for row in rows):
        raise InputError("holds a number that no table has", where=str(path), fix="remove it")


def _is_sound(row: PublishedRate | PublishedRun) -> bool:
    """Whether every number is in the range that an import lets through."""
    mode = row.mode
    amounts = [mode.gpu_hz, mode.memory_hz, mode.cpu_hz, mode.power_limit_w]
    counts = [mode.n_sms, mode.n_cpus, row.row]
    if isinstance(row, PublishedRate):
        amounts.append(row.value)
    else:
        amounts += [row.latency_s, row.power_w]
        counts.append(row.batch)
    return all(amount is None or LEAST <= amount <= MOST for amount in amounts) and all(
        count is None or 1 <= count <= LARGEST_COUNT for count in counts
    )
