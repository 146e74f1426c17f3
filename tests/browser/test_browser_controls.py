"""Every control of every kind of report is operated in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import pages
from tests.browser.kinds import OTHER, PAGES
from tests.browser.operating import operate
from tests.browser.pages import MARKS, choose, chosen, drawing

pytestmark = MARKS


@pytest.mark.parametrize("page", PAGES, indirect=True)
def test_every_control_leaves_a_page_without_a_fault(
    chromium: Any, page: Path, request: Any
) -> None:
    n_steps, faults = operate(chromium, page, page.read_text().count("data-spec="))
    assert faults == []
    assert n_steps >= PAGES[request.node.callspec.params["page"]][1]


@pytest.mark.parametrize("page", ["many"], indirect=True)
def test_a_device_brings_its_own_modes_and_words_where_it_has_no_roofs(
    chromium: Any, page: Path
) -> None:
    pages.load(chromium, page, page.read_text().count("data-spec="))
    modes = """
        return Array.from(document.querySelectorAll("select[name=mode] option"))
          .filter((option) => !option.hidden).map((option) => option.text)
    """
    # A board with recorded networks comes before one where none ran.
    assert chosen(chromium, "device") == OTHER
    assert chromium.execute_script(modes) == ["10W", "20W", "MAXN"]
    assert chosen(chromium, "mode").startswith(OTHER)
    words = chromium.execute_script(
        "return document.querySelector('#roofline .none:not([hidden])').textContent"
    )
    assert words.startswith(f"{chosen(chromium, 'mode')} has no roofs")
    choose(chromium, "network", "works")
    choose(chromium, "precision", "fp16")
    front = drawing(chromium, "pareto")
    assert "Pareto front, works, batch 1, fp16: published" in front
    assert "latency: 12" in front  # told in MAXN's tooltip; 20W has no power and no point
    assert "latency: 20" not in front
    devices = chromium.execute_script(
        "return Array.from(document.querySelectorAll(\"#controls [name='device']\"), e => e.value)"
    )
    choose(chromium, "device", next(name for name in devices if "GPU" in name))
    assert chromium.execute_script(modes) == ["15W", "30W", "50W", "MAXN"]


@pytest.mark.parametrize("page", ["simulated"], indirect=True)
def test_captions_titles_and_tables_name_what_was_chosen(chromium: Any, page: Path) -> None:
    pages.load(chromium, page, page.read_text().count("data-spec="))
    balances = "return document.querySelector('table[data-live=balances] caption').textContent"
    for mode in ("15W", "50W"):
        choose(chromium, "mode", mode)
        caption = chromium.execute_script(balances)
        unit = "FLOP/byte (int8: OP/byte)"
        assert caption == f"Balance points of {mode} from main memory, {unit}"
    choose(chromium, "network", "network-01")
    # The recommendation is in fp16 with batch 8; the page has one batch.
    assert "network-01, batch 1, fp16: at best" in drawing(chromium, "pareto")
    choose(chromium, "precision", "fp32")
    assert "network-01, batch 1, fp32: at best" in drawing(chromium, "pareto")
    layers = chromium.execute_script(
        "const table = document.querySelector('table[data-live=layers]');"
        "return [table.caption.textContent, table.tBodies[0].rows.length]"
    )
    assert layers[0].startswith("Layers of network-01, batch 1, fp32, 50W: ")
    assert layers[1] == 6
