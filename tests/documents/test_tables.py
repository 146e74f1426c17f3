"""Tables of the pages: every line of pipes is a row of a table that is shown as one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pytest

from tests.documents.pages import ROOT, pages

_FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
_RULE = re.compile(r"\s*\|(\s*:?-+:?\s*\|)+\s*")
_TEXT = re.compile(r"`[^`]*`|\$[^$]*\$|\\\|")  # a pipe in it ends no cell


def broken_tables(text: str) -> Iterator[str]:
    """The first line of each block of rows that is not a table: without a header, of other widths,
    or with a line of text right before or behind."""
    lines = _FENCE.sub("", text).splitlines()
    for is_blank, block in groupby(lines, key=lambda line: not line.strip()):
        rows = list(block)
        first = next((row for row in rows if row.lstrip().startswith("|")), None)
        if is_blank or first is None:
            continue
        widths = {_TEXT.sub("", row).strip().count("|") for row in rows}
        if len(rows) < 3 or not _RULE.fullmatch(rows[1]) or len(widths) > 1:
            yield first


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_is_in_a_table(page: Path) -> None:
    assert list(broken_tables(page.read_text("utf-8"))) == []


def test_broken_tables_are_found() -> None:
    head = "| a | b |\n|---|---|\n| 1 | 2 |\n"
    assert list(broken_tables(f"{head}\n```text\n| free |\n```\n")) == []
    assert list(broken_tables(f"{head}| `x|y` | $|z|$ |\n")) == []
    assert list(broken_tables(f"{head}\n| 3 | 4 |\n")) == ["| 3 | 4 |"]
    for text in (f"{head}| 3 |\n", f"text\n{head}", f"{head}text\n"):
        assert list(broken_tables(text)) == ["| a | b |"]
