"""The tables of errors say what the tables of the benchmarks say."""

from __future__ import annotations

import os

import pytest

from tools.site.errors import PAGE, bounds, glance, others, with_errors
from tools.site.page_tables import Cell, Column


def test_the_page_has_the_tables_as_they_are() -> None:
    page = PAGE.read_text("utf-8")
    if os.environ.get("MANSARD_REWRITE"):
        PAGE.write_text(with_errors(page), "utf-8")
    elif page != with_errors(page):
        pytest.fail(
            "python -m tools.site.errors writes the tables of docs/understand/trust.md again"
        )


def test_every_line_has_numbers() -> None:
    found = [*glance(), *bounds(), *others()]
    assert len(found) >= 30
    assert all(any(character.isdigit() for character in each.text()) for each in found)
    blocks = ("glance", "bounds", "modes", "intervals", "networks", "decisions", "others")
    page = PAGE.read_text("utf-8")
    assert [page.count(f"`python -m tools.site.errors`: {name} -->") for name in blocks] == [1] * 7


def test_the_best_plain_rule_of_a_recording() -> None:
    # Medians of the TX2's three networks after 4 modes: 1/f 6.05, 1/(f·n) 6.05, the line 2.48, the
    # nearest mode 17.7.
    page = PAGE.read_text("utf-8")
    assert "| 1.2 | 4.73 | 24.5 | a/f+b/m+c | 2.48 | 9.31 | 37.9 |" in page


def test_a_cell() -> None:
    # docs/results/partitions.md: | surface | 3.7 | 7.5 | -2.7 |
    assert Cell("results/partitions.md", "Summary", "surface", "largest").text() == "7.5"


def test_a_column_without_signs() -> None:
    # 13 engines, first of two columns "error": 0, 0, -2.31, -3.24, -0.03, 0, -0.01, 0.01, -0.03, 0,
    # 0, -0.56, 0.07; sorted without signs the seventh is 0.01, the last 3.24.
    engines = Column("understand/traffic.md", "Against recorded engines", "error")
    assert engines.text() == "median 0.01 %, worst 3.24 %"


@pytest.mark.parametrize(
    "cell",
    [
        Cell("results/partitions.md", "No such title", "surface", "largest"),
        Cell("results/partitions.md", "Summary", "nonsense", "largest"),
        Cell("results/partitions.md", "Summary", "surface", "nonsense"),
    ],
)
def test_a_cell_that_is_gone(cell: Cell) -> None:
    with pytest.raises(KeyError, match=r"results/partitions\.md"):
        cell.text()
