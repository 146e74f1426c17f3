"""Tables on stdout: every word whole, the columns aligned, within the width."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mansard.cli.tables import print_table, table_lines
from mansard.cli.terminal import plain, shown
from mansard.core.table import Table


def lines_of(table: Table, width: int = 80) -> list[str]:
    return list(table_lines(table, width))


def test_numbers_are_flush_right_and_text_is_flush_left() -> None:
    rows = [("conv [1]", "9.5"), ("é\u0301日本", "1,204")]
    # Columns: é has one, its second accent none, 日 and 本 two each: five. So 8 and 5 are widest.
    assert lines_of(Table("Layers", ("layer", "MMAC"), rows)) == [
        "Layers",
        "layer      MMAC",
        "────────  ─────",
        "conv [1]    9.5",
        "é\u0301日本     1,204",
    ]


def test_what_all_rows_say_is_in_the_title_and_empty_columns_are_not_there() -> None:
    columns = ("network", "batch", "precision", "energy", "time")
    rows = [("alexnet", "8", "fp16", "–", "1.2\u00a0ms"), ("gpt2", "8", "fp16", "", "3\u00a0ms")]
    assert lines_of(Table("Networks", columns, rows)) == [
        "Networks; all batch 8, fp16",
        "network    time",
        "───────  ──────",
        "alexnet  1.2 ms",
        "gpt2       3 ms",
    ]


def test_of_a_single_row_what_it_is_of_is_in_the_title() -> None:
    table = Table("Networks", ("network", "mode", "time"), [("gpt2", "MAXN", "3 ms")])
    assert lines_of(table)[:2] == ["Networks; MAXN", "network  time"]


def test_long_remarks_are_numbered_lines_below_and_equal_ones_have_one_number() -> None:
    slower = "3.1 ms slower than the mode that was chosen"
    rows = [
        ("25W", "21.27\u00a0ms", "recommended"),
        ("15W", "31.02\u00a0ms", f"{slower}; outside the clocks that were measured"),
        ("7W", "39.98\u00a0ms", slower),
    ]
    assert lines_of(Table("Modes", ("mode", "time", "remark"), rows), 50) == [
        "Modes",
        "mode      time  remark",
        "────  ────────  ───────────",
        "25W   21.27 ms  recommended",
        "15W   31.02 ms  [1]; [2]",
        "7W    39.98 ms  [1]",
        "[1] 3.1 ms slower than the mode that was chosen",
        "[2] outside the clocks that were measured",
    ]


def test_texts_are_folded_at_blanks_and_numbers_keep_their_units() -> None:
    rows = [("abc def ghi", "10.1\u00a0±\u00a00.2\u00a0ms"), ("abc def", "1\u00a0ms")]
    # 24 columns: 2 between, 13 for the time, so 9 for the words: "abc def" and "ghi".
    assert lines_of(Table("T", ("words", "time"), rows), 24) == [
        "T",
        "words               time",
        "─────────  ─────────────",
        "abc def    10.1 ± 0.2 ms",
        "ghi",
        "abc def             1 ms",
    ]


def test_a_few_wide_records_stand_side_by_side_many_one_under_the_other() -> None:
    columns = ("mode", *(f"clock of processor {number}" for number in "ABCDEFG"))
    rows = [("15W", *"1234567"), ("MAXN", *"2345678")]
    turned = lines_of(Table("Modes", columns, [rows[0], rows[1]]), 40)
    assert turned[1:4] == [
        "mode                  15W  MAXN",
        "────────────────────  ───  ────",
        "clock of processor A    1     2",
    ]
    records = lines_of(Table("Modes", columns, [*rows] * 5), 40)
    assert records[1:3] == ["mode                  15W", "clock of processor A  1"]


def test_a_long_path_stands_whole_on_its_own_line() -> None:
    path = f"/{'folder/' * 15}network.onnx"
    assert lines_of(Table("T", ("file", "size"), [(path, "3 MB")]), 40) == [
        "T",
        "file",
        path,
        "size  3 MB",
    ]


def printed(encoding: str, rows: Sequence[tuple[str, str]]) -> str:
    """What a stream of that encoding gets of a table with these rows."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, errors="backslashreplace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        print_table("T", ("a", "b"), rows)
    stream.flush()
    return raw.getvalue().decode(encoding)


def test_a_terminal_without_box_characters_gets_ascii_lines() -> None:
    assert printed("latin-1", [("é", "1")]) == "T\na  b\n-  -\né  1\n\n"


CELL = st.text(st.sampled_from("abc -.;0日本ー\u0301\u00a0\n–"), max_size=90)
NAME = st.text(st.sampled_from("ab é日"), max_size=20)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    n_columns = draw(st.integers(1, 7))
    columns = draw(st.lists(NAME, min_size=n_columns, max_size=n_columns))
    row = st.lists(CELL, min_size=n_columns, max_size=n_columns)
    rows = draw(st.lists(row, max_size=10))
    return Table(draw(NAME), columns, rows)


def words(texts: Sequence[str]) -> set[str]:
    """Words without the commas and semicolons behind them, which part texts in titles and notes."""
    return {word.rstrip(",;") for text in texts for word in plain(text).split()} - {"–", ""}


@given(tables(), st.integers(20, 120))
def test_no_line_is_too_wide_and_every_word_is_whole(table: Table, width: int) -> None:
    lines = lines_of(table, width)
    for line in lines:
        # Rich's table of widths is a second opinion. What is too wide is one word.
        assert cell_len(line) <= width or len(line.split()) <= 1, line
    cells = [shown(cell) for row in table.rows for cell in row]
    assert words(lines) >= words([shown(table.title), *cells])


@given(tables())
def test_a_table_that_is_wide_enough_has_one_line_for_each_row(table: Table) -> None:
    lines, rows = lines_of(table, 5000), table.rows
    # Beside them the header, and the line under it.
    assert len(lines) >= len(rows) + 2


def test_what_all_rows_say_has_its_unit_and_what_is_unknown_is_listed_apart() -> None:
    columns = ("network", "layers", "weights (MB)", "fused (MB)", "FLOP/byte, fused", "time")
    rows = [
        ("a", "11", "9.2", "unknown", "unknown", "1"),
        ("b", "11", "9.2", *["unknown"] * 2, "2"),
    ]
    assert lines_of(Table("Scores", columns, rows))[0] == (
        "Scores; all layers 11, weights 9.2 MB; unknown: fused, FLOP/byte fused"
    )
