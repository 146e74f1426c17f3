"""Where a dataset lies, which tables it has, and how their files are called.

It is a folder, or the URL of an object store, with Parquet files by name. ``runs/run_id=…/`` holds
one file of one row, which is written last: a run is in the dataset when that file is. It names the
files of the run in the other tables. Files of another layout have other names, so that no reader
takes them for its own.
"""

from __future__ import annotations

import fcntl
import io
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import polars as pl

from mansard.analytics.data.dataset import score_id
from mansard.analytics.data.expansion import check_expansion
from mansard.analytics.data.frames import LAYER_SCHEMA, FrameSchema, layer_frame, to_json
from mansard.analytics.data.run_frames import (
    ENERGY_SCHEMA,
    REPETITION_SCHEMA,
    RUN_SCHEMA,
    SAMPLE_SCHEMA,
    TRIAL_SCHEMA,
)
from mansard.core.errors import InputError, StorageError
from mansard.core.files import (
    check_regular,
    find_status,
    make_folder,
    names_in,
    open_rows,
    remove,
    storage_error,
    write_atomic,
)
from mansard.core.hashing import content_hash
from mansard.core.records import Measurement, ModelScore

_SCHEMES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://", "adl://", "azure://")
# What Polars says where no object has such a name: 2.1, and 1.30.
_NO_FILES = ("expanded paths were empty", "expected at least 1 source")
_MAKE_AGAIN = "remove the dataset; it is made again from the runs"


def is_url(location: str) -> bool:
    """Whether ``location`` is a URL and no folder; raises InputError for one we cannot read."""
    scheme, found, _ = location.partition("://")
    if not found or "/" in scheme:
        return False
    if not location.startswith(_SCHEMES):
        known = ", ".join(_SCHEMES)
        raise InputError(
            f"{scheme}:// is no object store that can hold a dataset",
            where=location,
            fix=f"give a folder, or a URL that begins with one of {known}",
        )
    return True


