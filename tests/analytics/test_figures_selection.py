"""What a choice shows of a figure's rows, and the words that say so."""

from __future__ import annotations

import polars as pl

from mansard.analytics.pages.figures.parameters import EVERY, Chosen, LiveTable, Shown, words
from mansard.analytics.pages.figures.tables import Column

ROWS = pl.DataFrame(
    {
        "device": ["Orin", "Orin", "Orin", "Nano"],
        "network": ["net", "net", "other", "net"],
        "precision": ["fp16", "fp32", "fp32", "fp32"],
        "is_main": [True, False, True, True],
        "batch": [8, 8, 1, 1],
        "time": [3.0, 5.0, 2.0, None],
    }
)
SHOWN = Shown(ROWS, {"device": "all", "network": "first", "precision": "main"}, "net")


def test_what_was_not_chosen_is_stood_in_for_by_the_first_network_and_its_main_precision() -> None:
    own, rows = SHOWN.resolve(Chosen(device="Orin"))
    assert (own.network, own.precision) == ("net", "fp16")
    assert rows["time"].to_list() == [3.0]
    # on the other device the same network has another main precision
    own, rows = SHOWN.resolve(Chosen(device="Nano"))
    assert (own.network, own.precision) == ("net", "fp32")
    # a device that lacks the first network shows the first that it has
    own, _ = Shown(ROWS, SHOWN.by, "absent").resolve(Chosen(device="Orin"))
    assert own.network == "net"


def test_a_choice_without_rows_keeps_its_names_for_the_words_in_their_place() -> None:
    own, rows = SHOWN.resolve(Chosen(device="Nano", network="other"))
    assert rows.is_empty()
    text = words("Nothing of {network} in {precision} on {device}.", rows, own)
    assert text == "Nothing of other in any precision on Nano."


def test_words_name_up_to_three_values_and_count_more() -> None:
    assert words("{batch}", ROWS, Chosen()) == "8 and 1"
    many = pl.DataFrame({"batch": [1, 2, 4, 8], "network": ["net"] * 4})
    assert words("{network}: {batch}", many, Chosen()) == "net: 4 batch sizes"
    # what stands in braces in a name is a name
    assert words("{network}", pl.DataFrame({"network": ["{mode}"]}), Chosen()) == "{mode}"


def test_a_table_that_follows_has_the_chosen_rows_in_order_and_says_unknown() -> None:
    columns = (Column.text("Precision", "precision"), Column.number("Time, ms", "time"))
    table = LiveTable("t", "Times of {network}", columns, Shown(ROWS, {"network": "all"}), "time")
    found = table.at(Chosen(network="net"))
    assert found.title == "Times of net"
    assert found.rows == [["fp16", "3"], ["fp32", "5"], ["fp32", "unknown"]]
    assert table.at(Chosen(network=EVERY)).title == "Times of other and net"
    precision, time = table.script("rows")["columns"]
    assert precision == {
        "field": "precision",
        "title": "Precision",
        "within_sentence": "precision",
        "is_numeric": False,
    }
    assert time["within_sentence"] == "time in ms"
    assert time["format"] == {"maximumSignificantDigits": 4, "signDisplay": "auto"}


def test_rows_within_a_limit_are_kept() -> None:
    shown = Shown(ROWS, {}, within={"time": 3.0})
    assert shown.resolve(Chosen())[1]["time"].to_list() == [3.0, 2.0]


def test_numbers_of_cells_have_no_exponents() -> None:
    column = Column.number("GFLOP/s", "rate")
    cells = {13517.0: "13,520", 1234567.0: "1,235,000", 0.0000123456: "0.00001235", 99.5: "99.5"}
    assert [column.cell({"rate": rate}) for rate in cells] == list(cells.values())
    assert Column.number("Error, %", "error", "+.3g").cell({"error": 12345.0}) == "+12,300"
