"""How much memory a Parquet file takes once it is read: told before anything is unpacked.

A file of a megabyte may hold a thousand million equal rows, or one text of gigabytes. The footer
says how many rows and bytes there are, but a hostile one lies; each page says before its content
how long that becomes, and a reader reserves what it says. Both are read, and the larger counts.

Format: Apache Parquet, "parquet.thrift" (FileMetaData, RowGroup, ColumnChunk, ColumnMetaData,
PageHeader), in Thrift's compact protocol.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection
from pathlib import Path
from typing import Any

from mansard.core.errors import StorageError

MOST_FILE_BYTES = 256 << 20  # ours are made of 8 MiB of text
MOST_TABLE_BYTES = 512 << 20  # of the files of a table that is read whole: 700,000 trials
_MOST_PAGES = 100_000
_MOST_DEPTH = 16
_MAGIC = b"PAR1"
_TEXT_BYTES, _NUMBER_BYTES = 16, 8  # of a value in a frame: a view of a text, a number
_BYTE_ARRAY = 6  # and 7, of fixed length
_MAKE_AGAIN = "it is none of ours; remove the dataset and make it again from the runs"

_LENGTHS = {1: 0, 2: 0, 3: 1, 7: 8, 8: 0}  # of a value, by its type
Fields = dict[int, Any]  # of a struct, by number; lists of structs as lists of these


def check_expansion(paths: Collection[Path], *, is_whole: bool) -> None:
    """Raises StorageError for a file that takes more memory than one of a dataset can.

    ``is_whole``: all of them are read at once.
    """
    total_bytes = 0
    for path in paths:
        try:
            n_bytes = expanded_bytes(path)
        except OSError:
            continue  # who reads it says so
        total_bytes += n_bytes
        for found, most, what in (
            (n_bytes, MOST_FILE_BYTES, "a file of a dataset"),
            (total_bytes if is_whole else 0, MOST_TABLE_BYTES, "a table"),
        ):
            if found > most:
                raise StorageError(
                    f"expands to {found >> 20:,} MiB, more than the {most >> 20} of {what}",
                    where=str(path),
                    fix=_MAKE_AGAIN,
                )


def expanded_bytes(path: Path) -> int:
    """Bytes of the frame that ``path`` becomes, at most; 0 where it is no Parquet file.

    Raises OSError where it cannot be read.
    """
    with path.open("rb") as stream:
        try:
            data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # it is empty
            return 0
        with data:
            try:
                return _expanded(data)
            except (IndexError, KeyError, TypeError, ValueError, OverflowError):
                return 0  # the reader refuses it


def _expanded(data: mmap.mmap) -> int:
    if data[-4:] != _MAGIC:
        return 0
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if start < 0:
        return 0
    footer = _Compact(data, start).struct()
    total_bytes, n_pages = _NUMBER_BYTES * int(footer.get(3, 0)), 0
    for group in footer.get(4, []):
        for chunk in group.get(1, []):
            n_bytes, n_pages = _chunk_bytes(data, chunk[3], n_pages)
            total_bytes += n_bytes + _NUMBER_BYTES * group.get(3, 0)  # what lists and nulls take
    return total_bytes


def _chunk_bytes(data: mmap.mmap, meta: Fields, n_pages: int) -> tuple[int, int]:
    """Bytes of one column of one row group, and how many pages were seen until then."""
    at = min(meta[9], meta.get(11, meta[9]))
    end = at + meta[7]
    page_bytes = n_values = 0
    while at < end:
        header = _Compact(data, at)
        page = header.struct()
        content = page.get(5) or page.get(8) or {}
        page_bytes += page[2]
        n_values += content.get(1, 0)
        n_pages += 1
        at = header.at + page[3]
        if page[3] < 0 or page[2] < 0 or n_pages > _MOST_PAGES:
            return MOST_FILE_BYTES + 1, n_pages
    width = _TEXT_BYTES if meta[1] >= _BYTE_ARRAY else _NUMBER_BYTES
    return max(page_bytes, meta[6]) + width * max(n_values, meta[5]), n_pages


class _Compact:
    """Reads Thrift's compact protocol from ``at`` on."""

    def __init__(self, data: mmap.mmap, at: int) -> None:
        self._data = data
        self.at = at

    def struct(self, depth: int = 0) -> Fields:
        """The fields of a struct, by number."""
        if depth > _MOST_DEPTH:
            raise ValueError("nested too deeply")
        fields: Fields = {}
        number = 0
        while head := self._byte():
            step = head >> 4
            number = number + step if step else self._signed()
            fields[number] = self._value(head & 0x0F, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in {4, 5, 6}:  # 16, 32 and 64 bits
            return self._signed()
        if kind in _LENGTHS:  # true, false, a byte, a double, bytes: never looked at
            n_bytes = self._unsigned() if kind == 8 else _LENGTHS[kind]
            self.at += n_bytes
            return None
        if kind in {9, 10}:
            return self._list(depth)
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("no such type")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        kind, n_items = head & 0x0F, head >> 4
        n_items = self._unsigned() if n_items == 15 else n_items
        if n_items > len(self._data):
            raise ValueError("more items than bytes")
        if kind in {1, 2}:  # each has a byte of its own
            self.at += n_items
            return []
        return [self._value(kind, depth) for _ in range(n_items)]

    def _byte(self) -> int:
        found = self._data[self.at]
        self.at += 1
        return found

    def _unsigned(self) -> int:
        result = shift = 0
        while True:
            byte = self._byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7
            if shift > 63:
                raise ValueError("more than 64 bits")

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)