class Store:
    """The Parquet files of one dataset, by their names below ``root``.

    Credentials and regions of an object store come from the environment, as its own tools
    read them (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, …). In a folder no link below
    ``within`` is followed: the root itself by default, or a folder that the root lies in.
    """

    def __init__(self, root: str | Path, within: Path | None = None) -> None:
        text = str(root) or "."
        self.root = text.rstrip("/") or "/"
        self.is_remote = is_url(self.root)
        self._within = Path(self.root) if within is None else within

    def location(self, name: str) -> str:
        """The path or URL of one file."""
        return f"{self.root}/{name}"

    def write(self, name: str, frame: pl.DataFrame) -> None:
        """Replace one file, whole or not at all; raises StorageError."""
        where = self.location(name)
        if self.is_remote:
            with _polars_errors(where, "check the URL, the credentials and the network"):
                frame.write_parquet(where)  # an object appears whole
            return
        make_folder(Path(where).parent, self._within)
        # Not straight into the file: of a full disk Polars says that Parquet is out of order.
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        write_atomic(Path(where), buffer.getvalue(), self._within)

    def scan(
        self, names: Collection[str], schema: FrameSchema, *, is_whole: bool = False
    ) -> pl.LazyFrame:
        """The rows of ``names`` in their order; nothing is read before it is collected.

        Raises StorageError for a file in a folder that would fill the memory; where the rows of
        all are collected at once (``is_whole``), also for all of them together.
        """
        if not names:
            return pl.LazyFrame(schema=schema)
        paths = [self.location(name) for name in names]
        if not self.is_remote:
            for path in paths:
                self._check_file(Path(path))
            check_expansion([Path(path) for path in paths], is_whole=is_whole)
        if not _is_utf8(self.root):  # Polars takes no such path, but a file that is open
            return pl.concat([_read_open(Path(path)) for path in paths]).lazy().select(list(schema))
        # Not by glob: a folder may be called "[old]"; nor by key=value: so may its parents.
        return pl.scan_parquet(paths, glob=False, hive_partitioning=False).select(list(schema))

    def read(self, names: Collection[str], schema: FrameSchema) -> pl.DataFrame:
        """The same, read; raises StorageError where a file is damaged or has other columns."""
        with _polars_errors(self.root, _MAKE_AGAIN):
            return self._checked(self.scan(names, schema, is_whole=True).collect(), schema)

    def read_each(self, table: str, file: str, schema: FrameSchema) -> pl.DataFrame:
        """The rows of ``file`` in every folder of ``table``, in the order of their names."""
        if not self.is_remote:
            return self.read(self._names(table, file), schema)
        found = pl.scan_parquet(self.location(f"{table}/*/{file}"), hive_partitioning=False)
        with _polars_errors(self.root, "check the URL, the credentials and the network"):
            try:
                return self._checked(found.select(list(schema)).collect(), schema)
            except (pl.exceptions.PolarsError, OSError) as error:
                if not any(words in str(error) for words in _NO_FILES):
                    raise
                return pl.DataFrame(schema=schema)

    def has(self, name: str, n_bytes: int) -> bool:
        """Whether the file is there in its full length; of an object store it is believed."""
        if self.is_remote:
            return True
        status = find_status(Path(self.location(name)), self._within)
        return status is not None and status.st_size == n_bytes

    def size(self, name: str) -> int:
        """The length of a file in bytes; 0 in an object store, where it is not looked up."""
        status = None if self.is_remote else find_status(Path(self.location(name)), self._within)
        return 0 if status is None else status.st_size

    def remove(self, names: Collection[str]) -> None:
        """Remove files of a folder; in an object store they stay, unread."""
        if not self.is_remote:
            for name in names:
                remove(Path(self.location(name)), self._within)

    def remove_others(self, tables: Sequence[str], kept: Collection[str]) -> None:
        """Remove the files of ``tables`` that are not ``kept``, and halves of files; in a folder.

        Files that do not bear our names are left alone; raises StorageError for a link.
        """
        if self.is_remote:
            return
        for table in tables:
            for folder in self._folders(table):
                names = names_in(folder, self._within)
                others = [
                    name
                    for name in names
                    if name.endswith(".parquet") and f"{table}/{folder.name}/{name}" not in kept
                ]
                for name in others:
                    self._check_file(folder / name)
                    remove(folder / name, self._within)
                if len(others) == len(names):
                    remove(folder, self._within)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Waits until no other process changes the dataset in this folder."""
        path = make_folder(Path(self.root), self._within) / ".lock"
        try:
            handle = open_rows(path, self._within)
        except OSError as error:
            raise storage_error(error, path) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _checked(self, frame: pl.DataFrame, schema: FrameSchema) -> pl.DataFrame:
        if frame.schema != pl.Schema(schema):
            raise StorageError(
                "has columns of other types than this Mansard", where=self.root, fix=_MAKE_AGAIN
            )
        return frame

    def _names(self, table: str, file: str) -> list[str]:
        paths = [folder / file for folder in self._folders(table)]
        return [
            f"{table}/{path.parent.name}/{file}"
            for path in paths
            if find_status(path, self._within) is not None
        ]

    def _folders(self, table: str) -> list[Path]:
        """The folders of single runs or scores in ``table``; raises StorageError for a link."""
        folder = Path(self.root) / table
        paths = [folder / name for name in names_in(folder, self._within) if "_id=" in name]
        statuses = [(path, find_status(path, self._within)) for path in paths]
        return [path for path, status in statuses if status and stat.S_ISDIR(status.st_mode)]

    def _check_file(self, path: Path) -> None:
        """Raises StorageError for a link, a pipe or a device; what is missing Polars says."""
        status = find_status(path, self._within)
        if status is not None:
            check_regular(status, path)


@contextmanager
def _polars_errors(where: str, fix: str) -> Iterator[None]:
    """Turns what Polars raises on reading or writing files into one clear line."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        what = f"cannot be read or written: {lines[0]}"
        raise StorageError(what, where=where, fix=fix) from error


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_open(path: Path) -> pl.DataFrame:
    with path.open("rb") as stream:
        return pl.read_parquet(stream)


