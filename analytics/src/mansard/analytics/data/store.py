"""The Parquet files of a dataset, by name: in a folder, or at the URL of an object store.

Which files there are says ``data.layout``. No link below a folder is followed, and a file that
would fill the memory is refused before it is read.
"""

from __future__ import annotations

import fcntl
import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import polars as pl

from mansard.analytics.data.frames import FrameSchema, layer_frame, to_json
from mansard.analytics.data.layout import (
    MAKE_AGAIN,
    SCORE_ENTRY_SCHEMA,
    FileMark,
    check_expansion,
    expanded_bytes,
    layer_part,
    score_entry,
)
from mansard.core.errors import InputError, SchemaError, StorageError
from mansard.core.hashing import file_hash, stream_hash
from mansard.core.records import ModelScore
from mansard.core.storage.files import (
    entries_in,
    find_status,
    make_folder,
    open_file,
    open_rows,
    remove,
    storage_errors,
    write_atomic,
)
from mansard.core.text import is_utf8

_SCHEMES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://", "adl://", "azure://")
# What Polars says where no object has such a name: 2.1, and 1.30.
_NO_FILES = ("expanded paths were empty", "expected at least 1 source")
PATH = "path of the file"  # no table has a column of this name
_DIGITS = 32  # of a digest
_NETWORK = "check the URL, the credentials and the network"


