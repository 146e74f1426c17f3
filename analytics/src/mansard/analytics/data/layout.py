"""The files of a dataset: their tables, their names, and the memory that reading one takes.

``runs/run_id=…/`` holds one file of one row, which is written last: a run is in the dataset when
that file is. It names the files of the run in the other tables. Files of another layout have other
names, so that no reader takes them for its own.

The memory that a Parquet file takes is computed before anything is unpacked. A file of a megabyte
may hold a thousand million equal rows, or one text of gigabytes. The footer states the number of
rows and bytes, but a hostile footer lies; each page header states the expanded length, and a reader
allocates that much. Both are read, and the larger one counts.

Format: Apache Parquet, "parquet.thrift" (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData,
PageHeader), in Thrift's compact protocol.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO, Any

import msgspec
import polars as pl

from mansard.analytics.data.frames import (
    ACCURACY_SCHEMA,
    CONCURRENT_SCHEMA,
    GENERATION_SCHEMA,
    LAYER_SCHEMA,
    LAYER_TIME_SCHEMA,
    MEASUREMENT_SCHEMA,
    OFFLOAD_SCHEMA,
    PROGRAM_SCHEMA,
    FrameSchema,
)
from mansard.analytics.data.run_frames import (
    ENERGY_SCHEMA,
    REPETITION_SCHEMA,
    RUN_SCHEMA,
    SAMPLE_SCHEMA,
    TRIAL_SCHEMA,
)
from mansard.core.errors import StorageError
from mansard.core.hashing import content_hash

MOST_FILE_BYTES = 256 << 20  # ours are made of 8 MiB of text
MOST_TABLE_BYTES = 512 << 20  # of the files of a table that is read whole: 700,000 trials
_MOST_PAGES = 100_000
_MOST_DEPTH = 16
_MAGIC = b"PAR1"
_TEXT_BYTES, _NUMBER_BYTES = 16, 8  # of a value in a frame: a view of a text, a number
_BYTE_ARRAY = 6  # and 7, of fixed length
_USUAL_HEADER_BYTES, _MOST_HEADER_BYTES = 1 << 10, 1 << 20  # of a page, or a footer

_INTEGERS = frozenset({4, 5, 6})  # types of 16, 32 and 64 bits
_LENGTHS = {1: 0, 2: 0, 3: 1, 7: 8}  # of a value, by its type: true, false, a byte, a double
Fields = dict[int, Any]  # of a struct, by number; lists of structs as lists of these


def check_expansion(n_bytes: Mapping[str, int], *, is_whole: bool) -> None:
    """Raises StorageError where a file takes more memory than one of a dataset can.

    ``n_bytes``: what each file expands to. ``is_whole``: all of them are read at once.
    """
    total_bytes = 0
    for where, own_bytes in n_bytes.items():
        total_bytes += own_bytes
        for size, most, what in (
            (own_bytes, MOST_FILE_BYTES, "a file of a dataset"),
            (total_bytes if is_whole else 0, MOST_TABLE_BYTES, "a table"),
        ):
            if size > most:
                raise StorageError(
                    f"expands to {size >> 20:,} MiB, more than the {most >> 20} of {what}",
                    where=where,
                    fix=MAKE_AGAIN,
                )


def expanded_bytes(stream: IO[bytes], where: str) -> int:
    """Bytes of the frame that a file becomes, at most; 0 where it does not end as Parquet does.

    Raises OSError where it cannot be read; StorageError where it ends as Parquet does, but what
    stands before is not understood: another reader might understand it.
    """
    end = stream.seek(0, os.SEEK_END) - 8
    if end < 0 or _read(stream, end + 4, 4) != _MAGIC:
        return 0
    try:
        n_footer = int.from_bytes(_read(stream, end, 4), "little")
        if n_footer > _MOST_HEADER_BYTES:
            raise ValueError("it is too long")
        footer, _ = _struct(_read(stream, end - n_footer, n_footer), 0)
        total_bytes, n_pages = _NUMBER_BYTES * footer[3], 0
        for group in footer[4]:
            for chunk in group[1]:
                n_bytes, n_pages = _chunk_bytes(stream, chunk[3], n_pages)
                total_bytes += n_bytes + _NUMBER_BYTES * group[3]  # what lists and nulls take
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        what = f"its footer or the header of a page is damaged or unknown: {error}"
        raise StorageError(what, where=where, fix=MAKE_AGAIN) from error
    return int(total_bytes)


def _read(stream: IO[bytes], at: int, n_bytes: int) -> bytes:
    stream.seek(at)
    return stream.read(n_bytes)


def _chunk_bytes(stream: IO[bytes], meta: Fields, n_pages: int) -> tuple[int, int]:
    """Bytes of one column of one row group, and how many pages were seen until then."""
    at = min(meta[9], meta.get(11, meta[9]))
    end = at + meta[7]
    page_bytes = n_values = 0
    while at < end:
        page, n_header = _page(stream, at)
        content = page.get(5) or page.get(8) or {}
        page_bytes += page[2]
        n_values += content.get(1, 0)
        n_pages += 1
        at += n_header + page[3]
        if page[3] < 0 or page[2] < 0 or n_pages > _MOST_PAGES:
            return MOST_FILE_BYTES + 1, n_pages
    width = _TEXT_BYTES if meta[1] >= _BYTE_ARRAY else _NUMBER_BYTES
    return max(page_bytes, meta[6]) + width * max(n_values, meta[5]), n_pages


def _page(stream: IO[bytes], at: int) -> tuple[Fields, int]:
    """The header of the page at ``at``, and its length; it is longer where statistics are."""
    try:
        return _struct(_read(stream, at, _USUAL_HEADER_BYTES), 0)
    except IndexError:
        return _struct(_read(stream, at, _MOST_HEADER_BYTES), 0)


def _struct(data: bytes, at: int, depth: int = 0) -> tuple[Fields, int]:
    """The fields of the struct at ``at``, by number, and where it ends.

    Raises IndexError where the data ends before it, ValueError where it is not Parquet metadata.
    """
    fields: Fields = {}
    number = 0
    while head := data[at]:
        at += 1
        step, kind = head >> 4, head & 0x0F
        if step:
            number += step
        else:
            number, at = _signed(data, at)
        byte = data[at]
        if kind in _INTEGERS and byte < 0x80:  # most are: not through two more calls
            fields[number], at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            fields[number], at = _value(data, at, kind, depth)
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in _INTEGERS:
        return _signed(data, at)
    if kind == 8:  # bytes: never looked at
        n_bytes, at = _unsigned(data, at)
        return None, at + n_bytes
    if kind in _LENGTHS:
        return None, at + _LENGTHS[kind]
    if depth > _MOST_DEPTH or kind not in {9, 10, 12}:
        raise ValueError("its footer is nested too deeply, or is not Parquet metadata")
    if kind == 12:
        return _struct(data, at, depth + 1)
    return _list(data, at, depth + 1)


def _list(data: bytes, at: int, depth: int) -> tuple[list[Any], int]:
    head, at = data[at], at + 1
    kind, n_items = head & 0x0F, head >> 4
    if n_items == 15:
        n_items, at = _unsigned(data, at)
    if n_items > len(data):
        raise IndexError
    if kind in {1, 2}:  # each has a byte of its own
        return [], at + n_items
    items = []
    for _ in range(n_items):
        item, at = _value(data, at, kind, depth)
        items.append(item)
    return items, at


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while (byte := data[at]) >= 0x80:
        result |= (byte & 0x7F) << shift
        shift += 7
        at += 1
        if shift > 63:
            raise ValueError("its footer holds a number of more than 64 bits")
    return result | byte << shift, at + 1


def _signed(data: bytes, at: int) -> tuple[int, int]:
    code, at = _unsigned(data, at)
    return (code >> 1) ^ -(code & 1), at


DATASET_FOLDER = "dataset"
PUBLISHED_FOLDER = "published"  # tables of others, see published.store
OFFLOADS_FOLDER = "hierarchical"  # answers that were kept, see decisions.offload.files


class FileMark(msgspec.Struct, frozen=True, array_like=True):
    """The length, digest and expanded size that a file must have; unknown in an object store."""

    n_bytes: int
    digest: str
    expanded_bytes: int  # of the frame that it becomes, at most


RunFiles = dict[str, FileMark]  # the files of one run, by their names below the dataset


# Of each run: its rows in files of bounded length.
RUN_TABLES: dict[str, FrameSchema] = {
    "trials": TRIAL_SCHEMA,
    "repetitions": REPETITION_SCHEMA,
    "energy": ENERGY_SCHEMA,
    "samples": SAMPLE_SCHEMA,
    "measurements": MEASUREMENT_SCHEMA,
    "layer_times": LAYER_TIME_SCHEMA,
    "programs": PROGRAM_SCHEMA,
    "generations": GENERATION_SCHEMA,
    "offloads": OFFLOAD_SCHEMA,
    "accuracies": ACCURACY_SCHEMA,
    "multi": CONCURRENT_SCHEMA,
    "contention": CONCURRENT_SCHEMA,
}
# One row of each run: what a report shows of it, and where the rest of it lies.
RUN_ENTRY_SCHEMA: FrameSchema = {
    **RUN_SCHEMA,
    "manifest_json": pl.String,
    "n_trials": pl.Int64,  # rows of its kind that were measured
    "content": pl.String,  # hash of the files it was made of
    "folder": pl.String,
    "stamps_json": pl.String,  # lengths and times of those files: unchanged, they are not read
    "files_json": pl.String,  # RunFiles
    "notes": pl.List(pl.String),
}
# Scores as they are, in the words of docs/reference/records.md.
# ``position``: in the file that they come from.
SCORE_ENTRY_SCHEMA: FrameSchema = {
    "score_id": pl.String,
    "position": pl.Int64,
    "score_json": pl.String,
}

_ALL = [*RUN_TABLES.values(), RUN_ENTRY_SCHEMA, SCORE_ENTRY_SCHEMA]
_MARKS = "files with digests and expansions, 2026-11"  # what RunFiles says
_COLUMNS = [[[name, str(kind)] for name, kind in each.items()] for each in (*_ALL, LAYER_SCHEMA)]
LAYOUT = content_hash([_MARKS, *_COLUMNS])
ENTRY_FILE = f"{LAYOUT}.parquet"


MAKE_AGAIN = "delete this dataset and make it again from the runs"


def files_of(table: str, files: RunFiles) -> list[str]:
    """The names of a run's files in one of RUN_TABLES."""
    return [name for name in files if name.startswith(f"{table}/")]


def run_entry(run_id: str) -> str:
    """The file that says that a run is in the dataset."""
    return f"runs/run_id={run_id}/{ENTRY_FILE}"


def run_part(table: str, run_id: str, content: str, number: int) -> str:
    """The name of a file of a run's rows; it contains a hash of their content."""
    return f"{table}/run_id={run_id}/{content}-{number:05d}.parquet"


def score_entry(score_id: str) -> str:
    """The file of one score."""
    return f"scores/score_id={score_id}/{ENTRY_FILE}"


def layer_part(score_id: str) -> str:
    """The file of the layers of one score, for other programs to read."""
    return f"layers/score_id={score_id}/{ENTRY_FILE}"