# Of each run: its rows in files of bounded length.
RUN_TABLES: dict[str, FrameSchema] = {
    "trials": TRIAL_SCHEMA,
    "repetitions": REPETITION_SCHEMA,
    "energy": ENERGY_SCHEMA,
    "samples": SAMPLE_SCHEMA,
}
# One row of each run: what a report shows of it, and where the rest of it lies.
RUN_ENTRY_SCHEMA: FrameSchema = {
    **RUN_SCHEMA,
    "manifest_json": pl.String,
    "n_trials": pl.Int64,  # that were measured
    "content": pl.String,  # hash of the files it was made of
    "folder": pl.String,
    "stamps_json": pl.String,  # lengths and times of those files: unchanged, they are not read
    "files_json": pl.String,  # RunFiles
    "notes": pl.List(pl.String),
}
# Scores and measurements as they are, in the words of docs/records.md.
# ``position``: in the file that they come from.
SCORE_ENTRY_SCHEMA: FrameSchema = {
    "score_id": pl.String,
    "position": pl.Int64,
    "score_json": pl.String,
}
MEASUREMENT_SCHEMA: FrameSchema = {
    "run_id": pl.String,
    "position": pl.Int64,
    "measurement_json": pl.String,
}

_ALL = [*RUN_TABLES.values(), RUN_ENTRY_SCHEMA, SCORE_ENTRY_SCHEMA, MEASUREMENT_SCHEMA]
LAYOUT = content_hash(
    [[[name, str(kind)] for name, kind in each.items()] for each in (*_ALL, LAYER_SCHEMA)]
)
ENTRY_FILE = f"{LAYOUT}.parquet"


class RunFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of one run in each table, by name, with their lengths in bytes."""

    trials: dict[str, int] = {}
    repetitions: dict[str, int] = {}
    energy: dict[str, int] = {}
    samples: dict[str, int] = {}

    def of(self, table: str) -> dict[str, int]:
        """The files in one of RUN_TABLES."""
        found: dict[str, int] = getattr(self, table)
        return found


def run_entry(run_id: str) -> str:
    """The file that says that a run is in the dataset."""
    return f"runs/run_id={run_id}/{ENTRY_FILE}"


def run_part(table: str, run_id: str, content: str, number: int) -> str:
    """A file of a run's rows; another content has other names."""
    return f"{table}/run_id={run_id}/{content}-{number:05d}.parquet"


def score_entry(score_id: str) -> str:
    """The file of one score."""
    return f"scores/score_id={score_id}/{ENTRY_FILE}"


def layer_part(score_id: str) -> str:
    """The file of the layers of one score, for other programs to read."""
    return f"layers/score_id={score_id}/{ENTRY_FILE}"


def measurement_part(run_id: str) -> str:
    """The file of the networks measured in one run."""
    return f"measurements/run_id={run_id}/{ENTRY_FILE}"


def score_entries(scores: Sequence[ModelScore]) -> pl.DataFrame:
    """One row per score; of two scores in the same circumstances the last counts."""
    last = {score_id(score): score for score in scores}
    rows = [
        {"score_id": identity, "position": at, "score_json": to_json(score)}
        for at, (identity, score) in enumerate(last.items())
    ]
    return pl.DataFrame(rows, schema=SCORE_ENTRY_SCHEMA)


def measurement_entries(measurements: Sequence[Measurement]) -> pl.DataFrame:
    """One row per measured network, in the order of the file."""
    rows = [
        {"run_id": row.run_id, "position": at, "measurement_json": to_json(row)}
        for at, row in enumerate(measurements)
    ]
    return pl.DataFrame(rows, schema=MEASUREMENT_SCHEMA)


def write_scores(store: Store, wanted: pl.DataFrame, there: pl.DataFrame) -> set[str]:
    """Write the scores that are not ``there`` yet; returns the files of all of ``wanted``."""
    known = set(there.iter_rows())
    files: set[str] = set()
    for row in wanted.iter_rows():
        score_id, _, score_json = row
        own = (layer_part(score_id), score_entry(score_id))
        files.update(own)
        if row not in known:
            score = msgspec.json.decode(score_json, type=ModelScore)
            store.write(own[0], layer_frame([score]))
            store.write(own[1], wanted.filter(pl.col("score_id") == score_id))
    return files


def write_measurements(store: Store, wanted: pl.DataFrame, there: pl.DataFrame) -> set[str]:
    """Write the measurements of each run where they differ; returns the files of all."""
    files: set[str] = set()
    for (run_id,), rows in wanted.partition_by("run_id", as_dict=True).items():
        file = measurement_part(str(run_id))
        files.add(file)
        if not rows.equals(there.filter(pl.col("run_id") == run_id)):
            store.write(file, rows)
    return files
