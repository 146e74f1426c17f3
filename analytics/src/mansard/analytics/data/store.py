"""Where a dataset lies: a folder, or the URL of an object store; Parquet files by name."""

from __future__ import annotations

import fcntl
import io
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from mansard.analytics.data.frames import FrameSchema
from mansard.core.errors import InputError, StorageError
from mansard.core.files import make_folder, storage_error, write_atomic

_SCHEMES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://", "adl://", "azure://")
# What Polars says where no object has such a name: 2.1, and 1.30.
_NO_FILES = ("expanded paths were empty", "expected at least 1 source")
_MAKE_AGAIN = "remove the dataset; it is made again from the runs"


def is_url(place: str) -> bool:
    """Whether ``place`` is a URL and no folder; raises InputError for one we cannot read."""
    scheme, found, _ = place.partition("://")
    if not found or "/" in scheme:
        return False
    if not place.startswith(_SCHEMES):
        known = ", ".join(_SCHEMES)
        raise InputError(
            f"{scheme}:// is no object store that can hold a dataset",
            where=place,
            fix=f"give a folder, or a URL that begins with one of {known}",
        )
    return True


class Store:
    """The Parquet files of one dataset, by their names below ``root``.

    Credentials and regions of an object store come from the environment, as its own tools
    read them (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, …).
    """

    def __init__(self, root: str | Path) -> None:
        text = str(root) or "."
        self.root = text.rstrip("/") or "/"
        self.is_remote = is_url(self.root)

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
        make_folder(Path(where).parent)
        # Not straight into the file: of a full disk Polars says that Parquet is out of order.
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        write_atomic(Path(where), buffer.getvalue())

    def scan(self, names: Collection[str], schema: FrameSchema) -> pl.LazyFrame:
        """The rows of ``names`` in their order; nothing is read before it is collected."""
        if not names:
            return pl.LazyFrame(schema=schema)
        paths = [self.location(name) for name in names]
        if not _is_utf8(self.root):  # Polars takes no such path, but a file that is open
            return pl.concat([_read_open(Path(path)) for path in paths]).lazy().select(list(schema))
        # Not by glob: a folder may be called "[old]"; nor by key=value: so may its parents.
        return pl.scan_parquet(paths, glob=False, hive_partitioning=False).select(list(schema))

    def read(self, names: Collection[str], schema: FrameSchema) -> pl.DataFrame:
        """The same, read; raises StorageError where a file is damaged or has other columns."""
        with _polars_errors(self.root, _MAKE_AGAIN):
            return self._checked(self.scan(names, schema).collect(), schema)

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
        try:
            return Path(self.location(name)).stat().st_size == n_bytes
        except OSError:
            return False

    def size(self, name: str) -> int:
        """The length of a file in bytes; 0 in an object store, where it is not looked up."""
        return 0 if self.is_remote else Path(self.location(name)).stat().st_size

    def remove(self, names: Collection[str]) -> None:
        """Remove files of a folder; in an object store they stay, and nobody reads them."""
        if not self.is_remote:
            for name in names:
                _remove(Path(self.location(name)))

    def remove_others(self, tables: Sequence[str], kept: Collection[str]) -> None:
        """Remove the files of ``tables`` that are not ``kept``, and halves of files; in a folder.

        Files that do not bear our names are left alone.
        """
        if self.is_remote:
            return
        root = Path(self.root)
        for table in tables:
            for folder in sorted(filter(Path.is_dir, (root / table).glob("*_id=*"))):
                for path in sorted([*folder.glob("*.parquet"), *folder.glob(".*.parquet.*")]):
                    if path.relative_to(root).as_posix() not in kept:
                        _remove(path)
                if not any(folder.iterdir()):
                    _remove(folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Waits until no other process changes the dataset in this folder."""
        path = make_folder(Path(self.root)) / ".lock"
        try:
            stream = path.open("ab")
        except OSError as error:
            raise storage_error(error, path) from error
        with stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield

    def _checked(self, frame: pl.DataFrame, schema: FrameSchema) -> pl.DataFrame:
        if frame.schema != pl.Schema(schema):
            raise StorageError(
                "has columns of other types than this Mansard", where=self.root, fix=_MAKE_AGAIN
            )
        return frame

    def _names(self, table: str, file: str) -> list[str]:
        root = Path(self.root)
        try:
            found = sorted((root / table).glob(f"*/{file}"))
        except OSError as error:
            raise storage_error(error, root) from error
        return [path.relative_to(root).as_posix() for path in found]


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


def _remove(path: Path) -> None:
    try:
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(error, path) from error