def is_url(location: str) -> bool:
    """Whether ``location`` is a URL and no folder; raises InputError for one we cannot read."""
    scheme, separator, _ = location.partition("://")
    if not separator or "/" in scheme:
        return False
    if not location.startswith(_SCHEMES):
        known = ", ".join(_SCHEMES)
        raise InputError(
            f"{scheme}:// is not an object store that can hold a dataset",
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
        self._known: dict[str, FileMark] = {}  # files that were read or written whole

    def location(self, name: str) -> str:
        """The path or URL of one file."""
        return f"{self.root}/{name}"

    def write(self, name: str, frame: pl.DataFrame) -> FileMark:
        """Replace one file, whole or not at all; returns its mark. Raises StorageError."""
        where = self.location(name)
        if self.is_remote:
            with _polars_errors(where, _NETWORK):
                frame.write_parquet(where)  # an object appears whole
            return FileMark(0, "", 0)
        make_folder(Path(where).parent, self._within)
        # Not straight into the file: of a full disk Polars says that Parquet is out of order.
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        content = buffer.getvalue()
        write_atomic(Path(where), content, self._within)
        n_expanded = expanded_bytes(buffer, where)
        self._known[name] = FileMark(len(content), file_hash(content)[:_DIGITS], n_expanded)
        return self._known[name]

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
            sizes = {self.location(name): self._expanded(name) for name in names}
            check_expansion(sizes, is_whole=is_whole)
        if not is_utf8(self.root):  # Polars takes no such path, but a file that is open
            files = [_read_open(self.location(name), name) for name in names]
            return pl.concat(files).lazy().select(list(schema))
        # Not by glob: a folder may be called "[old]"; nor by key=value: so may its parents.
        frame = pl.scan_parquet(paths, glob=False, hive_partitioning=False, include_file_paths=PATH)
        return frame.select(list(schema))

    def read(self, names: Collection[str], schema: FrameSchema) -> pl.DataFrame:
        """Read the rows of ``names``; raises StorageError for a damaged file or other columns."""
        with _polars_errors(self.root, MAKE_AGAIN):
            return self._checked(self.scan(names, schema, is_whole=True).collect(), schema)

    def read_each(self, table: str, file: str, schema: FrameSchema) -> pl.DataFrame:
        """The rows of ``file`` in every folder of ``table``, in the order of their names.

        The first column of ``schema`` is the id that the folder bears (``run_id=…``). Raises
        SchemaError for a row with another one.
        """
        with _polars_errors(self.root, _NETWORK if self.is_remote else MAKE_AGAIN):
            if self.is_remote:
                frame = pl.scan_parquet(
                    self.location(f"{table}/*/{file}"),
                    hive_partitioning=False,
                    include_file_paths=PATH,
                ).select([*schema, PATH])
            else:
                listed = self._folders(table)
                names = [f"{table}/{folder}/{file}" for folder, files in listed if file in files]
                frame = self.scan(names, schema, with_path=True, is_whole=True)
            try:
                rows = frame.collect()
            except (pl.exceptions.PolarsError, OSError) as error:
                if self.is_remote and any(words in str(error) for words in _NO_FILES):
                    return pl.DataFrame(schema=schema)
                raise
        self._check_owner(rows, next(iter(schema)))
        return self._checked(rows.drop(PATH), schema)

    def check_owners(self, names: Collection[str], schema: FrameSchema) -> None:
        """Raises SchemaError for a row of ``names`` in the folder of another run."""
        with _polars_errors(self.root, MAKE_AGAIN):
            rows = self.scan(names, schema, with_path=True).select("run_id", PATH)
            self._check_owner(rows.unique().collect(), "run_id")

    def _check_owner(self, rows: pl.DataFrame, key: str) -> None:
        named = pl.col(PATH).str.extract(f"(?:^|/){key}=([^/]*)/[^/]*$")
        for value, path in rows.filter(named.ne_missing(pl.col(key))).select(key, PATH).iter_rows():
            raise SchemaError(
                f"holds a row of {key.partition('_')[0]} {value!r}, which is not its own",
                where=path,
                fix=MAKE_AGAIN,
            )

    def holds(self, name: str, mark: FileMark, *, is_made_here: bool = False) -> bool:
        """Whether a file is the one that was written; not checked in an object store.

        What a mark that was made here says of the expansion is believed as well. Raises
        StorageError for a link, a pipe or a device.
        """
        if self.is_remote or self._known.get(name) == mark:
            return True
        path = Path(self.location(name))
        with (
            storage_errors(path),
            suppress(FileNotFoundError),
            open_file(path, self._within) as stream,
        ):
            if (
                os.fstat(stream.fileno()).st_size == mark.n_bytes
                and stream_hash(stream)[:_DIGITS] == mark.digest
                and (is_made_here or expanded_bytes(stream, str(path)) == mark.expanded_bytes)
            ):
                self._known[name] = mark
                return True
        return False

    def remove(self, names: Collection[str]) -> None:
        """Remove files and empty folders of a folder; in an object store they stay, unread."""
        if not self.is_remote:
            for name in names:
                remove(Path(self.location(name)), self._within)

    def remove_others(
        self, tables: Sequence[str], keep: Collection[str], but: Collection[str] = ()
    ) -> None:
        """Remove files of ``tables`` that are not in ``keep``, and half-written files; in a folder.

        Files that do not bear our names are left alone, and folders with the names ``but``;
        raises StorageError for a link.
        """
        if self.is_remote:
            return
        for table in tables:
            for folder, files in self._folders(table):
                if folder in but:
                    continue
                names = [f"{table}/{folder}/{name}" for name in files if name.endswith(".parquet")]
                others = [name for name in names if name not in keep]
                for name in others:
                    find_status(Path(self.location(name)), self._within)  # raises for a link
                self.remove(others if len(others) < len(files) else [*others, f"{table}/{folder}"])

    def foreign(self, table: str, file: str) -> set[str]:
        """The folders of ``table`` with other files than ``file``, as other versions have."""
        return {folder for folder, files in self._folders(table) if files - {file}}

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Waits until no other process changes the dataset in this folder; an object store has
        no lock."""
        if self.is_remote:
            yield
            return
        path = make_folder(Path(self.root), self._within) / ".lock"
        handle = open_rows(path, self._within)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _checked(self, frame: pl.DataFrame, schema: FrameSchema) -> pl.DataFrame:
        if frame.schema != pl.Schema(schema):
            raise StorageError(
                "has columns of other types than this Mansard", where=self.root, fix=MAKE_AGAIN
            )
        return frame

    def _folders(self, table: str) -> Iterator[tuple[str, set[str]]]:
        """The folders of single runs or scores in ``table``, and the names in each; none of an
        object store. Raises StorageError for a link."""
        if self.is_remote:
            return
        path = Path(self.location(table))
        for name, kind in entries_in(path, self._within).items():
            if "_id=" in name and kind in {"folder", "link"}:  # a link is refused on listing it
                yield name, set(entries_in(path / name, self._within))

    def _expanded(self, name: str) -> int:
        """What a file of a folder expands to; raises StorageError for a link, a pipe or a device"""
        if name in self._known:
            return self._known[name].expanded_bytes
        path = Path(self.location(name))
        with storage_errors(path), open_file(path, self._within) as stream:
            return expanded_bytes(stream, str(path))


@contextmanager
def _polars_errors(where: str, fix: str) -> Iterator[None]:
    """Turn errors of Polars on reading or writing files into one clear line."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        what = f"cannot be read or written: {lines[0]}"
        raise StorageError(what, where=where, fix=fix) from error


def _read_open(path: str, name: str) -> pl.DataFrame:
    with Path(path).open("rb") as stream:
        return pl.read_parquet(stream).with_columns(pl.lit(name).alias(PATH))


def score_entries(scores: Mapping[str, ModelScore]) -> pl.DataFrame:
    """One row per score; ``scores`` by their ids."""
    rows = [
        {"score_id": identity, "position": at, "score_json": to_json(score)}
        for at, (identity, score) in enumerate(scores.items())
    ]
    return pl.DataFrame(rows, schema=SCORE_ENTRY_SCHEMA)


def write_scores(store: Store, wanted: pl.DataFrame, there: pl.DataFrame) -> set[str]:
    """Write the scores that are not ``there`` yet; returns the files of all of ``wanted``."""
    known = set(there.iter_rows())
    files: set[str] = set()
    for row in wanted.iter_rows():
        score_id, _, score_json = row
        names = (layer_part(score_id), score_entry(score_id))
        files.update(names)
        if row not in known:
            score = msgspec.json.decode(score_json, type=ModelScore)
            store.write(names[0], layer_frame([score]))
            store.write(names[1], wanted.filter(pl.col("score_id") == score_id))
    return files
