"""The site of the documents from ``file://``: search, equations, and a narrow page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


@pytest.mark.parametrize("page", ["index", "understand/scaling", "reference/commands/measure"])
def test_a_narrow_page_scrolls_down_alone(chromium: Any, site: str, page: str) -> None:
    _size(chromium, 420)
    try:
        chromium.get(f"{site}/{page}.html")
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= 420
    finally:
        chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
