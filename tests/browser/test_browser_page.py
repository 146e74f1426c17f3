"""The page itself in a real browser: first screen, a phone's width, dark, paper, legends."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from tests.browser import pages
from tests.browser.pages import MARKS, choose, open_all

pytestmark = MARKS
KINDS = ("one", "simulated", "published")
WIDTHS_PX = (420, 1280)
# What sticks out of the screen sideways, and what is not inside a box that scrolls by itself.
OUTSIDE = """
    const wide = innerWidth + 1;
    return [document.documentElement.scrollWidth <= innerWidth,
      [...document.querySelectorAll("main *, header *, nav *")]
        .filter((each) => !each.closest("svg, .scroll")
          && each.getBoundingClientRect().right > wide)
        .map((each) => `${each.tagName} ${each.className}`)];
"""
# The sizes of the type of all charts, as they are on the screen.
SIZES = """
    const sizes = new Set();
    for (const text of document.querySelectorAll("svg.marks text")) {
      if (!text.getClientRects().length) continue;
      const { a, b } = text.getScreenCTM();
      sizes.add((parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b)).toFixed(1));
    }
    return [...sizes];
"""
TOPS = """
    return arguments[0].map((each) =>
      Math.round(document.querySelector(each).getBoundingClientRect().top + scrollY));
