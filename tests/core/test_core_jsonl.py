"""Rows survive kills, full disks and other versions."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mansard.core.errors import SchemaError, StorageError
from mansard.core.records import PowerSample, Record, Schema
from mansard.core.storage.jsonl import RowWriter, read_rows


def sample(number: int) -> PowerSample:
    return PowerSample(
        rail=f"rail {number}",
        monotonic_s=float(number),
        power_w=1.5,
        energy_j=None,
        unknown={"energy_j": "reads power"},
    )


def write(path: Path, *numbers: int) -> None:
    with RowWriter(path, PowerSample) as writer:
        for number in numbers:
            writer.append(sample(number))


def test_rows_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write(path, 1, 2)
    write(path, 3)
    result = read_rows(path, PowerSample)
    assert result.rows == (sample(1), sample(2), sample(3))
    assert result.torn is None


def test_the_file_says_its_schema_and_version_first(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write(path)
    assert path.read_text() == '{"schema":"power-sample","version":1}\n'


@given(cut=st.integers(min_value=0))
def test_cutting_the_file_anywhere_loses_at_most_the_row_that_is_cut(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cut") / "rows.jsonl"
    write(path, *range(5))
    whole = path.read_bytes()
    cut %= len(whole) + 1
    path.write_bytes(whole[:cut])
    n_complete = max(0, whole[:cut].count(b"\n") - 1)  # the first line is the header
    result = read_rows(path, PowerSample)
    assert result.rows == tuple(sample(number) for number in range(n_complete))
    assert (result.torn or b"") == whole[:cut].rpartition(b"\n")[2]


def test_a_writer_moves_a_torn_line_aside_and_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write(path, 1, 2)
    torn = path.read_bytes()[:-10]
    path.write_bytes(torn)
    with RowWriter(path, PowerSample) as writer:
        assert writer.torn_path == tmp_path / "rows.jsonl.torn-1"
        writer.append(sample(7))
    assert read_rows(path, PowerSample).rows == (sample(1), sample(7))
    assert (tmp_path / "rows.jsonl.torn-1").read_bytes() == torn.rpartition(b"\n")[2]


def test_an_unknown_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"schema":"power-sample","version":99}\n')
    with pytest.raises(SchemaError, match=r"rows\.jsonl: .*version 99.*reads version 1"):
        read_rows(path, PowerSample)
    with pytest.raises(SchemaError, match="version 99"):
        RowWriter(path, PowerSample)
    assert path.read_text() == '{"schema":"power-sample","version":99}\n'


class Grown(Record, frozen=True, kw_only=True):
    """A record whose version 3 has a field more than version 2, with a default."""

    schema: ClassVar[Schema] = Schema("grown", 3, oldest=2)

    name: str
    length_s: float = 0.5


@pytest.mark.parametrize("version", [2, 3])
def test_older_versions_are_read_where_new_fields_have_defaults(
    tmp_path: Path, version: int
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"schema":"grown","version":{version}}}\n{{"name":"a"}}\n')
    assert read_rows(path, Grown).rows == (Grown(name="a", length_s=0.5),)


@pytest.mark.parametrize("version", [1, 4])
def test_versions_before_and_after_are_refused(tmp_path: Path, version: int) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"schema":"grown","version":{version}}}\n{{"name":"a"}}\n')
    with pytest.raises(SchemaError, match=f"version {version}, this Mansard reads version 3"):
        read_rows(path, Grown)


def test_nothing_is_added_to_a_file_of_an_older_version(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"schema":"grown","version":2}\n')
    with pytest.raises(SchemaError, match="version 2"):
        RowWriter(path, Grown)


def test_rows_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"schema":"trial","version":1}\n')
    with pytest.raises(SchemaError, match="holds 'trial' rows, not 'power-sample'"):
        read_rows(path, PowerSample)


@pytest.mark.parametrize(
    "line",
    [
        '{"rail":"a","monotonic_s":0.5,"power_w":1.0,"energy_j":2.0,"colour":"red"}',
        '{"rail":"a","monotonic_s":"soon","power_w":1.0,"energy_j":2.0}',
        '{"rail":"a","monotonic_s":0.5,"power_w":null,"energy_j":2.0}',
        '{"rail":"a","monotonic_s":0.5,"power_w":1.0}',
        "no JSON",
        "[" * 100_000,
        '{"rail":"\udce4"}',
    ],
)
def test_a_row_that_cannot_be_read_names_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    write(path, 1)
    with path.open("ab") as stream:
        stream.write(line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(SchemaError, match=r"rows\.jsonl, line 3: "):
        read_rows(path, PowerSample)


def test_the_unknown_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    write(path)
    with path.open("a") as stream:
        stream.write('{"rail":"a","monotonic_s":0.5,"power_w":1,"energy_j":2,"colour":3}\n')
    with pytest.raises(SchemaError, match="colour"):
        read_rows(path, PowerSample)


def test_two_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with (
        RowWriter(path, PowerSample),
        pytest.raises(StorageError, match="another process is writing"),
    ):
        RowWriter(path, PowerSample)
    write(path, 1)  # the lock ends with its writer


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"gone\.jsonl: No such file or directory; "):
        read_rows(tmp_path / "gone.jsonl", PowerSample)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(tmp_path, os.W_OK):
        pytest.skip("this user may write everywhere (root)")
    with pytest.raises(StorageError, match="Permission denied; check its permissions, or choose"):
        RowWriter(tmp_path / "rows.jsonl", PowerSample)
