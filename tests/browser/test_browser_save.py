"""The buttons that save a chart: as it is shown, in the light appearance."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from mansard.analytics.data.ingest import ingest
from mansard.analytics.pages.figures.charting import DARK, LIGHT
from mansard.analytics.pages.report.write import write_report
from tests.analytics.factory import write_two_modes
from tests.analytics.score_factory import layer, score, write_scores
from tests.browser import pages
from tests.browser.pages import MARKS

pytestmark = MARKS
# What a click would save: a browser without a window saves nothing.
_KEEP = """
const blobs = new Map();
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { const url = make(blob); blobs.set(url, blob); return url; };
window.saved = [];
HTMLAnchorElement.prototype.click = async function () {
  const blob = blobs.get(this.href);
  const data = blob ? `,${encodeURIComponent(await blob.text())}` : this.href;
  window.saved.push([this.download, data]);
};
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = write_two_modes(tmp_path_factory.mktemp("runs"))
    write_scores(runs, [score("net", [layer(0, 10**9, 10**7)])])
    return write_report(ingest(runs), runs / "report.html")


def saved(chromium: Any, chart: str, form: str) -> tuple[str, bytes]:
    """The name and the content of what the button ``form`` of ``chart`` saves."""
    from selenium.webdriver.support.ui import WebDriverWait

    chromium.execute_script(_KEEP)
    chromium.execute_script(
        "[...document.querySelector(`[data-spec='${arguments[0]}']`).parentElement"
        ".querySelectorAll('.save button')].find((each) => each.textContent === arguments[1])"
        ".click()",
        chart,
        form,
    )
    WebDriverWait(chromium, 60).until(lambda view: view.execute_script("return saved.length"))
    name, url = chromium.execute_script("return saved[0]")
    head, _, data = url.partition(",")
    content = base64.b64decode(data) if head.endswith(";base64") else unquote(data).encode()
    return name, content


def test_a_chart_of_a_dark_page_is_saved_light(chromium: Any, report: Path) -> None:
    n_charts = report.read_text("utf-8").count("data-spec=")
    pages.load(chromium, report, n_charts, "dark")
    shown = pages.drawing(chromium, "roofline")
    name, svg = saved(chromium, "roofline", "SVG")
    assert name == "mansard-roofline.svg"
    text = svg.decode()
    assert text.startswith("<svg")
    assert LIGHT.ink in text
    assert DARK.ink not in text
    assert DARK.ink in shown  # the page itself stays dark
    assert pages.drawing(chromium, "roofline") == shown
    mode = chromium.execute_script("return JSON.parse(document.documentElement.dataset.shown).mode")
    assert mode in text
    name, png = saved(chromium, "roofline", "PNG")
    assert name == "mansard-roofline.png"
    assert png.startswith(b"\x89PNG")


def test_every_chart_has_its_buttons_once(chromium: Any, report: Path) -> None:
    n_charts = report.read_text("utf-8").count("data-spec=")
    pages.load(chromium, report, n_charts)
    labels = chromium.execute_script(
        "return [...document.querySelectorAll('.save button')]"
        ".map((each) => each.getAttribute('aria-label'))"
    )
    assert labels == ["Save this chart as SVG", "Save this chart as PNG"] * n_charts
