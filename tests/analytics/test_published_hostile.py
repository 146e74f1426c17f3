"""Whatever a file holds: a table, or one printable line that says why not."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mansard.analytics.data.published.cells import parse_positive
from mansard.analytics.data.published.importing import import_table
from mansard.analytics.data.published.origin import PublishedOrigin
from mansard.core.errors import MansardError

ORIGIN = PublishedOrigin(device="Board", processor="gpu", citation="A. Author, 2026")


@given(st.floats(1e-12, 1e12, allow_nan=False))
def test_a_number_is_read_as_it_was_written(value: float) -> None:
    assert parse_positive(repr(value), ",", "t", "x") == value


@given(st.integers(1, 999_999_999))
def test_thousands_that_are_separated(value: int) -> None:
    assert parse_positive(f"{value:,}", ",", "t", "x") == value
    assert parse_positive(f"{value:,}.5".replace(",", "'"), ";", "t", "x") == value + 0.5


def line_of(tmp_path: Path, data: bytes) -> str:
    """What importing ``data`` says where it is refused, else nothing."""
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    try:
        rows = import_table(path, ORIGIN).rows
    except MansardError as error:
        return str(error)
    return "" if rows else "no rows\n"


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_a_table_or_one_line(tmp_path: Path, data: bytes) -> None:
    assert line_of(tmp_path, data).isprintable()
    assert line_of(tmp_path, b"mode,network,time_s\n" + data).isprintable()


CELLS = st.sampled_from(
    ["", "15W", "1", "-1", "1,5", "1e400", "nan", "\u0661", "\u202e", "'1", '"', "1_0", "0x10", "½"]
)
HEADS = st.sampled_from(
    ["mode", "network", "GFLOP/s", "gb_per_s", "time_ms", "power", "fps", "bs", "W", "s", "gpu_mhz"]
)


@given(
    st.sampled_from([",", ";", "\t", "|"]),
    st.lists(HEADS, min_size=1, max_size=6),
    st.lists(st.lists(CELLS, min_size=1, max_size=6), max_size=4),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cells_are_a_table_or_one_line(
    tmp_path: Path, separator: str, heads: list[str], rows: list[list[str]]
) -> None:
    lines = [separator.join(cells) for cells in (heads, *rows)]
    assert line_of(tmp_path, "\n".join(lines).encode()).isprintable()
