"""One Chromium for all pages of a test session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.kinds import PAGES
from tests.browser.pages import CHROMIUM, DRIVER, FLAGS


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A browser that keeps its console and its requests in logs."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = str(CHROMIUM)
    profile = tmp_path_factory.mktemp("profile")
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # An explicit driver: Selenium then looks for none and downloads none.
    browser = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield browser
    browser.quit()


@pytest.fixture(scope="session")
def page(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the kind ``request.param``, one of PAGES, written once."""
    return Path(PAGES[request.param][0](tmp_path_factory.mktemp(request.param)))