"""


def load(chromium: Any, page: Path, width_px: int = 1280, scheme: str = "light") -> None:
    metrics = {"width": width_px, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    pages.load(chromium, page, page.read_text().count("data-spec="), scheme)


def tops(chromium: Any, *selectors: str) -> list[int]:
    return list(chromium.execute_script(TOPS, selectors))


@pytest.fixture(autouse=True)
def _as_before(chromium: Any) -> Any:
    yield
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.mark.parametrize("page", KINDS, indirect=True)
@pytest.mark.parametrize("width_px", WIDTHS_PX)
def test_nothing_is_wider_than_the_screen_and_charts_have_one_size_of_type(
    chromium: Any, page: Path, width_px: int
) -> None:
    load(chromium, page, width_px)
    assert chromium.execute_script(OUTSIDE) == [True, []]
    open_all(chromium)
    assert chromium.execute_script(OUTSIDE) == [True, []]
    assert chromium.execute_script(SIZES) == ["12.0"]
    # Tables: on a phone the cells stand under each other; none needs to scroll sideways.
    scrolls = """
        return [...document.querySelectorAll(".scroll")]
          .filter((each) => each.scrollWidth > each.clientWidth + 1)
          .map((each) => each.getAttribute("aria-label"))
    """
    assert chromium.execute_script(scrolls) == []


@pytest.mark.parametrize("page", ["one"], indirect=True)
def test_one_mode_opens_with_its_networks_and_what_limits_them(chromium: Any, page: Path) -> None:
    load(chromium, page)
    facts = chromium.execute_script(
        "return [...document.querySelectorAll('.facts > div')].map((each) => each.innerText)"
    )
    assert [fact.split("\n")[0] for fact in facts] == ["What limits", "Next"]
    assert "limits" in facts[0]
    assert "mansard bench --again" in facts[1]
    limits = chromium.find_element("css selector", "#roofline").text
    assert "2c (2 CPU cores, clocks as found) computes at most 128.0" in limits
    # The warning is one line, which leads to what failed; the roofs begin on the first screen.
    warning = chromium.find_element("css selector", "p.warning")
    assert warning.text.startswith("Do not rely on these measurements: 1 check failed.")
    assert warning.size["height"] < 50
    assert warning.find_element("tag name", "a").get_attribute("href").endswith("#notices")
    facts_px, roofs_px = tops(chromium, ".facts", "[data-spec=roofline] svg .mark-line path")
    assert facts_px < roofs_px < 900


@pytest.mark.parametrize("page", ["simulated"], indirect=True)
def test_several_modes_open_with_the_saving_and_the_choices(chromium: Any, page: Path) -> None:
    load(chromium, page)
    table, verdict, choices, roofs = tops(
        chromium, ".results table", ".verdict", ".choices", "#roofline"
    )
    assert table < verdict < 500
    assert verdict < choices < roofs
    text = chromium.find_element("css selector", ".verdict").text
    assert text.startswith("MAXN uses the least energy for all 2 networks")
    rows = chromium.execute_script(
        "return [...document.querySelectorAll('.choices tbody tr')].map((each) => each.innerText)"
    )
    assert [row.split()[0] for row in rows] == ["15W", "30W", "50W", "MAXN"]
    assert sum("\u2605" in row for row in rows) >= 1  # the recommended one
    # The bar of the highest mode, which the others are told beside, is of 100 %.
    (highest,) = [row for row in rows if row.startswith("MAXN")]
    assert highest.count("100\u00a0%") + highest.count("100 %") == 3


@pytest.mark.parametrize("page", ["published"], indirect=True)
def test_a_column_that_says_the_same_in_every_row_is_in_the_caption(
    chromium: Any, page: Path
) -> None:
    load(chromium, page)
    same = chromium.execute_script(
        """
        return [...document.querySelectorAll("main .scroll:not(.results) table")]
          .filter((table) => {
          const rows = [...table.tBodies[0].rows].map((row) => [...row.cells]);
          return rows.length > 1 && rows[0].length > 2 && rows[0].some((_, at) =>
            new Set(rows.map((row) => row[at].textContent)).size === 1);
        }).map((table) => table.caption.textContent)
        """
    )
    assert same == []


@pytest.mark.parametrize("page", ["simulated"], indirect=True)
def test_paper_is_light_leaves_out_what_is_closed_and_cuts_no_chart(
    chromium: Any, page: Path
) -> None:
    load(chromium, page, scheme="dark")
    ground = "return getComputedStyle(document.body).backgroundColor"
    assert chromium.execute_script(ground) == "rgb(15, 20, 26)"
    shown = """
        return [...document.querySelectorAll('main details:not([open])')]
          .filter((each) => each.getClientRects().length).length
    """
    assert chromium.execute_script(shown) > 5
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": dark})
    a4 = {"width": 718, "height": 1000, "deviceScaleFactor": 1, "mobile": False}  # 190 mm
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", a4)
    assert chromium.execute_script(shown) == 0
    assert chromium.execute_script(ground) == "rgb(255, 255, 255)"
    filters = "return getComputedStyle(document.querySelector('svg.marks')).filter"
    assert "invert(1)" in chromium.execute_script(filters)
    assert chromium.execute_script(OUTSIDE)[1] == []
    sizes_px = [float(size) for size in chromium.execute_script(SIZES)]
    assert max(sizes_px) - min(sizes_px) < 0.3  # one size, but for the rounding of the paper


@pytest.mark.parametrize("page", ["simulated"], indirect=True)
def test_the_page_is_short_and_a_pdf_of_it_too(chromium: Any, page: Path) -> None:
    height = "return document.documentElement.scrollHeight"
    load(chromium, page)
    assert chromium.execute_script(height) <= 7200
    load(chromium, page, 420)
    assert chromium.execute_script(height) <= 20000
    load(chromium, page)

    def n_sheets() -> int:
        made = chromium.execute_cdp_cmd("Page.printToPDF", {})["data"]
        return len(re.findall(rb"/Type\s*/Page\b", base64.b64decode(made)))

    closed = n_sheets()
    assert closed <= 14
    open_all(chromium)
    assert n_sheets() >= closed + 2


@pytest.mark.parametrize("page", ["simulated"], indirect=True)
def test_legends_name_only_what_is_drawn(chromium: Any, page: Path) -> None:
    load(chromium, page)
    choose(chromium, "precision", "")
    names = """
        return [...document.querySelectorAll(
          "[data-spec=batches] svg .role-legend-label text")].map((each) => each.textContent)
    """
    assert chromium.execute_script(names) == ["fp16", "fp32"]
    choose(chromium, "precision", "fp32")
    assert chromium.execute_script(names) == ["fp32"]
    choose(chromium, "precision", "")
