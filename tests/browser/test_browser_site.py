"""The site of the documents from ``file://``: search, equations, and a narrow page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.pages import MARKS

pytest.importorskip("material", reason="the extra docs builds the site")
pytestmark = MARKS
ROOT = Path(__file__).resolve().parents[2]
_OPEN_SEARCH = """
const toggle = document.querySelector("[data-md-toggle=search]");
toggle.checked = true;
toggle.dispatchEvent(new Event("change"));
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return folder.as_uri()


def _size(chromium: Any, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def test_search_finds_a_page_without_a_server(chromium: Any, site: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    _size(chromium, 1280)
    chromium.get("about:blank")
    chromium.get_log("performance")  # what other pages asked for
    chromium.get(f"{site}/index.html")
    chromium.execute_script(_OPEN_SEARCH)
    wait = WebDriverWait(chromium, 300)
    field = wait.until(lambda page: page.find_element(By.NAME, "query"))
    wait.until(lambda _: field.is_displayed())
    field.send_keys("disturbed trials")
    titles = wait.until(
        lambda page: page.find_elements(By.CSS_SELECTOR, ".md-search-result__item h1")
    )
    assert "Energy and disturbed trials" in [title.text for title in titles]
    asked = [
        message["params"]["request"]["url"]
        for entry in chromium.get_log("performance")
        if (message := json.loads(entry["message"])["message"])["method"]
        == "Network.requestWillBeSent"
    ]
    assert [url for url in asked if url.startswith(("http:", "https:"))] == []


@pytest.fixture
def narrow(chromium: Any) -> Iterator[Any]:
    """The browser with a page of 420 pixels."""
    _size(chromium, 420)
    yield chromium
    chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


_PAGES = (
    *("index", "use/recommending", "use/watching", "understand/board-transfer"),
    *("understand/energy", "understand/scaling", "understand/trust", "understand/rooms"),
    *("reference/commands/measure", "reference/records", "reference/operators"),
)


@pytest.mark.parametrize("page", _PAGES)
def test_a_narrow_page_scrolls_down_alone(narrow: Any, site: str, page: str) -> None:
    narrow.get(f"{site}/{page}.html")
    assert "Mansard" in narrow.title  # not a page of an error
    assert narrow.execute_script("return document.documentElement.scrollWidth") <= 420


_OPTIONS = """
const rows = document.querySelectorAll("table[data-list] tbody tr");
return Array.from(rows, (row) => Array.from(row.cells, (cell) => {
  const {left, right, top, bottom} = cell.getBoundingClientRect();
  return {left, right, top, bottom, weight: Number(getComputedStyle(cell).fontWeight)};
}));
"""


@pytest.mark.parametrize("page", ["reference/commands/measure", "use/recommending"])
def test_a_narrow_page_shows_each_option_above_its_meaning(
    narrow: Any, site: str, page: str
) -> None:
    narrow.get(f"{site}/{page}.html")
    rows = narrow.execute_script(_OPTIONS)
    assert len(rows) > 10
    for option, *meanings in rows:
        assert option["weight"] == 700
        shown = [cell for cell in meanings if cell["bottom"] > cell["top"]]
        above = option
        for cell in shown:
            assert cell["top"] >= above["bottom"]
            assert cell["left"] == option["left"] >= 0
            assert cell["right"] <= 420
            above = cell
    _size(narrow, 1280)
    option, meaning, *_ = narrow.execute_script(_OPTIONS)[0]
    assert option["top"] == meaning["top"]
    assert option["right"] <= meaning["left"]


def test_wide_figures_scroll_in_their_own_box(narrow: Any, site: str) -> None:
    narrow.get(f"{site}/understand/speed.html")
    widths = narrow.execute_script(
        """
        const boxes = document.querySelectorAll(".md-typeset__scrollwrap");
        return Array.from(boxes, (box) => [box.clientWidth, box.scrollWidth]);
        """
    )
    assert any(inner > outer for outer, inner in widths)
    assert max(outer for outer, _ in widths) <= 420
