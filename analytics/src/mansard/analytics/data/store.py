"""Where a dataset lies, which tables it has, and how their files are called.

It is a folder, or the URL of an object store, with Parquet files by name. ``runs/run_id=…/`` holds
one file of one row, which is written last: a run is in the dataset when that file is. It names the
files of the run in the other tables. Files of another layout have other names, so that no reader
takes them for its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import stat
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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
from mansard.core.errors import InputError, SchemaError, StorageError
from mansard.core.files import (
    check_regular,
    find_status,
    make_folder,
    names_in,
    open_file,
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
PATH = "path of the file"  # no table has a column of this name
_PIECE_BYTES = 1024**2
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


class FileMark(msgspec.Struct, frozen=True, array_like=True):
    """What a file has to be to be read; nothing is known of one in an object store."""

    n_bytes: int
    digest: str


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
        self._known: set[tuple[str, FileMark]] = set()  # files that were read or written whole

    def location(self, name: str) -> str:
        """The path or URL of one file."""
        return f"{self.root}/{name}"

    def write(self, name: str, frame: pl.DataFrame) -> FileMark:
        """Replace one file, whole or not at all; returns its mark. Raises StorageError."""
        where = self.location(name)
        if self.is_remote:
            with _polars_errors(where, "check the URL, the credentials and the network"):
                frame.write_parquet(where)  # an object appears whole
            return FileMark(0, "")
        make_folder(Path(where).parent, self._within)
        # Not straight into the file: of a full disk Polars says that Parquet is out of order.
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        content = buffer.getvalue()
        write_atomic(Path(where), content, self._within)
        mark = FileMark(len(content), _digest(io.BytesIO(content)))
        self._known.add((name, mark))
        return mark

    def scan(
        self,
        names: Collection[str],
        schema: FrameSchema,
        *,
        with_path: bool = False,
        is_whole: bool = False,
    ) -> pl.LazyFrame:
        """The rows of ``names`` in their order; nothing is read before it is collected.

        ``with_path``: with the file of each row in a column of its own, PATH. Raises StorageError
        for a file in a folder that would fill the memory; where the rows of all are collected at
        once (``is_whole``), also for all of them together.
        """
        schema = {**schema, PATH: pl.String} if with_path else schema
        if not names:
            return pl.LazyFrame(schema=schema)
        paths = [self.location(name) for name in names]
        if not self.is_remote:
            for path in paths:
                self._check_file(Path(path))
            check_expansion([Path(path) for path in paths], is_whole=is_whole)
        if not _is_utf8(self.root):  # Polars takes no such path, but a file that is open
            files = [_read_open(self.location(name), name) for name in names]
            return pl.concat(files).lazy().select(list(schema))
        # Not by glob: a folder may be called "[old]"; nor by key=value: so may its parents.
        found = pl.scan_parquet(paths, glob=False, hive_partitioning=False, include_file_paths=PATH)
        return found.select(list(schema))

    def read(self, names: Collection[str], schema: FrameSchema) -> pl.DataFrame:
        """The same, read; raises StorageError where a file is damaged or has other columns."""
        with _polars_errors(self.root, _MAKE_AGAIN):
            return self._checked(self.scan(names, schema, is_whole=True).collect(), schema)

    def read_each(self, table: str, file: str, schema: FrameSchema) -> pl.DataFrame:
        """The rows of ``file`` in every folder of ``table``, in the order of their names.

        The first column of ``schema`` is the id that the folder bears (``run_id=…``). Raises
        SchemaError for a row with another one.
        """
        if self.is_remote:
            found = pl.scan_parquet(
                self.location(f"{table}/*/{file}"), hive_partitioning=False, include_file_paths=PATH
            )
            with _polars_errors(self.root, "check the URL, the credentials and the network"):
                try:
                    rows = found.select([*schema, PATH]).collect()
                except (pl.exceptions.PolarsError, OSError) as error:
                    if not any(words in str(error) for words in _NO_FILES):
                        raise
                    return pl.DataFrame(schema=schema)
        else:
            with _polars_errors(self.root, _MAKE_AGAIN):
                names = self._names(table, file)
                rows = self.scan(names, schema, with_path=True, is_whole=True).collect()
        self._check_owner(rows, next(iter(schema)))
        return self._checked(rows.drop(PATH), schema)

    def check_owners(self, names: Collection[str], schema: FrameSchema) -> None:
        """Raises SchemaError for a row of ``names`` in the folder of another run."""
        with _polars_errors(self.root, _MAKE_AGAIN):
            rows = self.scan(names, schema, with_path=True).select("run_id", PATH)
            self._check_owner(rows.unique().collect(), "run_id")

    def _check_owner(self, rows: pl.DataFrame, key: str) -> None:
        named = pl.col(PATH).str.extract(f"(?:^|/){key}=([^/]*)/[^/]*$")
        for value, path in rows.filter(named.ne_missing(pl.col(key))).select(key, PATH).iter_rows():
            raise SchemaError(
                f"holds a row of {key.partition('_')[0]} {value!r}, which is not its own",
                where=path,
                fix=_MAKE_AGAIN,
            )

    def holds(self, name: str, mark: FileMark) -> bool:
        """Whether a file is the one that was written; of an object store it is believed.

        Raises StorageError for a link, a pipe or a device.
        """
        if self.is_remote or (name, mark) in self._known:
            return True
        path = Path(self.location(name))
        status = find_status(path, self._within)
        if status is None or status.st_size != mark.n_bytes:
            return False
        try:
            with open_file(path, self._within) as stream:
                is_same = _digest(stream) == mark.digest
        except OSError as error:
            raise storage_error(error, path) from error
        if is_same:
            self._known.add((name, mark))
        return is_same

    def remove(self, names: Collection[str]) -> None:
        """Remove files of a folder; in an object store they stay, unread."""
        if not self.is_remote:
            for name in names:
                remove(Path(self.location(name)), self._within)

    def remove_others(
        self, tables: Sequence[str], kept: Collection[str], but: Collection[str] = ()
    ) -> None:
        """Remove the files of ``tables`` that are not ``kept``, and halves of files; in a folder.

        Files that do not bear our names are left alone, and folders with the names ``but``;
        raises StorageError for a link.
        """
        if self.is_remote:
            return
        for table in tables:
            for folder in self._folders(table):
                if folder.name in but:
                    continue
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

    def foreign(self, table: str, file: str) -> set[str]:
        """The folders of ``table`` with other files than ``file``, as other versions have."""
        if self.is_remote:
            return set()
        return {
            folder.name
            for folder in self._folders(table)
            if any(name != file for name in names_in(folder, self._within))
        }

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Waits until no other process changes the dataset in this folder; an object store has
        no lock."""
        if self.is_remote:
            yield
            return
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


def _read_open(path: str, name: str) -> pl.DataFrame:
    with Path(path).open("rb") as stream:
        return pl.read_parquet(stream).with_columns(pl.lit(name).alias(PATH))


def _digest(stream: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := stream.read(_PIECE_BYTES):
        digest.update(piece)
    return digest.hexdigest()[:32]


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
_MARKS = "files with digests, 2026-11"  # what RunFiles says of a file
_COLUMNS = [[[name, str(kind)] for name, kind in each.items()] for each in (*_ALL, LAYER_SCHEMA)]
LAYOUT = content_hash([_MARKS, *_COLUMNS])
ENTRY_FILE = f"{LAYOUT}.parquet"


class RunFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The files of one run in each table, by name."""

    trials: dict[str, FileMark] = {}
    repetitions: dict[str, FileMark] = {}
    energy: dict[str, FileMark] = {}
    samples: dict[str, FileMark] = {}

    def of(self, table: str) -> dict[str, FileMark]:
        """The files in one of RUN_TABLES."""
        found: dict[str, FileMark] = getattr(self, table)
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
