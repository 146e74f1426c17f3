"""Loading a page in Chromium, which has no network."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MARKS = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None or DRIVER is None,
        reason="chromium and chromedriver are not installed ('make browser' installs them)",
    ),
]
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--window-size=1280,900",
)


def load(chromium: Any, page: Path, n_charts: int, scheme: str = "light") -> None:
    """Open ``page`` and wait until its charts are drawn; logs are empty before."""
    from selenium.webdriver.support.ui import WebDriverWait

    for kind in ("browser", "performance"):
        chromium.get_log(kind)  # empties it
    feature = {"name": "prefers-color-scheme", "value": scheme}
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    chromium.get(page.as_uri())
    drawn = "return document.documentElement.dataset.drawn"
    WebDriverWait(chromium, 30).until(lambda view: view.execute_script(drawn) == str(n_charts))
