"""The page about a score in a real browser: drawn, silent, and nothing foreign runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mansard.analytics.pages.report.answer_pages import write_score_page
from tests.analytics.factory import HOSTILE, write_two_modes
from tests.analytics.score_factory import layer, score
from tests.browser.pages import MARKS, load

pytestmark = MARKS


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scores")
    runs = write_two_modes(folder / "runs")
    plain = [layer(at, 10**7 * (at + 1), 10**6, name=f"conv {at}") for at in range(60)]
    hostile = [layer(at, 10**6, 10**7, name=HOSTILE, op_type=HOSTILE) for at in range(5)]
    path = folder / "page.html"
    write_score_page([score("net", plain), score(HOSTILE, hostile)], path, runs)
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_of_the_layers_is_drawn(chromium: Any, page: Path, scheme: str) -> None:
    load(chromium, page, 5, scheme)  # the roofline, and two charts for each of two networks
    assert chromium.get_log("browser") == []
    drawn = "return document.querySelectorAll(arguments[0]).length"
    assert chromium.execute_script(drawn, "[data-spec='shares-0'] svg .mark-rect path") == 60
    assert chromium.execute_script(drawn, "[data-spec='spread-0'] svg .mark-symbol path") >= 60
    text = chromium.execute_script("return document.body.outerHTML")
    assert "NaN" not in text.split("<script")[0]


def test_nothing_is_asked_of_a_network_and_no_name_becomes_markup(
    chromium: Any, page: Path
) -> None:
    load(chromium, page, 5)
    requests = [
        json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")
    ]
    asked = [
        event["params"]["request"]["url"]
        for event in requests
        if event["method"] == "Network.requestWillBeSent"
    ]
    assert asked
    assert all(url.split(":")[0] in {"file", "data", "blob"} for url in asked)
    assert chromium.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
