"""Tables on stdout: every cell whole, the columns aligned, within 160 columns."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from mansard.cli.tables import print_table
from mansard.core.text import printable


def test_numbers_are_flush_right_and_text_is_flush_left(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Layers", ("layer", "MMAC"), [("conv [1]", "9.5"), ("é\u0301日本", "1,204")])
    # Columns: é has one, its second accent none, 日 and 本 two each: five.
    # So 8 and 5 are the widest.
    assert capsys.readouterr().out == (
        "Layers\n"
        "┌──────────┬───────┐\n"
        "│ layer    │  MMAC │\n"
        "├──────────┼───────┤\n"
        "│ conv [1] │   9.5 │\n"
        "│ é\u0301日本    │ 1,204 │\n"
        "└──────────┴───────┘\n"
    )


def test_the_widest_columns_are_folded_at_blanks_or_inside_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = " ".join(["word"] * 40)  # 199 columns
    print_table("", ("a", "b", "n"), [(words, "x" * 200, "1.5")])
    # 160 - 3 · 3 - 1 = 150 for the cells, 3 of them for the numbers: 73 for each of the others.
    # 15 words with a blank after each are 75 columns, 14 and a last one without are 74: 14 words.
    lines = capsys.readouterr().out.splitlines()
    assert {len(line) for line in lines[1:]} == {3 + 73 + 73 + 3 * 3 + 1}
    first = lines[4]
    assert first == f"│ {' '.join(['word'] * 14):73} │ {'x' * 73} │ 1.5 │"
    assert lines[5] == f"│ {' '.join(['word'] * 14):73} │ {'x' * 73} │     │"
    assert lines[6] == f"│ {' '.join(['word'] * 12):73} │ {'x' * 54:73} │     │"


def test_no_word_is_broken_where_the_table_fits_without(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table("", ["network", *["time"] * 13], [("mobilenet_v2", *["24.36 ± 0.85 ms"] * 13)])
    # 160 - 3 · 14 - 1 = 117 for the cells: 12 for the name and 8 for each time.
    lines = capsys.readouterr().out.splitlines()
    assert lines[4] == f"│ mobilenet_v2 {'│ 24.36 ±  ' * 13}│"
    assert lines[5] == f"│ {'':12} {'│  0.85 ms ' * 13}│"


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
    rule = "+---+---+\n"
    assert printed("latin-1", [("é", "1")]) == f"T\n{rule}| a | b |\n{rule}| é | 1 |\n{rule}"


TEXT = st.text(st.sampled_from("abc -.日本ー\u0301\u00a0\n"), max_size=300)


@given(st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_no_line_is_too_wide_and_no_character_is_lost(rows: list[tuple[str, str]]) -> None:
    lines = printed("utf-8", rows).splitlines()[1:]
    widths = {cell_len(line) for line in lines}  # Rich's tables of widths, as a second opinion
    assert len(widths) == 1
    assert max(widths) <= 160
    shown = "".join(line.replace("│", "") for line in lines if line.startswith("│"))
    given_text = "ab" + "".join(printable(cell) for row in rows for cell in row)
    assert Counter(shown.replace(" ", "")) == Counter(given_text.replace(" ", ""))
