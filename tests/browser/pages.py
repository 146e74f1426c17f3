"""Loading a page in Chromium, which has no network."""

from __future__ import annotations

import re
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
    WebDriverWait(chromium, 300).until(lambda view: view.execute_script(drawn) == str(n_charts))


def open_all(chromium: Any) -> None:
    """Open every details element, and wait until what is in them has been drawn again."""
    chromium.execute_async_script(
        """
        const done = arguments[0];
        for (const details of document.querySelectorAll("main details")) details.open = true;
        const isDrawn = () => [...document.querySelectorAll("[data-spec]")]
          .every((plot) => plot.hidden || plot.querySelector("svg.marks"));
        const look = () => (isDrawn() ? setTimeout(done, 500) : setTimeout(look, 50));
        setTimeout(look, 500);
        """
    )


def drawing(chromium: Any, chart: str) -> str:
    """The paths and texts of one chart as they are drawn now, or the words in its place."""
    script = """
        const plot = document.querySelector(`[data-spec='${arguments[0]}']`);
        const none = plot.closest("figure").querySelector(".none");
        return plot.hidden ? none.textContent : plot.querySelector("svg").outerHTML;
    """
    drawn = str(chromium.execute_script(script, chart))
    # Vega counts clip paths over the page's life and leaves those no longer used behind.
    return re.sub(r"<defs>.*?</defs>|clip\d+", "", drawn, flags=re.DOTALL)


def choose(chromium: Any, name: str, value: str) -> None:
    """Set one control of the page as a reader would, and wait until the charts have followed."""
    chromium.execute_async_script(
        """
        const [name, value, done] = arguments;
        const controls = Array.from(document.querySelectorAll(`#controls [name='${name}']`));
        const wanted = controls.find((each) => each.tagName === 'SELECT' || each.value === value);
        if (wanted.tagName === 'SELECT') { wanted.value = value; } else { wanted.checked = true; }
        for (const kind of ['input', 'change']) {
          wanted.dispatchEvent(new Event(kind, {bubbles: true}));
        }
        const root = document.documentElement;
        const look = () =>
          JSON.parse(root.dataset.shown)[name] === value ? done() : setTimeout(look, 5);
        look();
        """,
        name,
        value,
    )


def chosen(chromium: Any, name: str) -> str:
    """What a control of the page says now."""
    script = "return new FormData(document.getElementById('controls')).get(arguments[0])"
    return str(chromium.execute_script(script, name))


def charts(chromium: Any) -> list[str]:
    """The names of the charts on the page, in its order."""
    script = "return Array.from(document.querySelectorAll('[data-spec]'), e => e.dataset.spec)"
    return list(chromium.execute_script(script))


def count(chromium: Any, chart: str, selector: str) -> int:
    """How many elements of ``chart`` match and are wider than a pixel."""
    script = (
        "return Array.from(document.querySelectorAll("
        "`[data-spec='${arguments[0]}'] svg ${arguments[1]}`))"
        ".filter((path) => path.getBoundingClientRect().width > 1).length"
    )
    return int(chromium.execute_script(script, chart, selector))
