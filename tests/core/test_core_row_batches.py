"""Rows read in pieces are the rows of the file, and faults are told as ``read_rows`` tells them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import SchemaError, StorageError
from mansard.core.records import PowerSample
from mansard.core.storage.jsonl import RowReader, read_rows, write_rows


def sample(rail: str) -> PowerSample:
    return PowerSample(
        rail=rail, monotonic_s=0.5, power_w=1.5, energy_j=None, unknown={"energy_j": "reads power"}
    )


def read(path: Path, batch_bytes: int = 64) -> tuple[list[PowerSample], RowReader[PowerSample]]:
    reader = RowReader(path, PowerSample, batch_bytes)
    return [row for batch in reader.batches() for row in batch], reader


@given(rails=st.lists(st.text(max_size=200), max_size=20), batch_bytes=st.integers(1, 5000))
def test_any_rows_in_pieces_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, rails: list[str], batch_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    write_rows(path, PowerSample, map(sample, rails))
    rows, reader = read(path, batch_bytes)
    assert tuple(rows) == read_rows(path, PowerSample).rows
    assert (reader.n_torn_bytes, reader.n_malformed) == (0, 0)


@pytest.mark.parametrize("batch_bytes", [1, 64, 10_000])
def test_a_torn_last_line_is_left_and_measured(tmp_path: Path, batch_bytes: int) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, PowerSample, [sample("a"), sample("b")])
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"rail":"c')
    rows, reader = read(path, batch_bytes)
    assert [row.rail for row in rows] == ["a", "b"]
    assert reader.n_torn_bytes == 10
    path.write_bytes(whole[:7])  # torn in the header
    rows, reader = read(path, batch_bytes)
    assert (rows, reader.n_torn_bytes) == ([], 7)


@pytest.mark.parametrize("batch_bytes", [1, 64, 10_000])
def test_malformed_lines_are_counted_and_the_first_is_named(
    tmp_path: Path, batch_bytes: int
) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, PowerSample, map(sample, "abcd"))
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(b"1.5", b"NaN")
    lines[4] = b"\n"
    path.write_bytes(b"".join(lines))
    rows, reader = read(path, batch_bytes)
    assert [row.rail for row in rows] == ["a", "c"]
    assert reader.n_malformed == 2
    assert reader.first_malformed == "line 3, it holds NaN or Infinity"


@pytest.mark.parametrize("batch_bytes", [1, 64, 10_000])
def test_a_row_of_another_version_is_refused_by_its_line(tmp_path: Path, batch_bytes: int) -> None:
    path = tmp_path / "rows.jsonl"
    write_rows(path, PowerSample, map(sample, "abc"))
    text = path.read_text().splitlines(keepends=True)
    text[3] = text[3].replace('"rail"', '"colour"')
    path.write_text("".join(text))
    with pytest.raises(SchemaError, match=r"rows\.jsonl, line 4: .*colour"):
        read(path, batch_bytes)
    path.write_text(text[0].replace('"version":1', '"version":9') + text[1])
    with pytest.raises(SchemaError, match="version 9"):
        read(path, batch_bytes)


def test_a_pipe_is_not_waited_for_and_no_file_is_one_line(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="is not a regular file"):
        read(tmp_path / "pipe")
    with pytest.raises(StorageError, match="No such file"):
        read(tmp_path / "nothing")
